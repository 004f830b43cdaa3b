"""The published contrastive sets, in their own forms.

Voita, Sennrich and Titov (2019) test deixis, lexical cohesion and ellipsis. ContraPro is English
`it` with German `er`, `sie` or `es` (Müller et al. 2018); the same form has English `it` and `they`
with French `il`, `elle`, `ils` or `elles` (Lopes et al. 2020).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from xnmt_bench.corpora.formats.clusters import letters
from xnmt_bench.corpora.suites.contrastive.group import (
    Antecedent,
    ContrastiveSet,
    Group,
    Variant,
    checked,
)
from xnmt_bench.corpora.text import json_at, plain_or_packed, text_lines
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import DataError
from xnmt_bench.parsing import COUNT, parse_count

BETWEEN = re.compile(r"(?:^|\s)_eos(?=\s|$)")  # sentences of Voita et al.
SOURCE = "en"  # in every published set of ContraPro's form
# The end of a record's `corpus`, such as `opensubs1922-ende` and `UN-enfr`.
PAIR = re.compile(r".*[^a-z]([a-z]{2})([a-z]{2})")
UNKNOWN = ("?", "-1")  # distances
COLUMNS = ("group", "first_line", "variants", "pronoun", "distance")  # of groups.tsv


def records_of(path: Path) -> list[Any]:
    """Return the list that is in a JSON file, plain or gzip; a DataError where none is."""
    records = json_at(path, 1, "\n".join(text for _, text in text_lines(path)))
    if not isinstance(records, list):
        raise DataError(path, None, "expected a list of groups")
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
        DataError: a record lacks a field, or does not describe a group.
    """
    groups = []
    for number, record in enumerate(records):
        try:
            groups.append(checked(read(record)))
        except KeyError as error:
            raise DataError(path, None, f"group {number}: the field {error} is missing") from None
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
        raise ValueError(f"{name} is {value!r}, not a whole number from 0")
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
            raise DataError(path, number, f"{text[:40]!r} is not the number of a group") from None
        # A group that counts twice would be two of its unit.
        if numbers[-1] in read:
            raise DataError(path, number, f"group {text} is listed twice")
        read.add(numbers[-1])
    return numbers


def from_voita(path: Path, records: list[dict[str, Any]], lang_pair: str) -> ContrastiveSet:
    """Read groups of `src`, `dst`, `true_ind`, `ctx_dist`; the last joined sentence is current.

    Raises:
        DataError: a group lacks a field, or source and target differ in sentences.
    """
    return ContrastiveSet(
        path.name.split(".")[0], lang_pair, groups_of(path, records, _voita_group)
    )


def _voita_group(record: dict[str, Any]) -> Group:
    *source_context, source = _sentences(record["src"])
    if not isinstance(record["dst"], list):
        raise ValueError("dst is not a list of variants")
    variants = []
    for place, text in enumerate(record["dst"]):
        *context, current = _sentences(text)
        # A concatenation reads as many sentences on either side.
        if len(context) != len(source_context):
            raise ValueError(
                f"variant {place} has {len(context) + 1} sentences, the source "
                f"{len(source_context) + 1}"
            )
        variants.append(Variant(current, tuple(context)))
    distance = parse_distance(record["ctx_dist"], "ctx_dist")
    true = record["true_ind"]
    if type(true) is not int:
        raise ValueError(f"true_ind is {true!r}, not a whole number")
    return Group(source, tuple(variants), true, tuple(source_context), distance=distance)


def _sentences(text: str) -> list[str]:
    sentences = [sentence.strip() for sentence in BETWEEN.split(text)]
    if not all(sentences):
        raise ValueError("a sentence is empty")
    return sentences


