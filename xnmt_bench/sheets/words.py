"""Which words of the source decide this word of the target? No explainer is in sight."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.corpora.vocabulary.subwords import WORD_START
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.rules.sample import read_sample
from xnmt_bench.rules.table import shard_relevance
from xnmt_bench.sheets.files import BLIND, RELEVANCE
from xnmt_bench.sheets.sheet import SYSTEM, Item, Question, SheetKind, ShownText, joined_numbers
from xnmt_bench.words.pieces import to_words
from xnmt_bench.words.weighed import EOS_TOKEN

SPECIAL = {"<s>", EOS_TOKEN, "<pad>"}  # as vocabularies write them
SAMPLE, WEIGHTS = "sample", "browsed_relevance"  # of a measurement's files
DECIDING = "deciding"


class WordsSheet(SheetKind):
    """Decisions that `metric=[fidelity]` kept, one word of the target marked in each."""

    name = "words"
    metric = "fidelity"
    made_by = "train.py metric=[fidelity] for each explainer"
    title = "Which words decide?"
    instruction = (
        "One word of the translation is marked. Choose the words of the source that a translator "
        "needs in order to write it: the word that it translates, and any other without which "
        "another word, or another form of it, would be right. Choose as few as you can; choose "
        "none where the source does not matter."
    )
    questions = (
        Question(DECIDING, "Which words of the source decide the marked word?", words_of="source"),
    )

    def items(self, measurements: Sequence[Measurement]) -> Iterator[Item]:
        """Yield the words that the system itself would write; see `SheetKind`."""
        explained: dict[tuple[Any, ...], list[Measurement]] = defaultdict(list)
        sampled: dict[tuple[Any, ...], Measurement] = {}
        for m in sorted(measurements, key=lambda m: str(m.identity["seed"])):
            system = (*(m.identity[c] for c in (*SYSTEM, "scenario")), m.model)
            if WEIGHTS in m.files and not m.facts.alters:
                explained[system].append(m)
            if SAMPLE in m.files:
                sampled.setdefault(system, m)
        for system in sorted(sampled.keys() & explained.keys(), key=str):
            identity = dict(zip((*SYSTEM, "scenario"), map(str, system), strict=False))
            weights_of = {
                column: {r.number: r.source_TS for r in shard_relevance(path)}
                for column, path in relevance_files(explained[system], WEIGHTS, "blind").items()
            }
            for sentence in read_sample(sampled[system].file(SAMPLE)):
                yield from _sentence_items(sentence, identity, weights_of)


def relevance_files(
    measurements: Iterable[Measurement], name: str, blind_fact: str
) -> dict[str, Path]:
    """Return the file with each explainer's relevance, by the explainer's column in the key.

    Args:
        measurements: rows of results of one system.
        name: of the file in a row.
        blind_fact: the fact of a row that says whether its explainer is blind.
    """
    files: dict[str, Path] = {}
    # Relevance is the same in every row of an explainer but for the seed; the first seed counts.
    in_order = sorted(
        measurements, key=lambda m: (m.identity["explainer"], str(m.identity["seed"]))
    )
    for m in in_order:
        column = f"{BLIND if getattr(m.facts, blind_fact) else RELEVANCE}{m.identity['explainer']}"
        # `file` reads the whole file, so that it is asked once for each explainer.
        if name in m.files and column not in files:
            files[column] = m.file(name)
    return files


def _sentence_items(
    sentence: Mapping[str, Any],
    identity: Mapping[str, str],
    weights_of: Mapping[str, Mapping[int, np.ndarray]],
) -> Iterator[Item]:
    """Yield the words of one sentence.

    Args:
        sentence: of `read_sample`.
        identity: the key's first columns.
        weights_of: for each explainer, relevance (T, S) of source pieces by sentence.
    """
    source_words, source = _words(sentence["source"])
    pieces, labels = sentence["target"], sentence["labels"]
    target_words, target = _words(pieces)
    steps = {step: row for row, step in enumerate(sentence["steps"])}
    for number, word in enumerate(target):
        places = [place for place, of in enumerate(target_words) if of == number]
        # Under teacher forcing the label may be another word than the one that is shown.
        decided = all(p in steps and labels[steps[p]] == pieces[p] for p in places)
        if not decided or not any(character.isalnum() for character in word):
            continue
        # One word: its steps are averaged, and -1 leaves the other steps out.
        rows = [0 if place in places else -1 for place in sentence["steps"]]
        relevance = {}
        for column, weights in weights_of.items():
            if sentence["number"] in weights:
                scores_TS, blind = weights[sentence["number"]], column.startswith(BLIND)
                [scores] = to_words(scores_TS, rows, source_words, blind=blind)
                relevance[column] = joined_numbers(scores)
        yield Item(
            [ShownText("source", source, numbered=True), ShownText("target", target, [number])],
            {**identity, "number": str(sentence["number"]), "word": str(number + 1), **relevance},
        )


def _words(pieces: Sequence[str]) -> tuple[list[int], list[str]]:
    """Return the word of each piece, -1 for a special one, and the words."""
    numbers, words = list[int](), list[str]()
    for place, piece in enumerate(pieces):
        if piece in SPECIAL:
            numbers.append(-1)
            continue
        # What stands behind a special piece begins a word even without its mark.
        if piece.startswith(WORD_START) or not words or numbers[place - 1] < 0:
            words.append("")
        words[-1] += piece.removeprefix(WORD_START)
        numbers.append(len(words) - 1)
    return numbers, words
