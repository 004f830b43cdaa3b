"""A test set of decisions that two systems make alike because of different words.

`metric=[natural_twins]` chooses the decisions and exports them. Each becomes a sentence of its own:
the source, and the target up to the word that both systems choose. Nothing is planted, but the
word that decides in each system is known from interventions. So one of them stands for the link and
the other for the cue of the trial of judges. A draw says which, decision by decision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from xnmt_bench.corpora.sentence import SIDES, Corpus, Gold, Planted, Sentence, Split
from xnmt_bench.corpora.text import csv_rows
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.view import CorpusView
from xnmt_bench.errors import DataError
from xnmt_bench.options import Text
from xnmt_bench.parsing import COUNT
from xnmt_bench.store import file_hash

KIND = "natural_twins"
VERSION = 1  # raise it when the same file gives other sentences
FIRST, SECOND = "first", "second"  # the systems; as a slot, whose cause is the link
COLUMNS = ("source", "target", "a_side", "a", "b_side", "b", "link_of", FIRST, SECOND)
# Training sentences have no chosen decision, and still are annotated: so that proxies can learn
# from the rules of an explanation that names chosen words, which are the other words there.
NOWHERE = Planted("nowhere", -3, -3, -3)  # -1 is the word of EOS, and -2 of an untied piece


class NaturalTwins(CorpusView):
    """A corpus whose test set is decisions that were chosen on two systems.

    Args:
        corpus: the sentences of training and validation.
        twins: the file of decisions; null for the corpus's own test set.
        name: the corpus's name in results.

    Raises (when read):
        DataError: a column is missing, a place is of no word, or the systems differ between rows.
    """

    def __init__(self, corpus: Corpus, twins: Text | None = None, name: Text = KIND) -> None:
        super().__init__(corpus)
        self.name, self._path = name, None if twins is None else Path(twins)
        self.plants = self.plants or twins is not None

    def over(self, corpus: Corpus) -> NaturalTwins:
        """Return the same decisions over another corpus, such as the wrapped one reversed."""
        return NaturalTwins(corpus, None if self._path is None else str(self._path), self.name)

    @cached_property
    def _decisions(self) -> tuple[tuple[str, str], list[Sentence]]:
        """The fingerprints of both systems, and a sentence for each decision."""
        assert self._path is not None
        systems, sentences = set[tuple[str, str]](), list[Sentence]()
        for line, row in csv_rows(self._path, COLUMNS):
            systems.add((row[FIRST], row[SECOND]))
            if len(systems) > 1:
                raise DataError(self._path, line, "another pair of systems than in the rows before")
            sentences.append(_decision(self._path, line, row, len(sentences)))
        if not sentences:
            raise DataError(self._path, None, "no decision is in the file")
        [pair] = systems
        return pair, sentences

    @property
    def twins(self) -> tuple[str, ...]:
        """The fingerprints of the two systems; empty without a file."""
        return () if self._path is None else self._decisions[0]

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Stream the split; the test set is the decisions."""
        if self._path is None:
            yield from self.corpus.sentences(split)
        elif split == "test":
            yield from self._decisions[1]
        else:
            gold = Gold(planted=(NOWHERE,))
            yield from (replace(s, gold=gold) for s in self.corpus.sentences(split))

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the wrapped corpus's, and the bytes of the file, which is the test set."""
        if self._path is None:
            return self.corpus.recipe(split)  # systems trained on either corpus are the same
        kind = {"kind": KIND, "version": VERSION}
        if split in ("train", "valid"):
            return kind | {"corpus": self.corpus.recipe(split)}
        # The wrapped corpus cuts and cases words, and may have no test set of its own.
        return kind | {"corpus": self.corpus.recipe(), "twins": file_hash(self._path)}


def _decision(path: Path, line: int, row: dict[str, str], number: int) -> Sentence:
    """Return a row of the file as a sentence.

    Raises:
        DataError: a value is not what its column holds.
    """
    target = split_words(row["target"])
    if not target:
        raise DataError(path, line, "the target has no word")
    # The last word is the decision, so the words before it are the prefix.
    counts = dict(zip(SIDES, (len(split_words(row["source"])), len(target) - 1), strict=True))
    for word in "ab":
        side, place = row[f"{word}_side"], row[word]
        if side not in counts:
            raise DataError(path, line, f"{word}_side is {side!r}; expected source or target")
        if not COUNT.fullmatch(place) or int(place) >= counts[side]:
            problem = f"{word} is {place!r}, but the {side} has {counts[side]} words"
            before = " before the last" * (side == SIDES[1])
            raise DataError(path, line, f"{problem}{before}, counted from 0")
    if (row["a_side"], int(row["a"])) == (row["b_side"], int(row["b"])):
        raise DataError(path, line, "a and b are the same word")
    if row["link_of"] not in (FIRST, SECOND):
        raise DataError(path, line, f"link_of is {row['link_of']!r}; expected first or second")
    # The first system's cause is a, the second one's b.
    link, cue = "ab" if row["link_of"] == FIRST else "ba"
    planted = Planted(
        row["link_of"],
        len(target) - 1,
        int(row[link]),
        int(row[cue]),
        link_in_prefix=row[f"{link}_side"] == SIDES[1],
        cue_in_prefix=row[f"{cue}_side"] == SIDES[1],
    )
    gold = Gold(planted=(planted,))
    return Sentence(row["source"], row["target"], f"{KIND} {number}", 0, gold)
