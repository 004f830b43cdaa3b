"""Which groups of a contrastive set are right, and its parts by distance and pronoun.

G groups, N variants of all groups, in the set's order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from xnmt_bench.corpora.suites.contrastive.group import ContrastiveSet, Group
from xnmt_bench.errors import XnmtError

Ties = Literal["wrong", "first"]
# Distances beyond 3 sentences are one part: no system here reads farther.
ALL, UNKNOWN, FARTHEST = "all", "unknown", 3


@dataclass(frozen=True)
class Comparison:
    """What of a set is compared.

    Attributes:
        contrastive_set: the whole set.
        groups_G: indices of the groups that have something to compare.
        kept: of each of these, the indices of the variants that are compared.
        left_out: how many variants are written as the true one of their group is.
        emptied: numbers of the groups in which nothing else is left.
    """

    contrastive_set: ContrastiveSet
    groups_G: list[int]
    kept: list[list[int]]
    left_out: int
    emptied: list[int]

    @property
    def groups(self) -> list[Group]:
        """Those that have something to compare."""
        return [self.contrastive_set.groups[g] for g in self.groups_G]

    @property
    def units_G(self) -> np.ndarray:
        """The unit of each group, numbered as they first occur in the set."""
        numbers: dict[str, int] = {}
        # Numbered over the whole set and cut afterwards, so that a unit has the same number
        # under either rule for `ties`. Two systems can then be paired.
        every = [
            numbers.setdefault(g.source_unit, len(numbers)) for g in self.contrastive_set.groups
        ]
        return np.asarray(every, dtype=np.int64)[self.groups_G]

    @property
    def chance_G(self) -> np.ndarray:
        """How often each group is right by chance: 1/n."""
        return np.array([1 / len(kept) for kept in self.kept])

    def scored_G(self, scores_N: np.ndarray) -> np.ndarray:
        """Return which groups have a score for every variant that is compared."""
        return np.array([not np.isnan(scores).any() for scores, _ in self._compared(scores_N)])

    def right_G(self, scores_N: np.ndarray, ties: Ties) -> np.ndarray:
        """Return whether the true variant scores strictly better than every other.

        Args:
            scores_N: of every variant of the set, the greater the better.
            ties: `first`: of the best it is the one that stands first, as numpy's argmin has it.
        """
        right = []
        for scores, true in self._compared(scores_N):
            best = scores.argmax()  # of equal ones the first
            alone = ties == "first" or (scores == scores[best]).sum() == 1
            right.append(best == true and alone)
        return np.array(right, dtype=bool)

    def tied_G(self, scores_N: np.ndarray) -> np.ndarray:
        """Return whether the true variant has the best score, and another one has it too."""
        every = self._compared(scores_N)
        return np.array([s[t] == s.max() and (s == s[t]).sum() > 1 for s, t in every], dtype=bool)

    def _compared(self, scores_N: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
        """Yield the compared scores of each group, and the place of the true one among them."""
        sizes = [len(group.variants) for group in self.contrastive_set.groups]
        # Scores are of every variant, also of those that are left out, so they are cut before.
        by_group = np.split(scores_N, np.cumsum(sizes)[:-1])
        for g, kept in zip(self.groups_G, self.kept, strict=True):
            yield by_group[g][kept], kept.index(self.contrastive_set.groups[g].true)


def compare(contrastive_set: ContrastiveSet, ties: Ties = "wrong") -> Comparison:
    """Leave out variants written as the true one is, which no score can tell apart.

    With `ties=first`, as published scripts count, nothing is left out.

    Raises:
        XnmtError: no group has anything to compare.
    """
    groups, kept, left_out, emptied = list[int](), list[list[int]](), 0, list[int]()
    for index, group in enumerate(contrastive_set.groups):
        true = group.variants[group.true]
        kept_groups = [
            n
            for n, variant in enumerate(group.variants)
            if n == group.true or ties == "first" or variant != true
        ]
        left_out += len(group.variants) - len(kept_groups)
        # A group of one variant would be right without a choice.
        if len(kept_groups) > 1:
            groups.append(index)
            kept.append(kept_groups)
        else:
            emptied.append(contrastive_set.number(index))
    if not groups:
        raise XnmtError(
            f"contrastive set {contrastive_set.name}: no group has two different variants"
        )
    return Comparison(contrastive_set, groups, kept, left_out, emptied)


def parts(groups: Sequence[Group]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the parts of a set by distance and by pronoun: their names, and their members (G,)."""
    yield ALL, np.ones(len(groups), dtype=bool)
    for labels in ([_distance(g) for g in groups], [g.pronoun for g in groups]):
        names = set(labels) - {""}
        if names - {UNKNOWN}:  # or a part without a name
            for name in sorted(names, key=part_order):
                yield name, np.array([label == name for label in labels])


def _distance(group: Group) -> str:
    if group.distance is None:
        return UNKNOWN
    return f"distance {group.distance if group.distance <= FARTHEST else f'>{FARTHEST}'}"


def part_order(name: str) -> tuple[int, str]:
    """Return all, the distances, then the pronouns."""
    order = [ALL, *(f"distance {n}" for n in range(FARTHEST + 1)), f"distance >{FARTHEST}", UNKNOWN]
    return (order.index(name), "") if name in order else (len(order), name)
