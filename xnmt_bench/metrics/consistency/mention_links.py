"""Which words of a translation are linked to a mention: by eflomal, by a file, by relevance."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from xnmt_bench.corpora.formats.alignment import AlignmentFile, to_pharaoh
from xnmt_bench.corpora.sentence import Corpus, Links, Sentence
from xnmt_bench.corpora.suites.consistency.outputs import pairs
from xnmt_bench.corpora.suites.consistency.pronouns import bare
from xnmt_bench.corpora.suites.consistency.suite import Suite
from xnmt_bench.corpora.text import present
from xnmt_bench.corpora.tokens import align_tokens, split_words
from xnmt_bench.errors import DataError, NotApplicable
from xnmt_bench.parquet import read_table, write_table
from xnmt_bench.pipeline.weighed_sentences import WeighedSentences, require_words, skip_unreadable
from xnmt_bench.store import Stage, Store, file_hash, fingerprint
from xnmt_bench.words import Tokens
from xnmt_bench.words.eflomal import align, aligner
from xnmt_bench.words.pieces import best_links

log = logging.getLogger(__name__)
EFLOMAL, GOLD, EXPLAINER, RULE = WAYS = ("eflomal", "gold", "explainer", "rule")
TRAIN = "train"
FILE = "links.parquet"
ANY = 10**6  # words of a sentence that was not translated
Pairs = Mapping[int, tuple[str, str]]  # source and translation by the sentence's number


def by_eflomal(
    store: Store, pairs_by_number: Pairs, learn_from: Path | Corpus | None = None
) -> tuple[Stage, dict[int, Links]]:
    """Return the union of eflomal's two directions, over words that stand between blanks.

    Args:
        store: that keeps them: eflomal has no seed, so another run's are others.
        pairs_by_number: what is linked.
        learn_from: what else eflomal learns from: a file of sources and translations, or a corpus's
            training sentences.

    Raises:
        DataError: all translations are empty, or the file is not readable.
        NotApplicable: eflomal is not installed.
    """

    def link(folder: Path) -> dict[int, Links]:
        # eflomal cannot align an empty sentence.
        spoken = {n: pair for n, pair in pairs_by_number.items() if pair[1].strip()}
        if not spoken:
            raise DataError("translations", None, "all translations are empty")
        # A list, since both directions read it.
        aligned = list(_sentences(spoken.values()))
        forward, backward = align(aligned, _sentences(_more(learn_from)), folder)
        united = {
            n: links | turned for n, links, turned in zip(spoken, forward, backward, strict=True)
        }
        # An empty translation has no links, and still is a sentence.
        return {n: united.get(n, frozenset()) for n in pairs_by_number}

    learnt = (
        learn_from.recipe("train")
        if isinstance(learn_from, Corpus)
        else learn_from and file_hash(present(learn_from))
    )
    return _store_links(store, link, _pairs_id(pairs_by_number), made_by=aligner(), more=learnt)


def of_file(
    store: Store, path: Path, pairs_by_number: Pairs, sentences: int
) -> tuple[Stage, dict[int, Links]]:
    """Return the links of a file in Pharaoh's form.

    Args:
        store: that keeps them.
        path: a line for each sentence of the suite.
        pairs_by_number: those of them that were translated.
        sentences: how many there are.

    Raises:
        DataError: the file has other sentences, or a link is out of range.
    """

    def link(_: Path) -> dict[int, Links]:
        # A line of a sentence that was not translated cannot be checked for its range.
        lengths = [(ANY, ANY)] * sentences
        problem = (
            "words are separated by other blanks than ' '; links that count words may be shifted"
        )
        for number, pair in pairs_by_number.items():
            source, target = map(split_words, pair)
            lengths[number] = len(source), len(target)
            # Other tools split only at ' ', where a no-break space holds two words together.
            if [source, target] != [_single(text).split(" ") for text in pair]:
                log.warning("%s:%d: %s", path, number + 1, problem)
        alignments = AlignmentFile(path).read(lengths)
        return {n: alignments[n].sure for n in pairs_by_number}

    return _store_links(store, link, _pairs_id(pairs_by_number), made_by=file_hash(present(path)))


def _single(text: str) -> str:
    """Return the text with one blank in place of several."""
    return re.sub(" +", " ", text.strip(" "))


def _store_links(
    store: Store, link: Callable[[Path], Mapping[int, Links]], linked_id: str, **recipe: Any
) -> tuple[Stage, dict[int, Links]]:
    """Store links and read them back; `linked_id` is a fingerprint of what is linked."""

    def work(folder: Path) -> None:
        links = link(folder)
        columns = {"sentence": list(links), "links": list(map(to_pharaoh, links.values()))}
        write_table(pa.table(columns), folder / FILE)

    artefact = store.stage("consistency_links", work, version=5, cheap=True, of=linked_id, **recipe)
    return artefact, read_links(artefact.path / FILE)


def _pairs_id(pairs_by_number: Pairs) -> str:
    return fingerprint({"pairs": [[n, *pair] for n, pair in pairs_by_number.items()]})


def of_relevance(
    store: Store, weighed_sentences: WeighedSentences, pairs_by_number: Pairs
) -> tuple[Stage, dict[int, Links]]:
    """Link each target word to the source word of greatest relevance, in the explained sentences.

    Args:
        store: that keeps them.
        weighed_sentences: of these translations, on words as the system cuts them.
        pairs_by_number: what is linked.
    """

    def link(_: Path) -> dict[int, Links]:
        links = {}
        for sentence in skip_unreadable(require_words(weighed_sentences)):
            best = best_links(
                sentence.weights_TS, sentence.source.words, sentence.target.words, sentence.blind
            )
            sides = (sentence.source, sentence.target)
            texts = map(split_words, pairs_by_number[sentence.number])
            source, target = map(carried, sides, texts)
            # Words of the suite and not of the system, since pronouns are placed in those.
            links[sentence.number] = frozenset(
                # A system's word may be two of the suite's, and then links to both.
                (s, t)
                for i, j in best
                for s in source.get(i, ())
                for t in target.get(j, ())
            )
        return links

    made_by = weighed_sentences.fingerprint
    return _store_links(store, link, _pairs_id(pairs_by_number), made_by=made_by)


def of_gold(store: Store, sentences: Mapping[int, Sentence]) -> tuple[Stage, dict[int, Links]]:
    """Return the sure links of annotated sentences.

    Raises:
        NotApplicable: there are none.
    """
    # Only sure links: a possible one may be an annotator's doubt.
    gold_links = {n: s.gold.sure for n, s in sentences.items() if s.gold}
    if not any(gold_links.values()):
        raise NotApplicable("these sentences have no gold word alignment")
    links_id = fingerprint({"links": [[n, to_pharaoh(links)] for n, links in gold_links.items()]})
    return _store_links(store, lambda _: gold_links, links_id)


def of_rule(store: Store, suite: Suite, pairs_by_number: Pairs) -> tuple[Stage, dict[int, Links]]:
    """Return the links that a generated suite tells from the form of its sentences.

    Raises:
        NotApplicable: the suite has no rule.
    """
    # A generated suite knows the form of its sentences, and needs no statistics.
    rule = suite.link_words
    if rule is None:
        raise NotApplicable(f"links=rule: the suite {suite.name} has no rule that links words")

    def link(_: Path) -> dict[int, Links]:
        return {n: rule(*pair) for n, pair in pairs_by_number.items()}

    made_by = f"rule of {suite.fingerprint}"
    return _store_links(store, link, _pairs_id(pairs_by_number), made_by=made_by)


def linked(pairs: Links, sources: Sequence[int]) -> list[int]:
    """Return the target words of source words, in the order of these."""
    # Sorted, since a set has no order; each target word once.
    return list(dict.fromkeys(t for s, t in sorted(pairs) if s in sources))


def from_pharaoh(text: str) -> Links:
    """Read links in their stored form."""
    ends = (link.split("-") for link in text.split())
    return frozenset((int(source), int(target)) for source, target in ends)


def read_links(path: Path) -> dict[int, Links]:
    """Return the links of each sentence."""
    columns = read_table(path).to_pydict()
    return dict(zip(columns["sentence"], map(from_pharaoh, columns["links"]), strict=True))


def _more(learn_from: Path | Corpus | None) -> Iterator[tuple[str, str]]:
    if isinstance(learn_from, Corpus):
        yield from ((s.source, s.target) for s in learn_from.sentences("train"))
    elif learn_from is not None:
        yield from pairs(learn_from)


def _sentences(texts: Iterable[tuple[str, str]]) -> Iterator[Sentence]:
    """Yield pairs in the form that is aligned."""
    for number, (source, target) in enumerate(texts):
        yield Sentence(_bare(source), _bare(target), str(number), 0)


def _bare(text: str) -> str:
    """Return as many words in lower case, without the punctuation at their ends."""
    # A word of only punctuation stays, or places would move.
    return " ".join(bare(word) or word for word in split_words(text))


def carried(tokens: Tokens, words: Sequence[str]) -> dict[int, list[int]]:
    """Map each of a system's words to the words of a text that share letters with it.

    Both are cuts of one text, so letters tell; else the cheapest edits do.
    """
    # A word without a piece is not among them.
    in_words = tokens.whole()
    pairs_of_words = zip(in_words.words, in_words.pieces, strict=True)
    by_number = {number: word for number, word in pairs_of_words if number >= 0}
    numbers, token_words = list(by_number), list(by_number.values())
    # Tokenisers may change letters, as quotes; then counting letters would drift.
    if "".join(token_words) != "".join(words):
        return {numbers[i]: [j] for i, j in align_tokens(token_words, words)}
    token_word_of = [n for n, word in by_number.items() for _ in word]  # of each letter
    text_word_of = [n for n, word in enumerate(words) for _ in word]
    # By letters, since both texts are equal but for their blanks.
    places: dict[int, list[int]] = {}
    for i, j in dict.fromkeys(zip(token_word_of, text_word_of, strict=True)):
        places.setdefault(i, []).append(j)
    return places
