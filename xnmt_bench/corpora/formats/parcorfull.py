"""ParCorFull 2.0 (Lapshinova-Koltunski et al. 2022): parallel documents with coreference chains."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from xnmt_bench.corpora.formats.mmax import Document, document_names, read_document
from xnmt_bench.corpora.sentence import Corpus, Gold, Mention, Sentence, Split, languages
from xnmt_bench.corpora.tokens import VERSION, align_tokens, detokenizer, split_words, tokenizer
from xnmt_bench.errors import DataError
from xnmt_bench.options import Text
from xnmt_bench.store import file_hash

log = logging.getLogger(__name__)
# Sentences, tokens, mentions and chains as Dinarelli et al. (2024) counted them.
TABLE_1 = {"en": (2280, 42798, 4206, 425), "de": (2280, 40261, 3377, 306)}
HEADLINE = ("DiscoMT", "news")  # the parts that are 1:1 by sentence; others are in the name


@dataclass(frozen=True)
class Side:
    """One side of a sentence as the corpus has it: its tokens and mentions."""

    tokens: list[str]
    mentions: Sequence[Mention]


class ParCorFull(Corpus):
    """Trains and validates on another corpus, tests on ParCorFull's documents.

    The corpus's own tokens are joined to raw text, which is tokenised again as the training data
    are; mentions are carried over by edit distance with swaps.

    Args:
        training: where the training and validation splits come from, and both languages.
        root: the folder of `<part>/<LANGUAGE>/{Basedata,Markables}`.
        parts: such as DiscoMT and news. Documents whose sides differ in their number of sentences
            are aligned by length (Gale and Church 1993, from NLTK).
        tokenizer: as the training corpus's.
        needed: an attribute of mentions that says `yes` or `no` to whether their context is needed.
        name: the corpus's name in results.

    Raises (when read):
        DataError: text or sentences of a document are not readable. Mentions that are not are
            reported by file and line, and the document goes on without them.
    """

    def __init__(
        self,
        training: Corpus,
        root: Text | Path,
        parts: Sequence[Text],
        tokenizer: Literal["moses"] | None = "moses",
        needed: Text | None = None,
        name: Text = "parcorfull",
    ) -> None:
        self.name = name if set(parts) == set(HEADLINE) else f"{name}/{'+'.join(parts)}"
        self.source_language, self.target_language = languages(training)
        self._training, self._root, self._parts = training, Path(root), list(parts)
        self.tokenizer, self._needed = tokenizer, needed

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Stream a split."""
        yield from self._test if split == "test" else self._training.sentences(split)

    @cached_property
    def statistics(self) -> dict[str, Counter[str]]:
        """Counts of each side by language, to be compared with the paper's Table 1.

        Tokens are the corpus's own, mentions those that belong to a chain. Tokens of mentions are
        matched if the system's tokenisation has them unchanged.
        """
        statistics = {language: Counter[str]() for language in languages(self)}
        # Documents name their chains alike, so a chain is known by its document too.
        chains: dict[str, set[tuple[str, str]]] = {language: set() for language in statistics}
        for document, pairs in self._documents():
            for language, side in (s for pair in pairs for s in zip(statistics, pair, strict=True)):
                words, place = self._retokenised(side.tokens, language)
                mentioned = [i for mention in side.mentions for i in mention.words]
                matched = (i in place and words[place[i]] == side.tokens[i] for i in mentioned)
                statistics[language].update(
                    sentences=1,
                    tokens=len(side.tokens),
                    mentions=len(side.mentions),
                    mention_tokens=len(mentioned),
                    matched=sum(matched),
                )
                chains[language] |= {(document, mention.chain) for mention in side.mentions}
        for language, counts in statistics.items():
            counts["chains"] = len(chains[language])
        return statistics

    def words(self, text: str, language: str) -> str:
        """Return the words as the training corpus has them."""
        return self._training.words(text, language)

    def raw(self, text: str, language: str) -> str:
        """Return the text as the training corpus has it, or without this corpus's tokenisation."""
        raw = self._training.raw(text, language)
        # Twice would glue quotes to words.
        done = self._training.tokenizer or not self.tokenizer
        return raw if done else detokenizer(language)(split_words(raw))

    def counts(self) -> Iterator[str]:
        """Return counts of each side, with those of Dinarelli et al. (2024), Table 1."""
        for language, statistics in self.statistics.items():
            paper = ", ".join(map(str, TABLE_1.get(language, ("not there",))))
            matched = 100 * statistics["matched"] / max(1, statistics["mention_tokens"])
            names = ("sentences", "tokens", "mentions", "chains")
            counted = ", ".join(f"{statistics[name]} {name}" for name in names)
            yield (
                f"{language}: {counted} (Table 1 of the paper: {paper}); {matched:.1f} % "
                "of the mentions' tokens are unchanged in the tokenised raw text"
            )

    @cached_property
    def _test(self) -> list[Sentence]:
        sentences = []
        for document, pairs in self._documents():
            for position, pair in enumerate(pairs):
                texts, mentions = [], []
                for side, language in zip(pair, languages(self), strict=True):
                    words, place = self._retokenised(side.tokens, language)
                    # Chains have the same names in every document.
                    chained = [replace(m, chain=f"{document}/{m.chain}") for m in side.mentions]
                    text = " ".join(words)
                    texts.append(text.lower() if self._lowercase else text)
                    mentions.append(carried(chained, place))
                gold = Gold(source_mentions=mentions[0], target_mentions=mentions[1])
                sentences.append(Sentence(texts[0], texts[1], document, position, gold))
        return sentences

    def _documents(self) -> Iterator[tuple[str, list[tuple[Side, Side]]]]:
        for part in self._parts:
            folders = [self._root / part / language.upper() for language in languages(self)]
            names, target_names = map(document_names, folders)
            for name in sorted({*names} ^ {*target_names}):
                lacking = folders[name in names]
                raise DataError(
                    lacking, None, f"document {name} is missing; the other language has it"
                )
            for name in names:
                source, target = (read_document(f, name, self._needed) for f in folders)
                for side in (source, target):
                    if side.problem:
                        log.warning("%s; the document goes on without mentions", side.problem)
                yield f"{part}/{name}", _paired(source, target, folders[0])

    def _retokenised(self, tokens: list[str], language: str) -> tuple[list[str], dict[int, int]]:
        """Return the words as the system reads them, and where each token is among them."""
        # Through raw text: the corpus's tokens are cut otherwise than the system's training data.
        raw = detokenizer(language)(tokens)
        words = split_words(tokenizer(self.tokenizer, language)(raw))
        return words, dict(align_tokens(tokens, words))

    @property
    def _lowercase(self) -> bool:
        """Whether the training data are in small letters."""
        return self._training.words("A", self.source_language) == "a"

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the training corpus's recipe and the bytes of every file."""
        folders = [self._root / p / x.upper() for p in self._parts for x in languages(self)]
        # Sorted, since file systems list folders in any order.
        files = sorted(path for folder in folders for path in folder.glob("*/*.xml"))
        if not files:
            raise DataError(self._root, None, f"no XML files of {', '.join(self._parts)} are here")
        return {
            "kind": "parcorfull",
            "training": self._training.recipe(),
            "files": {str(p.relative_to(self._root)): file_hash(p) for p in files},
            "tokenizer": self.tokenizer and f"{self.tokenizer} {VERSION}",
            "needed": self._needed,
            "lowercase": self._lowercase,
            # Sentences are numbered in the order of the parts.
            "parts": self._parts,
        }


