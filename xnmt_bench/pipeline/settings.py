"""Configuration nodes as plain values."""

from __future__ import annotations

from typing import Any

from omegaconf import OmegaConf


def plain(node: Any, complete: bool = False) -> Any:
    """Return a configuration node as plain Python values; anything else is given back.

    With `complete`, a value that is yet to be given raises omegaconf's MissingMandatoryValue.
    """
    if not OmegaConf.is_config(node):
        return node
    return OmegaConf.to_container(node, resolve=True, throw_on_missing=complete)
