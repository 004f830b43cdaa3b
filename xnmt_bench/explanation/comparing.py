"""Explanations beside each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xnmt_bench.errors import XnmtError
from xnmt_bench.explanation.drawing import draw, show
from xnmt_bench.explanation.explanation import Explanation


class Comparison:
    """Several explanations beside each other, which a notebook shows."""

    def __init__(self, explanations: Mapping[str, Explanation]) -> None:
        self.explanations = dict(explanations)

    def __str__(self) -> str:
        """Return the text of each under its name."""
        return "\n\n".join(
            f"{name}\n{explanation}" for name, explanation in self.explanations.items()
        )

    def _repr_html_(self) -> str:
        """Return their matrices as HTML."""
        return draw(explanation.panel(name) for name, explanation in self.explanations.items())

    def show(self) -> None:
        """Show the matrices in a notebook, and elsewhere print the texts."""
        show(self)


def compare(explanations: Iterable[Explanation] | Mapping[str, Explanation]) -> Comparison:
    """Return explanations side by side.

    Args:
        explanations: such as all explainers' of one sentence; a mapping gives titles.

    Raises:
        XnmtError: there are none.
    """
    if not isinstance(explanations, Mapping):
        named: dict[str, Explanation] = {}
        for explanation in explanations:
            title = explanation.title
            copies = sum(other.title == title for other in named.values())
            named[f"{title} ({copies + 1})" if copies else title] = explanation
        explanations = named
    if not explanations:
        raise XnmtError("compare: there is no explanation")
    return Comparison(explanations)