def carried(mentions: Iterable[Mention], place: Mapping[int, int]) -> tuple[Mention, ...]:
    """Return mentions on another tokenisation or wording of their sentence.

    Args:
        mentions: on the tokens of one.
        place: where each of these tokens is in the other, from `align_tokens`. A mention none of
            whose tokens has a counterpart is left out.
    """
    # A set, since two tokens may have become one word.
    moved = (
        replace(m, words=tuple(sorted({place[i] for i in m.words if i in place}))) for m in mentions
    )
    return tuple(m for m in moved if m.words)


def _paired(source: Document, target: Document, folder: Path) -> list[tuple[Side, Side]]:
    """Return the sentence pairs of a document; sentences without a counterpart are left out.

    Raises:
        DataError: the sides differ, and NLTK is not installed.
    """
    source_sides, target_sides = (
        [Side(tokens, mentions) for tokens, mentions in zip(d.sentences, d.mentions, strict=True)]
        for d in (source, target)
    )
    # Equal numbers are taken as aligned, as the corpus's two main parts are.
    if len(source_sides) == len(target_sides):
        return list(zip(source_sides, target_sides, strict=True))
    try:
        from nltk.translate.gale_church import align_blocks
    except ImportError:
        problem = (
            f"document {source.name} has {len(source_sides)} source and {len(target_sides)} target "
            "sentences; to align them install a sentence aligner: pip install -e '.[align]'"
        )
        raise DataError(folder, None, problem) from None
    beads: list[tuple[set[int], set[int]]] = []  # sentences that belong together
    lengths = (
        [sum(map(len, side.tokens)) for side in sides] for sides in (source_sides, target_sides)
    )
    for i, j in align_blocks(*lengths):
        # The aligner yields pairs; those that share a sentence belong to one bead.
        if not beads or (i not in beads[-1][0] and j not in beads[-1][1]):
            beads.append((set(), set()))
        beads[-1][0].add(i)
        beads[-1][1].add(j)
    return [
        (
            _merged([source_sides[i] for i in sorted(x)]),
            _merged([target_sides[j] for j in sorted(y)]),
        )
        for x, y in beads
    ]


def _merged(sides: list[Side]) -> Side:
    tokens: list[str] = []
    mentions: list[Mention] = []
    for side in sides:
        start = len(tokens)
        mentions += [replace(m, words=tuple(start + i for i in m.words)) for m in side.mentions]
        tokens += side.tokens  # behind the mentions, whose places start there
    return Side(tokens, mentions)
