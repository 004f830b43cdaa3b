"""Two directions of word alignment made one (Och and Ney 2003, Koehn et al. 2003).

Growing is done in its strict form: a link joins only if neither of its words is linked yet. It is
the form of the GIZA++ baselines that are published with the German-English gold set, which come out
link for link. (Moses' `grow-diag` lets a link in when either of its words is free.)
"""

from __future__ import annotations

from collections.abc import Callable
from operator import and_, or_

from xnmt_bench.corpora.sentence import Links

intersection, union = and_, or_  # links of both directions, and of either
# Horizontal and vertical neighbours come before diagonal ones, as in Koehn et al.: the order
# decides which of two candidates takes a word.
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diagonal(forward: Links, backward: Links, final: bool = False) -> Links:
    """Return the intersection, grown by neighbouring links of the union, diagonals included.

    With `final`, links of either direction that join two free words are added.
    """
    candidates, links = forward | backward, set(forward & backward)
    sources, targets = ({link[side] for link in links} for side in (0, 1))

    def took(i: int, j: int) -> bool:
        """Take a link if both of its words are free; return whether it was taken."""
        if i in sources or j in targets:
            return False
        links.add((i, j))
        sources.add(i)
        targets.add(j)
        return True

    changed = True
    while changed:
        changed = False
        # In reading order, so that a link grown in this pass may grow further ones in it.
        for i, j in sorted(candidates):
            if (i, j) in links:
                near = [(i + di, j + dj) for di, dj in NEIGHBOURS]
                # A list, not a generator: every neighbour has to be tried.
                changed |= any([took(*link) for link in near if link in candidates])
    if final:
        # Forward before backward, in reading order: a fixed order gives the same links on every
        # run.
        for link in (*sorted(forward), *sorted(backward)):
            took(*link)
    return frozenset(links)


def grow_diagonal_final(forward: Links, backward: Links) -> Links:
    """Return `grow_diagonal`, then the links of either direction that join two free words."""
    return grow_diagonal(forward, backward, final=True)


METHODS: dict[str, Callable[[Links, Links], Links]] = {
    "intersection": intersection,
    "union": union,
    "grow-diagonal": grow_diagonal,
    "grow-diagonal-final": grow_diagonal_final,
}
