"""What this project declares, a line each, in a file: a list of choices then imports nothing heavy.

python -m xnmt_bench.catalogue    # writes the file anew
"""

from __future__ import annotations

import inspect
import json
from functools import cache
from pathlib import Path
from typing import Any

from xnmt_bench.registry import KINDS, OURS, entries, load

FILE = Path(__file__).with_name("catalogue.json")
Facts = dict[str, Any]


def describe(cls: Any) -> Facts:
    """Return what a list shows of a class: its docstring's first line, and what it needs."""
    facts: Facts = {"line": (inspect.getdoc(cls) or "no docstring").partition("\n")[0]}
    for name in ("blind", "needs", "inputs"):
        if value := getattr(cls, name, None):
            facts[name] = list(value) if isinstance(value, tuple) else value
    return facts


def describe_all() -> dict[str, dict[str, Facts]]:
    """Return the facts of everything that this project declares, by kind and name."""
    return {
        kind: {
            name: describe(load(kind, name))
            for name, point in entries(kind).items()
            if point.value.startswith(OURS)
        }
        for kind in KINDS
    }


@cache
def catalogue() -> dict[str, dict[str, Facts]]:
    """Return what `describe_all` gave when the file was written."""
    facts: dict[str, dict[str, Facts]] = json.loads(FILE.read_text(encoding="utf-8"))
    return facts


if __name__ == "__main__":
    text = json.dumps(describe_all(), ensure_ascii=False, indent=1)
    FILE.write_text(text + "\n", encoding="utf-8")
