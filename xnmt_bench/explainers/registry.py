"""Finding explainers by name: the built-in ones and those of installed plug-ins.

A package declares its explainers in the entry-point group `xnmt_bench.explainers`; its name then
works in `load_explainer` and as `explainer=NAME` on the command line.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from xnmt_bench.errors import XnmtError

if TYPE_CHECKING:
    from xnmt_bench.explainers.base import Explainer

GROUP = "xnmt_bench.explainers"


def explainers() -> dict[str, EntryPoint]:
    """Every declared explainer, not yet imported.

    Raises:
        XnmtError: two packages declare the same name.
    """
    return _by_name(entry_points(group=GROUP))


def _by_name(points: Iterable[EntryPoint]) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in points:
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise XnmtError(
                f"two explainers are called {point.name!r}: {other.value} and {point.value}"
            )
    return found


def load_explainer(name: str, **options: Any) -> Explainer:
    """An explainer by name.

    Args:
        name: such as `prediction_difference`, or a plug-in's.
        options: the explainer's own arguments.

    Raises:
        XnmtError: no such name (the nearest ones are named), or an option it does not have.
    """
    known = explainers()
    if name not in known:
        near = get_close_matches(name, known, n=3)
        hint = (
            f"did you mean {' or '.join(near)}?"
            if near
            else f"there are {', '.join(sorted(known))}"
        )
        raise XnmtError(f"no explainer {name!r}; {hint}")
    try:
        return known[name].load()(**options)
    except TypeError as error:
        raise XnmtError(f"explainer {name!r}: {error}") from None


def register_plugins() -> None:
    """Makes every plug-in a choice of Hydra's group `explainer`, without importing it."""
    from hydra.core.config_store import ConfigStore

    for name, point in explainers().items():
        if not point.value.startswith("xnmt_bench."):
            node = {"name": name, "phi": {"_target_": point.value.replace(":", ".")}}
            ConfigStore.instance().store(group="explainer", name=name, node=node)
