"""Shows what has a picture, in a notebook, and its text elsewhere."""

from __future__ import annotations

import sys
from typing import Any


def show(shown: Any) -> None:
    """Show a thing's picture in a notebook; elsewhere print its text."""
    # A notebook has imported IPython already; elsewhere it may be missing.
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None or not hasattr(shell, "kernel"):
        print(shown)
        return
    from IPython.display import display  # type: ignore[import-not-found]

    display(shown)
