"""Plain values in text: numbers of ASCII digits, and JSON that can be written again."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

# Python's own float and int also take underscores and the digits of every script.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|infinity|nan)", re.A | re.I)
COUNT = re.compile(r"[0-9]{1,18}")  # what 64 bits hold


def parse_number(text: str) -> float:
    """Return a decimal number, also an infinite one or NaN.

    Raises:
        ValueError: the text is not a number.
    """
    if not NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{text[:40]!r} is not a number")
    return float(text)


def parse_count(text: str) -> int:
    """Return a whole number from 0, below 10^18.

    Raises:
        ValueError: the text is not such a number.
    """
    if not COUNT.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a whole number from 0")
    return int(text)


def parse_json(text: str) -> Any:
    """Return the value that is written as JSON.

    Raises:
        JSONDecodeError: it is not JSON, is nested too deeply, names a key twice, or has a number of
            too many digits or half a character. Its `msg` says which, its `lineno` where.
    """

    def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            key = next(key for key, count in Counter(k for k, _ in pairs).items() if count > 1)
            raise json.JSONDecodeError(f"the key {key!r} is repeated", text, 0)
        return values

    try:
        value = json.loads(text, object_pairs_hook=without_repeats)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise json.JSONDecodeError("nested too deeply", text, 0) from None
    except ValueError:  # Python limits the digits of a whole number
        raise json.JSONDecodeError("a number has too many digits", text, 0) from None
    # An escape can name half of a character, which no file can hold.
    written = json.dumps(value, ensure_ascii=False) if "\\ud" in text.lower() else ""
    if re.search(r"[\ud800-\udfff]", written):
        raise json.JSONDecodeError("a text has half a character (a lone surrogate)", text, 0)
    return value