def from_folder(folder: Path, lang_pair: str | None = None) -> ContrastiveSet:
    """Read `contrapro.{text,context}.LANGUAGE` with `groups.tsv`, or with `contrapro.json`.

    The files of text and context, plain or gzip, may lie in folders of their own, such as `ctx1`;
    of several contexts of a language the longest is read.

    Args:
        folder: of the files.
        lang_pair: such as `en-fr`; English and the other language of the texts, if not given.

    Raises:
        DataError: a file is missing, two of them differ in length, or there are texts in several
            languages and no `lang_pair`.
    """
    lang_pair = lang_pair or _pair_of_texts(folder)
    languages = _split_pair(lang_pair)
    # A missing file is named by the reader of lines.
    texts = [
        next(iter(_files(folder, "text", language)), folder / f"contrapro.text.{language}")
        for language in languages
    ]
    group_rows = _table(folder) if (folder / "groups.tsv").is_file() else _of_json(folder)
    source, target = map(_lines, texts)
    expected = 0
    if len(source) != len(target):
        problem = f"{len(source)} lines, but {texts[1]} has {len(target)}"
        raise DataError(texts[0], None, problem)
    contexts = [_context(folder, language, len(source)) for language in languages]
    groups = []
    for where, number, first, size, pronoun, distance, antecedent in group_rows:
        rows = range(first, first + size)
        if first != expected:
            problem = (
                f"group {number} begins at line {first}; expected line {expected}, where the "
                "group before it ends"
            )
            raise DataError(*where, problem)
        # Groups follow on each other without gaps, as a file of scores, a line each, needs.
        expected = rows.stop
        if rows.stop > len(target):
            problem = f"group {number} ends at line {rows.stop}, but there are {len(target)} lines"
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
        problem = f"{len(target)} lines, but the last group ends at line {expected}"
        raise DataError(texts[1], None, problem)
    return ContrastiveSet("contrapro", lang_pair, groups)


def _split_pair(lang_pair: str) -> tuple[str, str]:
    source, _, target = lang_pair.partition("-")
    return source, target


def _pair_of_texts(folder: Path) -> str:
    """Return the languages that the names of the text files end in."""
    paths = [*folder.glob("contrapro.text.*"), *folder.glob("*/contrapro.text.*")]
    others = sorted({path.name.removesuffix(".gz").split(".", 2)[2] for path in paths} - {SOURCE})
    if not others:
        raise DataError(folder, None, "no file contrapro.text.LANGUAGE with the translations")
    if len(others) > 1:
        problem = f"there are translations into {', '.join(others)}; put the pair before the folder"
        raise DataError(folder, None, f"{problem}: {SOURCE}-{others[0]}:{folder}")
    return f"{SOURCE}-{others[0]}"


class _GroupRow(NamedTuple):
    """The columns of a group besides its text, and their place in the file."""

    where: tuple[Path, int | None]
    number: int
    first: int  # of its lines
    size: int
    pronoun: str
    distance: int | None
    antecedent: Antecedent | None = None


def _table(folder: Path) -> Iterator[_GroupRow]:
    path = folder / "groups.tsv"
    for number, text in text_lines(path):
        fields = text.split("\t")
        if number == 1 and fields[0] == COLUMNS[0]:
            continue
        if len(fields) != len(COLUMNS):
            raise DataError(path, number, f"{len(fields)} fields; expected {len(COLUMNS)}")
        *counts, pronoun, distance = fields
        for name, value in zip(COLUMNS, fields, strict=True):
            free = name == "pronoun" or (name == "distance" and value in UNKNOWN)
            if not (free or COUNT.fullmatch(value)):
                raise DataError(path, number, f"{name} {value[:40]!r} is not a number")
        back = None if distance in UNKNOWN else int(distance)
        group, first, size = map(int, counts)
        yield _GroupRow((path, number), group, first, size, pronoun.lower(), back)


def _of_json(folder: Path) -> Iterator[_GroupRow]:
    path = plain_or_packed(folder / "contrapro.json")
    first = 0
    for number, group in enumerate(groups_of(path, records_of(path), _contrapro_group)):
        size = len(group.variants)
        columns = group.pronoun, group.distance, group.antecedent
        yield _GroupRow((path, None), number, first, size, *columns)
        first += size


def pair_of_records(records: list[Any]) -> str | None:
    """Return the languages that every record's `corpus` ends in, such as `en-fr`; None if none."""
    named = (str(record.get("corpus")) if isinstance(record, dict) else "" for record in records)
    pairs = {"-".join(match.groups()) if (match := PAIR.fullmatch(c)) else None for c in named}
    return pairs.pop() if len(pairs) == 1 else None


