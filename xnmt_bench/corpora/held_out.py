"""A corpus whose held-out pairs share no side with the pairs that a system learns from."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from xnmt_bench.corpora.formats.tsv import TsvCorpus
from xnmt_bench.corpora.sentence import SIDES, Corpus, Sentence, Split, languages
from xnmt_bench.corpora.tokens import VERSION, tokenizer
from xnmt_bench.errors import XnmtError
from xnmt_bench.options import Chance, Count, Seed, Text, Texts

NOWHERE = "held out"  # of pairs that belong to no split


class HeldOutCorpus(Corpus):
    """Unordered pairs, of which whole groups are held out.

    Pairs that share a side, directly or through other pairs, are a group; letters and digits decide
    whether two sides are the same. Groups are drawn at random until `valid` and `test` have their
    size, and every other pair is for training. One number for each pair is kept in memory.

    Args:
        path: a file as `TsvCorpus` reads it, or several.
        portion: the name in the first field of the pairs that are read.
        columns: the languages of the fourth and following fields, in their order.
        source_language, target_language: which of them are translated from and to.
        valid, test: pairs of these splits.
        seed: of the draw.
        held_out: sentences, of either language, whose groups belong to no split.
        tokenized: share of the training pairs that `moses` cuts into words, so that a system reads
            text in both forms; the other pairs stand as they were written.
        name: the corpus's name in results.

    Raises (when read):
        DataError: a line of a file is malformed; see `TsvCorpus`.
        XnmtError: there are too few pairs.
    """

    def __init__(
        self,
        path: Text | Path | Texts,
        portion: Text,
        columns: Texts,
        source_language: Text,
        target_language: Text,
        valid: Count,
        test: Count,
        seed: Seed = 0,
        held_out: Sequence[Text] = (),
        tokenized: Chance = 0.0,
        name: Text = "held_out",
    ) -> None:
        self.name = name
        self.source_language, self.target_language = source_language, target_language
        self._pairs = TsvCorpus(
            path, columns, source_language, target_language, valid=[], test=[], train=portion
        )
        self._sizes: Mapping[Split, int] = {"valid": valid, "test": test}
        self._seed, self._held_out, self._tokenized = seed, list(held_out), tokenized

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Stream the pairs of a split, in the order of the files."""
        # Both sides of a pair are cut, or neither: a system then answers in the form that it reads.
        cut = [tokenizer("moses", language) for language in languages(self)]
        # The files are read again for each split, so that only one number a pair is kept.
        for pair, split_of_pair in zip(self._pairs.sentences("train"), self._splits, strict=True):
            if split_of_pair != split:
                continue
            # By a hash and not by a draw: another order of the files cuts the same pairs.
            if split == "train" and _number(pair) < self._tokenized:
                source, target = (f(getattr(pair, s)) for f, s in zip(cut, SIDES, strict=True))
                pair = replace(pair, source=source, target=target)
            yield pair

    @cached_property
    def _splits(self) -> list[Split | Literal["held out"]]:
        """The split of each pair of the files."""
        ids: dict[str, int] = {}  # of each side's letters
        pair_N2 = np.array(
            [
                [ids.setdefault(f"{side} {letters(getattr(p, side))}", len(ids)) for side in SIDES]
                for p in self._pairs.sentences("train")
            ]
        )
        edges = coo_array((np.ones(len(pair_N2)), (pair_N2[:, 0], pair_N2[:, 1])), [len(ids)] * 2)
        # Groups are numbered in the order of their first pairs, so the draw follows the files.
        groups, group_of_id = connected_components(edges, directed=False)
        group_N = group_of_id[pair_N2[:, 0]]
        size_U = np.bincount(group_N, minlength=groups)
        split_U: list[Any] = ["train"] * groups
        # By the source's or the target's letters, since a sentence may be of either language.
        kept_out = {
            group_of_id[ids[key]]
            for text in self._held_out
            for side in SIDES
            if (key := f"{side} {letters(text)}") in ids
        }
        free = dict(self._sizes)
        for u in np.random.default_rng(self._seed).permutation(groups):
            if u in kept_out:
                split_U[u] = NOWHERE
                continue
            # A group that does not fit stays in training, so that sizes are exact.
            split = next((s for s, size in free.items() if size >= size_U[u]), None)
            if split is not None:
                split_U[u] = split
                free[split] -= int(size_U[u])
        if missing := sum(free.values()):
            raise XnmtError(f"{self.name}: {missing} pairs too few to hold out {self._sizes}")
        return [split_U[u] for u in group_N]

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the recipe of the files, and how they are split and cut into words."""
        return {
            "kind": "held_out",
            "pairs": self._pairs.recipe(),
            "sizes": dict(self._sizes),
            "seed": self._seed,
            "held_out": self._held_out,
            # With the tokeniser's version, whose changes change the text.
            "tokenized": [self._tokenized, VERSION],
        }


def letters(text: str) -> str:
    """Return the letters and digits of a text in small letters, by which sides are compared."""
    # Copies of one sentence differ in case, blanks and punctuation.
    return "".join(character for character in text.casefold() if character.isalnum())


def _number(pair: Sentence) -> float:
    """Return a number in [0, 1) that only the pair's text decides."""
    return zlib.crc32(f"{pair.source}\t{pair.target}".encode()) / 2**32
