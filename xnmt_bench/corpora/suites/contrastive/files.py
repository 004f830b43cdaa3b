"""What readers of contrastive sets share: lists in JSON, distances, and numbers of groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xnmt_bench.corpora.suites.contrastive.group import Group, checked
from xnmt_bench.corpora.text import json_at, text_lines
from xnmt_bench.errors import DataError
from xnmt_bench.parsing import parse_count


def records_of(path: Path) -> list[Any]:
    """Return the list that is in a JSON file, plain or gzip; a DataError where none is."""
    records = json_at(path, 1, "\n".join(text for _, text in text_lines(path)))
    if not isinstance(records, list):
        raise DataError(path, None, "not a list of groups")
    return records


def groups_of(
    path: Path, records: Sequence[Any], read: Callable[[dict[str, Any]], Group]
) -> list[Group]:
    """Return the groups of some records.

    Args:
        path: of the file, for messages.
        records: as JSON has them.
        read: returns the group of a record.

    Raises:
        DataError: a record lacks a field, or is no group.
    """
    groups = []
    for number, record in enumerate(records):
        try:
            groups.append(checked(read(record)))
        except KeyError as error:
            raise DataError(path, None, f"group {number}: no field {error}") from None
        except (ValueError, TypeError, AttributeError) as error:
            raise DataError(path, None, f"group {number}: {error}") from None
    return groups


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
    for number, line in text_lines(path):
        text = line.strip()
        try:
            numbers.append(parse_count(text))
        except ValueError:
            raise DataError(path, number, f"{text[:40]!r} is no group's number") from None
        # A group that counts twice would be two of its unit.
        if numbers[-1] in read:
            raise DataError(path, number, f"group {text} is there twice")
        read.add(numbers[-1])
    return numbers
