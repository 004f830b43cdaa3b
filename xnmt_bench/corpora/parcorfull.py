"""ParCorFull 2.0 (Lapshinova-Koltunski et al. 2022): parallel documents with coreference chains."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from xnmt_bench.corpora.mmax import Document, document_names, read_document
from xnmt_bench.corpora.sentence import Corpus, Gold, Mention, Sentence, Split
from xnmt_bench.corpora.tokens import align_tokens, detokenizer, tokenizer
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.store import file_hash

log = logging.getLogger(__name__)
# Sentences, tokens, mentions and chains as Dinarelli et al. (2024) counted them.
TABLE_1 = {"en": (2280, 42798, 4206, 425), "de": (2280, 40261, 3377, 306)}
HEADLINE = ("DiscoMT", "news")  # the parts that are 1:1 by sentence; others stand in the name


@dataclass(frozen=True)
class Side:
    """One side of a sentence as the corpus has it: its tokens and mentions."""

    tokens: list[str]
    mentions: Sequence[Mention]


@dataclass
class Statistics:
    """Counts of one side, to be laid beside the paper's Table 1.

    Attributes:
        sentences: number of sentences.
        tokens: the corpus's tokens.
        mentions: mentions that belong to a chain.
        chains: coreference chains.
        mention_tokens: tokens of mentions.
        matched: those of them that the system's tokenisation has unchanged.
    """

    sentences: int = 0
    tokens: int = 0
    mentions: int = 0
    chains: int = 0
    mention_tokens: int = 0
    matched: int = 0


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
        root: str | Path,
        parts: Sequence[str],
        tokenizer: str | None = "moses",
        needed: str | None = None,
        name: str = "parcorfull",
    ) -> None:
        self.name = name if set(parts) == set(HEADLINE) else f"{name}/{'+'.join(parts)}"
        self._tokenizer = tokenizer
        self.source_language = training.source_language
        self.target_language = training.target_language
        self._training, self._root, self._parts = training, Path(root), list(parts)
        self._needed = needed

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Streams a split."""
        yield from self._test if split == "test" else self._training.sentences(split)

    @cached_property
    def statistics(self) -> dict[str, Statistics]:
        """Counts of each side, by language."""
        found = {language: Statistics() for language in self._languages}
        chains: dict[str, set[tuple[str, str]]] = {language: set() for language in found}
        for document, pairs in self._documents():
            for pair in pairs:
                for language, side in zip(found, pair, strict=True):
                    counts = found[language]
                    counts.sentences += 1
                    counts.tokens += len(side.tokens)
                    counts.mentions += len(side.mentions)
                    chains[language] |= {(document, m.chain) for m in side.mentions}
                    words = self._retokenised(side.tokens, language)
                    place = dict(align_tokens(side.tokens, words))
                    for mention in side.mentions:
                        counts.mention_tokens += len(mention.words)
                        counts.matched += sum(
                            i in place and words[place[i]] == side.tokens[i] for i in mention.words
                        )
        for language, counts in found.items():
            counts.chains = len(chains[language])
        return found

    def raw(self, text: str, language: str) -> str:
        """As the training corpus has it, or without this corpus's own tokenisation."""
        raw = self._training.raw(text, language)
        return self._detokenize[language](text.split()) if self._tokenizer and raw == text else raw

    def counts(self) -> Iterator[str]:
        """Counts of each side, beside those of Dinarelli et al. (2024), Table 1."""
        for language, own in self.statistics.items():
            paper = ", ".join(map(str, TABLE_1.get(language, ("not there",))))
            matched = 100 * own.matched / max(1, own.mention_tokens)
            yield (
                f"{language}: {own.sentences} sentences, {own.tokens} tokens, {own.mentions} "
                f"mentions, {own.chains} chains (Table 1 of the paper: {paper}); {matched:.1f} % "
                "of the mentions' tokens are unchanged in the tokenised raw text"
            )

    @property
    def _languages(self) -> tuple[str, str]:
        return self.source_language, self.target_language

    @cached_property
    def _test(self) -> list[Sentence]:
        made = []
        for document, pairs in self._documents():
            for position, pair in enumerate(pairs):
                (x, source), (y, target) = (
                    self._carried(side, language, document)
                    for side, language in zip(pair, self._languages, strict=True)
                )
                gold = Gold(source_mentions=source, target_mentions=target)
                made.append(Sentence(x, y, document, position, gold))
        return made

    def _documents(self) -> Iterator[tuple[str, list[tuple[Side, Side]]]]:
        for part in self._parts:
            folders = [self._root / part / language.upper() for language in self._languages]
            for names in zip(*map(document_names, folders), strict=True):
                sides = [
                    read_document(f, n, self._needed) for f, n in zip(folders, names, strict=True)
                ]
                for side in sides:
                    if side.problem:
                        log.warning("%s; the document goes on without mentions", side.problem)
                yield f"{part}/{names[0]}", _paired(*sides)

    def _retokenised(self, tokens: list[str], language: str) -> list[str]:
        raw = self._detokenize[language](tokens)
        return self._tokenize[language](raw).split()

    @cached_property
    def _detokenize(self) -> dict[str, Any]:
        return {language: detokenizer(language) for language in self._languages}

    @cached_property
    def _tokenize(self) -> dict[str, Any]:
        return {language: tokenizer(self._tokenizer, language) for language in self._languages}

    def _carried(self, side: Side, language: str, document: str) -> tuple[str, tuple[Mention, ...]]:
        """The text as the system reads it, and the mentions on its words."""
        words = self._retokenised(side.tokens, language)
        chained = [replace(m, chain=f"{document}/{m.chain}") for m in side.mentions]
        return " ".join(words), carried(chained, dict(align_tokens(side.tokens, words)))

    def recipe(self) -> dict[str, Any]:
        """The training corpus's recipe and the bytes of every file."""
        folders = [self._root / p / x.upper() for p in self._parts for x in self._languages]
        files = sorted(path for folder in folders for path in folder.glob("*/*.xml"))
        if not files:
            raise DataError(self._root, None, f"no XML files of {', '.join(self._parts)} are here")
        return {
            "kind": "parcorfull",
            "training": self._training.recipe(),
            "files": {str(p.relative_to(self._root)): file_hash(p) for p in files},
            "tokenizer": self._tokenizer,
            "needed": self._needed,
        }


