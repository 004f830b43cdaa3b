"""Which results are bundles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

ENDING = ".zip"


def bundle_paths(results: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the bundles that `results` names; none where it names a folder."""
    if isinstance(results, str | Path):
        return [Path(results)] if str(results).endswith(ENDING) else []
    return [Path(path) for path in results]
