"""What both commands share: errors in one line, and sentences as anyone would type them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from omegaconf.errors import MissingMandatoryValue

from xnmt_bench.errors import XnmtError

SENTENCES = ("explain", "explain_target")


def guarded(command: Callable[..., None], *arguments: Any) -> None:
    """Calls a function; what the user can mend ends the program with its message and status 1."""
    try:
        command(*arguments)
    except XnmtError as error:
        sys.exit(f"error: {error}")
    except MissingMandatoryValue as error:
        sys.exit(f"error: {error.full_key} has no value yet; give {error.full_key}=...")


def quoted(argument: str) -> str:
    """`explain=Der Hund schläft .` as Hydra's grammar wants it, which knows few characters bare.

    Other arguments, and sentences that are quoted already, stay as they are.
    """
    name, equals, text = argument.partition("=")
    mark = text[:1]
    whole = len(text) > 1 and mark in ("'", '"') and text[-1] == mark and mark not in text[1:-1]
    if name.lstrip("+") not in SENTENCES or whole or text == "null":
        return argument
    # Hydra reads a backslash as itself unless it stands before a quote.
    escaped = text.replace("\\'", "\\\\'").replace("'", "\\'")
    ending = len(escaped) - len(escaped.rstrip("\\"))
    return f"{name}{equals}'{escaped}{ending * chr(92)}'"
