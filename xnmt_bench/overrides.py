"""Options as they are typed, `name=value`, as Hydra reads them.

Hydra's grammar knows few characters outside of quotes: no ü, `#`, `(`, `'` or second `=`. What it
cannot read is text, and gets quotes here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, QuotedString
from hydra.errors import HydraException

# Options whose value is one text, also with commas, brackets or quotes in it.
TEXTS = ("explain", "explain_target", "explain_foil", "rows")
CITE = "cite"  # the option that a word alone sets
PAIRS = {"(": ")", "[": "]", "{": "}"}
FUNCTION = re.compile(r"(choice|shuffle|sort|tag)\((.*)\)", re.DOTALL)  # Hydra's, of several values


def parse(argument: str) -> Override | None:
    """Return an option as Hydra reads it; None where it cannot, or where it is a flag."""
    if argument.startswith("-"):
        return None
    try:
        return _parser().parse_override(argument)
    except HydraException:
        return None


@cache
def _parser() -> OverridesParser:
    return OverridesParser.create()


def quoted(argument: str) -> str:
    """Put quotes around the texts of an option that Hydra cannot read without; complete `cite`.

    A value of `TEXTS` is one text, and a `${` in it is text too. Elsewhere brackets, commas,
    quotes and `${` keep their meaning. `~/` is the user's own folder, and a bare `null` is
    no value: `Null` may be a name.
    """
    if argument == CITE:
        return f"{CITE}=true"
    name, equals, value = argument.partition("=")
    if not equals or argument.startswith("-"):
        return argument
    if name.lstrip("+") not in TEXTS:
        changed = name + equals + _quote_values(value)
        return changed if parse(changed) else argument
    if value == "null" or _is_quoted(value):
        return argument
    # OmegaConf halves the backslashes before `${`, and reads it as text behind an odd one.
    return name + equals + quote(re.sub(r"(\\*)\$\{", r"\1\1\\${", value))


def _quote_values(value: str) -> str:
    """Return a value in which every text that Hydra cannot read has quotes."""
    several = split(value)
    if len(several) > 1:
        return ",".join(map(_quote_values, several))
    if value.startswith("~/"):
        return _quote_values(str(Path(value).expanduser()))
    if value.lower() == "null" != value:
        return quote(value)
    if parse(f"x={value}") and not re.search(r"~/|null", value, re.IGNORECASE):
        return value
    within = _map_within(value, _quote_values)
    return within if parse(f"x={within}") else quote(value)


def _map_within(value: str, change: Callable[[str], str]) -> str:
    """Return a list, a group or a call of Hydra's with its values changed; others unchanged."""
    if value[:1] == "[" and value[-1:] == "]":
        return f"[{','.join(map(change, split(value[1:-1])))}]" if value[1:-1].strip() else value
    if value[:1] == "{" and value[-1:] == "}":
        pairs = (pair.partition(":") for pair in split(value[1:-1]))
        return f"{{{','.join(name + colon + change(v.strip()) for name, colon, v in pairs)}}}"
    if call := FUNCTION.fullmatch(value):
        values = ",".join(map(change, split(call[2])))
        # Hydra drops the quotes within `choice`, which values with commas between are too.
        return values if call[1] == "choice" else f"{call[1]}({values})"
    return value


def split(value: str) -> list[str]:
    """Return the texts between the commas outside brackets and quotes.

    A value whose brackets do not close is one text.
    """
    parts, start, closing, mark = [], 0, [], ""
    for place, letter in enumerate(value):
        if mark:
            mark = "" if letter == mark and value[place - 1] != "\\" else mark
        elif letter in "'\"" and value[:place].rstrip()[-1:] in ("", *",:[{("):
            mark = letter  # elsewhere it is an apostrophe
        elif letter in PAIRS:
            closing.append(PAIRS[letter])
        elif closing and letter == closing[-1]:
            closing.pop()
        elif letter == "," and not closing:
            parts.append(value[start:place].strip())
            start = place + 1
    return [value] if closing or mark or not parts else [*parts, value[start:].strip()]


def quote(text: str) -> str:
    """Return a text in quotes, such that Hydra reads it as it is."""
    # Hydra reads a backslash as itself unless it stands before a quote.
    escaped = re.sub(r"(\\*)'", r"\1\1\\'", text)
    ending = len(escaped) - len(escaped.rstrip("\\"))
    return f"'{escaped}{ending * chr(92)}'"


def _is_quoted(value: str) -> bool:
    mark = value[:1]
    return len(value) > 1 and mark in ("'", '"') and value[-1] == mark and mark not in value[1:-1]


def texts(override: Override | None) -> list[str]:
    """Return the texts that an option has: its own, those of a list, or of a sweep."""
    if override is None:
        return []
    values = override.value()
    values = getattr(values, "list", values)
    values = values if isinstance(values, list) else [values]
    texts = (v.text if isinstance(v, QuotedString) else v for v in values)
    return [text for text in texts if isinstance(text, str)]