def from_records(path: Path, records: list[dict[str, Any]], lang_pair: str) -> ContrastiveSet:
    """Read groups of `contrapro.json`; their context is read from the text files next to it.

    A file of the same name that ends in `.groups` says which groups of the text files they are.

    Args:
        path: of the file.
        records: that are in it.
        lang_pair: such as `en-fr`.

    Raises:
        DataError: a group lacks a field, or the files next to it are of another length.
    """
    groups = groups_of(path, records, _contrapro_group)
    stem = path.name.removesuffix(".gz").removesuffix(".json")
    chosen = path.with_name(f"{stem}.groups")
    numbers = read_groups(chosen) if chosen.is_file() else list(range(len(groups)))
    if len(numbers) != len(groups):
        raise DataError(chosen, None, f"{len(numbers)} groups, but {path} has {len(groups)}")
    # Without the text files the groups have no context.
    if any(_files(path.parent, "text", language) for language in _split_pair(lang_pair)):
        text_groups = from_folder(path.parent, lang_pair).groups
        if numbers and max(numbers) >= len(text_groups):
            raise DataError(
                chosen,
                None,
                f"no group {max(numbers)}: there are {len(text_groups)}, counted from 0",
            )
        # Only their order says which groups these are, so a part of them needs the other file.
        if not chosen.is_file() and len(groups) != len(text_groups):
            problem = f"{len(groups)} groups, but the text files next to it have {len(text_groups)}"
            raise DataError(path, None, f"{problem}; list their numbers in {chosen.name}")
        pairs = zip(groups, numbers, strict=True)
        groups = [
            _with_context(path, number, group, text_groups[number]) for group, number in pairs
        ]
    return ContrastiveSet(stem, lang_pair, groups, numbers=numbers)


def _with_context(path: Path, number: int, group: Group, text_group: Group) -> Group:
    """Return a group in the context that the text files give the same group."""
    # The published files differ in blanks and in quotation marks.
    if letters(group.source) != letters(text_group.source):
        raise DataError(
            path, None, f"group {number} has another source in the text files next to it"
        )
    context = text_group.variants[0].context
    variants = tuple(Variant(v.text, context) for v in group.variants)
    return replace(group, variants=variants, source_context=text_group.source_context)


def _contrapro_group(record: dict[str, Any]) -> Group:
    distance = parse_distance(record["ante distance"], "ante distance")
    # The true translation is the first variant.
    texts = [record["ref segment"], *(error["contrastive"] for error in record["errors"])]
    if not all(isinstance(text, str) and text for text in (record["src segment"], *texts)):
        raise ValueError("a segment is not text")
    antecedent = None
    if distance is not None and (phrase := record.get("src ante phrase")):
        antecedent = Antecedent(distance, tuple(split_words(phrase)))
    return Group(
        record["src segment"],
        tuple(map(Variant, texts)),
        0,
        distance=distance,
        # A pronoun that begins a sentence would else be a part of its own.
        pronoun=record["ref pronoun"].lower(),
        antecedent=antecedent,
    )


def _files(folder: Path, suffix: str, language: str) -> list[Path]:
    """Return the files of the set of one name, in the folder and in those within it."""
    name = f"contrapro.{suffix}.{language}"
    places = [folder, *sorted(p for p in folder.glob("*") if p.is_dir())]
    return [path for place in places if (path := plain_or_packed(place / name)).is_file()]


def _lines(path: Path) -> list[str]:
    return [text.strip() for _, text in text_lines(path)]


def _context(folder: Path, language: str, count: int) -> list[tuple[str, ...]]:
    """Return the context of each line, the nearest sentence last; empty lines are left out."""
    # All are read, since only their lengths tell how deep each context is.
    lines_by_path = {path: _lines(path) for path in _files(folder, "context", language)}
    for path, lines_of in lines_by_path.items():
        if not count or len(lines_of) % count:
            problem = f"{len(lines_of)} lines; expected a multiple of the {count} lines of the text"
            raise DataError(path, None, problem)
    if not lines_by_path:
        return [()] * count
    # A longer context can be cut to a shorter one, never the other way round.
    longest = max(lines_by_path.values(), key=len)
    depth = len(longest) // count
    rows = (longest[n * depth : (n + 1) * depth] for n in range(count))
    # Empty lines pad contexts at the beginning of a document.
    return [tuple(filter(None, row)) for row in rows]
