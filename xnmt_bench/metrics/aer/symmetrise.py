"""Two directions of word alignment made one (Och and Ney 2003, Koehn et al. 2003).

Growing is done in its strict form: a link joins only if neither of its words is linked yet. It is
the form of the GIZA++ baselines that are published with the German-English gold set, which come out
link for link. (Moses' `grow-diag` lets a link in when either of its words is free.)
"""

from __future__ import annotations

from collections.abc import Callable

from xnmt_bench.corpora.sentence import Links

NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


class _Growing:
    """A set of links that only takes links between words that are both free."""

    def __init__(self, links: Links) -> None:
        self.links = set(links)
        self._source = {i for i, _ in links}
        self._target = {j for _, j in links}

    def add(self, link: tuple[int, int]) -> bool:
        """Takes a link if both of its words are free; tells whether it did."""
        i, j = link
        if i in self._source or j in self._target:
            return False
        self.links.add(link)
        self._source.add(i)
        self._target.add(j)
        return True


def intersection(forward: Links, backward: Links) -> Links:
    """Links of both directions."""
    return forward & backward


def union(forward: Links, backward: Links) -> Links:
    """Links of either direction."""
    return forward | backward


def grow_diagonal(forward: Links, backward: Links) -> Links:
    """The intersection, grown by neighbouring links of the union, diagonals included."""
    return frozenset(_grown(forward, backward).links)


def grow_diagonal_final(forward: Links, backward: Links) -> Links:
    """`grow_diagonal`, then whatever links of either direction join two words left free."""
    grown = _grown(forward, backward)
    for direction in (forward, backward):
        for link in sorted(direction):
            grown.add(link)
    return frozenset(grown.links)


def _grown(forward: Links, backward: Links) -> _Growing:
    candidates, grown = forward | backward, _Growing(forward & backward)
    changed = True
    while changed:
        changed = False
        # In reading order, so that a link grown in this pass may grow further ones in it.
        for i, j in sorted(candidates):
            if (i, j) in grown.links:
                near = ((i + di, j + dj) for di, dj in NEIGHBOURS)
                changed |= any([grown.add(link) for link in near if link in candidates])
    return grown


METHODS: dict[str, Callable[[Links, Links], Links]] = {
    "intersection": intersection,
    "union": union,
    "grow-diagonal": grow_diagonal,
    "grow-diagonal-final": grow_diagonal_final,
}