def carried(mentions: Iterable[Mention], place: Mapping[int, int]) -> tuple[Mention, ...]:
    """Mentions on another tokenisation or wording of their sentence.

    Args:
        mentions: on the tokens of one.
        place: where each of these tokens is in the other, from `align_tokens`. A mention none of
            whose tokens has a counterpart is left out.
    """
    moved = (
        replace(m, words=tuple(sorted({place[i] for i in m.words if i in place}))) for m in mentions
    )
    return tuple(m for m in moved if m.words)


def _paired(source: Document, target: Document) -> list[tuple[Side, Side]]:
    """The sentence pairs of a document."""
    sides = [
        [Side(t, m) for t, m in zip(d.sentences, d.mentions, strict=True)] for d in (source, target)
    ]
    if len(sides[0]) == len(sides[1]):
        return list(zip(*sides, strict=True))
    lengths = [[sum(map(len, side.tokens)) for side in part] for part in sides]
    return [
        (_merged([sides[0][i] for i in ours]), _merged([sides[1][j] for j in theirs]))
        for ours, theirs in _beads(*lengths)
    ]


def _beads(source: list[int], target: list[int]) -> list[tuple[list[int], list[int]]]:
    """Sentences that belong together, by their lengths; those without a counterpart are left out.

    Raises:
        XnmtError: NLTK is not installed.
    """
    try:
        from nltk.translate.gale_church import align_blocks
    except ImportError:
        raise XnmtError(
            "documents whose sides differ need a sentence aligner; pip install -e '.[align]'"
        ) from None
    beads: list[tuple[list[int], list[int]]] = []
    for i, j in align_blocks(source, target):
        if not beads or (i not in beads[-1][0] and j not in beads[-1][1]):
            beads.append(([], []))
        ours, theirs = beads[-1]
        ours += [i] * (i not in ours)
        theirs += [j] * (j not in theirs)
    return beads


def _merged(sides: list[Side]) -> Side:
    tokens: list[str] = []
    mentions: list[Mention] = []
    for side in sides:
        start = len(tokens)
        mentions += [replace(m, words=tuple(start + i for i in m.words)) for m in side.mentions]
        tokens = tokens + side.tokens
    return Side(tokens, mentions)
