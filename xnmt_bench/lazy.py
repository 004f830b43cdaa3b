"""What is computed at its first use, and computed anew in another process."""

from __future__ import annotations

from functools import cached_property
from typing import Any


class Lazy:
    """An object whose cached properties stay in their process.

    A worker gets what an object was made from, and opens models and files itself.
    """

    def __getstate__(self) -> dict[str, Any]:
        """Return what it was made from, for a pickle that is sent to another process."""
        return {
            name: value
            for name, value in vars(self).items()
            if not isinstance(getattr(type(self), name, None), cached_property)
        }
