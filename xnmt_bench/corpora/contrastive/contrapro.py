"""ContraPro (Müller et al. 2018): English `it`, German `er`, `sie` or `es`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from xnmt_bench.corpora.clusters import letters
from xnmt_bench.corpora.contrastive.files import read_groups, records_of
from xnmt_bench.corpora.contrastive.group import (
    Antecedent,
    ContrastiveSet,
    Group,
    Variant,
    checked,
)
from xnmt_bench.corpora.text import decode_line, lines
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import DataError
from xnmt_bench.parsing import COUNT

LANGUAGES = ("en", "de")
UNKNOWN = "?"  # an unknown distance
COLUMNS = ("group", "first_line", "variants", "pronoun", "distance")


def from_folder(folder: Path) -> ContrastiveSet:
    """Read `contrapro.{text,context}.{en,de}` with `groups.tsv`, or with `contrapro.json`.

    The files of text and context, plain or gzip, may lie in folders of their own, such as `ctx1`;
    of several contexts of a language the longest is read.

    Raises:
        DataError: a file is missing, or two of them differ in length.
    """
    texts = {language: _find(folder, "text", language) for language in LANGUAGES}
    group_rows = _table(folder) if (folder / "groups.tsv").is_file() else _of_json(folder)
    source, target = (_lines(texts[language]) for language in LANGUAGES)
    expected = 0
    if len(source) != len(target):
        problem = f"{len(source)} lines, but {texts['de']} has {len(target)}"
        raise DataError(texts["en"], None, problem)
    contexts = [_context(folder, language, len(source)) for language in LANGUAGES]
    groups = []
    for where, number, first, size, pronoun, distance, antecedent in group_rows:
        rows = range(first, first + size)
        if first != expected:
            problem = f"group {number} begins with line {first}, not with line {expected}"
            raise DataError(*where, problem)
        # Groups follow on each other without gaps, as a file of scores, a line each, needs.
        expected = rows.stop
        if rows.stop > len(target):
            problem = f"group {number} ends with line {rows.stop} of {len(target)}"
            raise DataError(*where, problem)
        variants = (Variant(target[row], contexts[1][row]) for row in rows)
        group = Group(
            source[first],
            tuple(variants),
            0,
            contexts[0][first],
            distance=distance,
            pronoun=pronoun,
            antecedent=antecedent,
        )
        try:
            groups.append(checked(group))
        except ValueError as error:
            raise DataError(*where, f"group {number}: {error}") from None
    if expected != len(target):
        problem = f"{len(target)} lines, but the groups end with line {expected}"
        raise DataError(texts["de"], None, problem)
    return ContrastiveSet("contrapro", "-".join(LANGUAGES), groups)


class _GroupRow(NamedTuple):
    """The columns of a group beside its text, and their place in the file."""

    where: tuple[Path, int | None]
    number: int
    first: int  # of its lines
    size: int
    pronoun: str
    distance: int | None
    antecedent: Antecedent | None = None


def _table(folder: Path) -> Iterator[_GroupRow]:
    path = folder / "groups.tsv"
    for number, line in enumerate(lines(path), start=1):
        fields = decode_line(line, path, number).split("\t")
        if number == 1 and fields[0] == COLUMNS[0]:
            continue
        if len(fields) != len(COLUMNS):
            raise DataError(path, number, f"{len(fields)} fields where {len(COLUMNS)} belong")
        *counts, pronoun, distance = fields
        for name, value in zip(COLUMNS, [*counts, pronoun, distance], strict=True):
            free = name == "pronoun" or (name == "distance" and value == UNKNOWN)
            if not (free or COUNT.fullmatch(value)):
                raise DataError(path, number, f"{name} {value[:40]!r} is no number")
        group, first, size = map(int, counts)
        yield _GroupRow((path, number), group, first, size, pronoun.lower(), _distance(distance))


def _distance(text: str) -> int | None:
    return None if text == UNKNOWN else int(text)


def _of_json(folder: Path) -> Iterator[_GroupRow]:
    path = _existing(folder / "contrapro.json")
    first = 0
    for number, record in enumerate(records_of(path)):
        group = _group(path, number, record)
        size = len(group.variants)
        columns = group.pronoun, group.distance, group.antecedent
        yield _GroupRow((path, None), number, first, size, *columns)
        first += size


def from_records(path: Path, records: list[dict[str, Any]]) -> ContrastiveSet:
    """Read groups of `contrapro.json`; their context is read from the text files beside it.

    A file of the same name that ends in `.groups` says which groups of the text files they are.

    Raises:
        DataError: a group lacks a field, or the files beside it are of another length.
    """
    groups = [_group(path, number, record) for number, record in enumerate(records)]
    stem = path.name.removesuffix(".gz").removesuffix(".json")
    chosen = path.with_name(f"{stem}.groups")
    numbers = read_groups(chosen) if chosen.is_file() else list(range(len(groups)))
    if len(numbers) != len(groups):
        raise DataError(chosen, None, f"{len(numbers)} groups, but {path} has {len(groups)}")
    # Without the text files the groups have no context.
    if _find(path.parent, "text", LANGUAGES[0]).is_file():
        text_groups = from_folder(path.parent).groups
        if numbers and max(numbers) >= len(text_groups):
            raise DataError(chosen, None, f"group {max(numbers)} of {len(text_groups)}")
        # Only their order says which groups these are, so a part of them needs the other file.
        if not chosen.is_file() and len(groups) != len(text_groups):
            problem = f"{len(groups)} groups, but the text files beside it have {len(text_groups)}"
            raise DataError(path, None, f"{problem}; {chosen.name} has to say which they are")
        pairs = zip(groups, numbers, strict=True)
        groups = [
            _with_context(path, number, group, text_groups[number]) for group, number in pairs
        ]
    return ContrastiveSet(stem, "-".join(LANGUAGES), groups, numbers=numbers)


def _with_context(path: Path, number: int, group: Group, beside: Group) -> Group:
    """Return a group in the context that the text files give the same group."""
    # The published files differ in blanks and in quotation marks.
    if letters(group.source) != letters(beside.source):
        raise DataError(path, None, f"group {number} is another one in the text files beside it")
    context = beside.variants[0].context
    variants = tuple(Variant(v.text, context) for v in group.variants)
    return Group(
        group.source,
        variants,
        group.true,
        beside.source_context,
        distance=group.distance,
        pronoun=group.pronoun,
        antecedent=group.antecedent,
    )


def _group(path: Path, number: int, record: dict[str, Any]) -> Group:
    try:
        distance = record["ante distance"]
        # Not isinstance: True is an int, and JSON has both.
        if type(distance) is not int or distance < 0:
            raise ValueError(f"ante distance is {distance!r}")
        # The true translation is the first variant.
        texts = [record["ref segment"], *(error["contrastive"] for error in record["errors"])]
        if not all(isinstance(text, str) and text for text in (record["src segment"], *texts)):
            raise ValueError("a segment is no text")
        true, *variants = map(Variant, texts)
        antecedent = None
        if phrase := record.get("src ante phrase"):
            antecedent = Antecedent(distance, tuple(split_words(phrase)))
        return checked(
            Group(
                record["src segment"],
                (true, *variants),
                0,
                distance=distance,
                # A pronoun that begins a sentence would else be a part of its own.
                pronoun=record["ref pronoun"].lower(),
                antecedent=antecedent,
            )
        )
    except KeyError as error:
        raise DataError(path, None, f"group {number}: no field {error}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(path, None, f"group {number}: {error}") from None


def _existing(path: Path) -> Path:
    """Return a file, plain or gzip."""
    packed = path.with_name(f"{path.name}.gz")
    return packed if packed.is_file() else path


def _find(folder: Path, suffix: str, language: str) -> Path:
    """Return a file of the set in the folder or in one within it."""
    name = f"contrapro.{suffix}.{language}"
    places = [folder, *sorted(p for p in folder.glob("*") if p.is_dir())]
    paths = [path for place in places if (path := _existing(place / name)).is_file()]
    return paths[0] if paths else folder / name


def _lines(path: Path) -> list[str]:
    return [decode_line(line, path, n).strip() for n, line in enumerate(lines(path), start=1)]


def _context(folder: Path, language: str, count: int) -> list[tuple[str, ...]]:
    """Return the context of each line, the nearest sentence last; empty lines are left out."""
    name = f"contrapro.context.{language}"
    places = [folder, *sorted(p for p in folder.glob("*") if p.is_dir())]
    # All are read, since only their lengths tell how deep each context is.
    lines_by_path = {p: _lines(p) for place in places if (p := _existing(place / name)).is_file()}
    for path, lines_of in lines_by_path.items():
        if not count or len(lines_of) % count:
            problem = f"{len(lines_of)} lines, which is no multiple of the {count} of the text"
            raise DataError(path, None, problem)
    if not lines_by_path:
        return [()] * count
    # A longer context can be cut to a shorter one, never the other way round.
    longest = max(lines_by_path.values(), key=len)
    depth = len(longest) // count
    rows = (longest[n * depth : (n + 1) * depth] for n in range(count))
    # Empty lines pad contexts at the beginning of a document.
    return [tuple(filter(None, row)) for row in rows]
