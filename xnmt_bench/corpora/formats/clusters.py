"""Clusters of mentions as coreference resolvers write them, in the form of s2e and AllenNLP."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from xnmt_bench.corpora.text import json_at, text_lines
from xnmt_bench.errors import DataError

TOKENS, CLUSTERS = ("tokens", "document"), "clusters"  # AllenNLP calls the tokens `document`
Stretch = tuple[int, int]  # first letter, and the one behind the last


@dataclass(frozen=True)
class ResolvedLine:
    """A line of a file of clusters.

    Attributes:
        number: of the line, from 1.
        text: its tokens with blanks between them.
        clusters: mentions as places in its letters and digits, which are the same under every
            tokenisation.
    """

    number: int
    text: str
    clusters: list[list[Stretch]]


class ClustersOfTexts:
    """Clusters of sentences, found however a sentence is cut into words."""

    def __init__(self) -> None:
        self._by_text: dict[str, list[list[Stretch]]] = {}
        self._by_letters: dict[str, list[list[Stretch]] | None] = {}

    def add(self, text: str, clusters: list[list[Stretch]]) -> None:
        """Keep the clusters of a sentence."""
        self._by_text["".join(text.split())] = clusters
        # Only punctuation tells sentences of the same letters and other clusters apart.
        if self._by_letters.setdefault(letters(text), clusters) != clusters:
            self._by_letters[letters(text)] = None

    def find(self, text: str) -> list[list[Stretch]] | None:
        """Return the clusters of a sentence; by its letters if quotes are written otherwise.

        None where there are none, or where sentences of the same letters have other clusters.
        """
        by_letters = self._by_letters.get(letters(text))
        return self._by_text.get("".join(text.split()), by_letters)


def read_clusters(path: Path) -> Iterator[ResolvedLine]:
    """Yield JSON lines of `tokens` (or `document`), and `clusters` of mentions `[first, last]`.

    Tokens are a resolver's own, which splits words or drops punctuation, so places are compared in
    letters and digits.

    Raises:
        DataError: a line is not in this format, or two lines give one sentence other clusters.
    """
    clusters_by_text: dict[str, list[list[Stretch]]] = {}
    for number, text in text_lines(path):
        row = json_at(path, number, text)
        try:
            tokens = next(row[name] for name in TOKENS if name in row)
            text = " ".join(tokens)
            clusters = [
                [_stretch(tokens, *mention) for mention in cluster] for cluster in row[CLUSTERS]
            ]
        except (ValueError, KeyError, TypeError, IndexError, StopIteration) as error:
            needed = "expected tokens (or document) and clusters of [first, last]"
            got = str(error) or type(error).__name__
            raise DataError(path, number, f"{needed}: {got}") from None
        # An equal line is fine: a sentence may come twice, with the same clusters.
        if clusters_by_text.setdefault("".join(text.split()), clusters) != clusters:
            raise DataError(
                path,
                number,
                f"the clusters differ from those of an earlier line with the same text: {text!r}",
            )
        yield ResolvedLine(number, text, clusters)


def letters(text: str) -> str:
    """Return the letters and digits of a text."""
    return re.sub(r"\W", "", text)


def letter_starts(words: Sequence[str]) -> list[int]:
    """Return where each word starts, counted in letters, and where the last ends."""
    return [0, *accumulate(len(letters(word)) for word in words)]


def _stretch(tokens: list[str], first: int, last: int) -> Stretch:
    """Return where a mention stands."""
    if not (isinstance(tokens, list) and 0 <= first <= last < len(tokens)):
        raise ValueError(f"[{first}, {last}] is not a range of tokens")
    # In letters, so that a place holds under the corpus's own tokenisation too.
    starts = letter_starts(tokens)
    return starts[first], starts[last + 1]
