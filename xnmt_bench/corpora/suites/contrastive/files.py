"""What readers of contrastive sets share: lists in JSON, distances, and numbers of groups."""

from __future__ import annotations

from json import JSONDecodeError
from pathlib import Path
from typing import Any

from xnmt_bench.corpora.text import decode_line, lines
from xnmt_bench.errors import DataError
from xnmt_bench.parsing import parse_count, parse_json


def records_of(path: Path) -> list[Any]:
    """Return the list that is in a JSON file, plain or gzip; a DataError where none is."""
    text = "\n".join(decode_line(line, path, n) for n, line in enumerate(lines(path), start=1))
    try:
        records = parse_json(text)
    except JSONDecodeError as error:
        raise DataError(path, error.lineno, f"no JSON: {error.msg}") from None
    if not isinstance(records, list):
        raise DataError(path, None, "not a list of groups")
    return records


def parse_distance(value: Any, name: str) -> int | None:
    """Return how many sentences back the context decides; None for null and -1, an unknown one.

    Args:
        value: as JSON has it.
        name: of its field.

    Raises:
        ValueError: it is not a distance.
    """
    # Lopes et al. (2020) write -1 where no antecedent was found.
    if value is None or value == -1:
        return None
    # `type` and not `isinstance`, since a bool is an int.
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} is {value!r}")
    return value


def read_groups(path: Path) -> list[int]:
    """Return numbers of groups, from 0, one a line.

    Raises:
        DataError: a line is not a group's number, or is there twice.
    """
    numbers, read = list[int](), set[int]()
    for number, line in enumerate(lines(path), start=1):
        text = decode_line(line, path, number).strip()
        try:
            numbers.append(parse_count(text))
        except ValueError:
            raise DataError(path, number, f"{text[:40]!r} is no group's number") from None
        # A group that counts twice would be two of its unit.
        if numbers[-1] in read:
            raise DataError(path, number, f"group {text} is there twice")
        read.add(numbers[-1])
    return numbers
