"""The files of a sheet: the CSV that people fill, and the key that tells where its items are from.

`<name>.csv` begins with the columns `sheet` and `item`. `sheet` is the kind, the number of items
and a fingerprint of everything that a person sees, so that a filled file belongs to one sheet. The
key has the same two columns; nothing else of it is in the other file.
"""

from __future__ import annotations

import csv
import io
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from xnmt_bench.corpora.text import csv_rows, text_lines
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import DataError
from xnmt_bench.parsing import parse_count
from xnmt_bench.registry import entries, load
from xnmt_bench.sheets.sheet import Item, Question, SheetKind
from xnmt_bench.store import fingerprint, write_atomically

T = TypeVar("T")
log = logging.getLogger(__name__)
SHEET, ITEM, COMMENT = "sheet", "item", "comment"
# Beginnings of the key's columns.
AUTOMATIC, RELEVANCE, BLIND = "automatic:", "relevance:", "blind:"
IDENTIFIER = re.compile(r"(.+)-(\d{1,6})-([0-9a-f]{12})")  # kind, items, fingerprint
MARK = "\ufeff"  # by which spreadsheets know UTF-8


def to_csv(header: Sequence[str], rows: Sequence[Mapping[str, str]]) -> str:
    """Return rows as CSV, quoted only where that is needed; a missing cell is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, header, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return MARK + text.getvalue()


@dataclass(frozen=True)
class Sheet:
    """A sheet that was drawn.

    Attributes:
        kind: of it.
        items: in the order in which people see them.
    """

    kind: SheetKind
    items: Sequence[Item]

    # Once: it is in every row, and hashes all of them.
    @cached_property
    def identifier(self) -> str:
        """The kind, the number of items, and 12 digits that follow from what people see."""
        questions = [vars(question) for question in self.kind.questions]
        shown = [item.cells() for item in self.items]
        digits = fingerprint({"shown": shown, "questions": questions})[:12]
        return f"{self.kind.name}-{len(self.items)}-{digits}"

    @property
    def header(self) -> list[str]:
        """The columns of the CSV."""
        # Items may show different texts. A dictionary keeps their order; a set would shuffle the
        # columns in each process.
        shown = dict.fromkeys(name for item in self.items for name in item.cells())
        return [SHEET, ITEM, *shown, *(q.name for q in self.kind.questions), COMMENT]

    def rows(self) -> list[dict[str, str]]:
        """Return the rows of the CSV, without answers."""
        return self._numbered([item.cells() for item in self.items])

    def csv(self) -> str:
        """Return the CSV, without answers."""
        return to_csv(self.header, self.rows())

    def key_csv(self) -> str:
        """Return the key."""
        columns = dict.fromkeys(name for item in self.items for name in item.key)
        return to_csv([SHEET, ITEM, *columns], self._numbered([item.key for item in self.items]))

    def _numbered(self, rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
        """Return rows, one an item, behind the columns of sheet and item."""
        begun = {SHEET: self.identifier}
        return [begun | {ITEM: str(n), **row} for n, row in enumerate(rows, start=1)]


def write_sheet(sheet: Sheet, page: str, folder: Path, name: str) -> list[Path]:
    """Write the page, the CSV and the key of a sheet.

    Raises:
        DataError: the folder holds the key of another sheet under that name, whose answers
            could then never be read; or a CSV that was changed, and may hold answers.
    """
    paths = [folder / f"{name}.{ending}" for ending in ("html", "csv", "key.csv")]
    if paths[2].exists():
        rows = csv_rows(paths[2], [SHEET], _delimiter(paths[2]))
        first = next((row[SHEET] for _, row in rows), "")
        if first != sheet.identifier:
            problem = f"is the key of another sheet, {first}; move it, or give sheet.name=..."
            raise DataError(paths[2], None, problem)
    # Compared as bytes: a spreadsheet may have saved it in another encoding.
    if paths[1].exists() and paths[1].read_bytes() != sheet.csv().encode():
        problem = "was changed and may hold answers; move it, or give sheet.name=..."
        raise DataError(paths[1], None, problem)
    for path, text in zip(paths, (page, sheet.csv(), sheet.key_csv()), strict=True):
        write_atomically(path, text)
    return paths


@dataclass(frozen=True)
class FilledSheet:
    """What one person answered.

    Attributes:
        path: the file.
        sheet: which sheet it is; see `Sheet.identifier`.
        questions: of the sheet's kind.
        answers: by item and question, empty where the person gave none, or was not asked.
    """

    path: Path
    sheet: str
    questions: Sequence[Question]
    answers: Mapping[int, Mapping[str, str]]

    @property
    def kind(self) -> str:
        """The name of the sheet's kind."""
        return self.sheet.rsplit("-", 2)[0]

    def missing(self) -> int:
        """Return how many questions were asked and not answered."""
        return sum(
            question.asked(answers) and not answers[question.name]
            for answers in self.answers.values()
            for question in self.questions
        )


def _delimiter(path: Path) -> str:
    """Return what stands between the cells of a file; some spreadsheets write semicolons."""
    # From the header, which is known; csv.Sniffer guesses, and texts are full of semicolons.
    _, first = next(text_lines(path), (1, ""))
    first = first.replace('"', "")  # some programs quote every cell
    return next((mark for mark in (";", "\t") if f"{SHEET}{mark}{ITEM}" in first), ",")


def _numbered_rows(
    path: Path, needed: Sequence[str]
) -> Iterator[tuple[int, int, str, dict[str, str]]]:
    """Yield line, item, sheet and cells of each row.

    Raises:
        DataError: rows of two sheets, a number that is not an item of the sheet, or one twice.
    """
    first, items_read = "", set[int]()
    for line, row in csv_rows(path, [SHEET, ITEM, *needed], _delimiter(path)):
        sheet, cell = row[SHEET].strip(), row[ITEM].strip()
        match = IDENTIFIER.fullmatch(sheet)
        if not match:
            raise DataError(path, line, f"{sheet!r} is not the name of a sheet")
        first = first or sheet
        if sheet != first:
            raise DataError(path, line, f"belongs to sheet {sheet}, but earlier lines to {first}")
        try:
            item = parse_count(cell)
        except ValueError as error:
            raise DataError(path, line, f"item: {error}") from None
        if not 1 <= item <= int(match[2]):
            raise DataError(path, line, f"no item {item}: the sheet has {match[2]} items")
        # Of two answers to one item, neither is known to be the later one.
        if item in items_read:
            raise DataError(path, line, f"item {item} is listed twice")
        items_read.add(item)
        yield line, item, sheet, row


def read_filled(path: Path) -> FilledSheet:
    """Read a sheet that a person filled, wholly or in part.

    Raises:
        DataError: the file is not a sheet, or an answer is none of the question's choices.
    """
    answers: dict[int, dict[str, str]] = {}
    questions: Sequence[Question] = ()
    identifier, left_out = "", 0
    for line, item, sheet, row in _numbered_rows(path, []):
        if not identifier:
            identifier = sheet
            kind = sheet.rsplit("-", 2)[0]
            # A sheet of a plug-in that is not installed here.
            if kind not in entries("sheets"):
                raise DataError(
                    path, line, f"unknown kind of sheet {kind!r}; is its plug-in installed?"
                )
            questions = load("sheets", kind).questions
            if absent := [q.name for q in questions if q.name not in row]:
                raise DataError(path, 1, f"no column {absent[0]!r}")
        row_answers = {q.name: _tidy(q, row[q.name]) for q in questions}
        for question in questions:
            answer = row_answers[question.name]
            words = len(split_words(row.get(question.words_of, ""))) if question.words_of else None
            if answer and (problem := question.problem(answer, words)):
                raise DataError(path, line, f"{question.name}={answer!r}: {problem}")
        left_out += _leave_out_unasked(questions, row_answers)
        answers[item] = row_answers
    if not identifier:
        raise DataError(path, 1, "the sheet has no items")
    if left_out:
        log.warning("%s: %d answers to questions that were not asked are left out", path, left_out)
    return FilledSheet(path, identifier, questions, answers)


def _leave_out_unasked(questions: Sequence[Question], answers: dict[str, str]) -> int:
    """Empty the answers to questions that do not come after the others, as the page does.

    Returns:
        How many there were.
    """
    left_out = 0
    for question in questions:  # in their order: a question may follow one that is left out
        if answers[question.name] and not question.asked(answers):
            answers[question.name] = ""
            left_out += 1
    return left_out


def _tidy(question: Question, answer: str) -> str:
    """Return an answer as the page writes it: no blanks around it, words in ascending order."""
    # People type `2, 1`; equal answers have to be equal texts.
    parts = answer.replace(",", " ").split() if question.words_of else [answer.strip()]
    if question.choices:
        # Spreadsheets capitalise the first letter of a cell.
        typed = parts[0]
        folded = (c for c in question.choices if c.casefold() == typed.casefold())
        return typed if typed in question.choices else next(folded, typed)
    # Others stay in their order, so that the error names what was typed.
    if parts and all(part.isascii() and part.isdigit() for part in parts):
        parts.sort(key=int)
    return " ".join(parts)


@dataclass(frozen=True)
class Key:
    """Where the items of a sheet are from.

    Attributes:
        path: the file.
        sheet: which sheet it belongs to.
        rows: by item, its columns.
        lines: by item, its line in the file.
    """

    path: Path
    sheet: str
    rows: Mapping[int, Mapping[str, str]]
    lines: Mapping[int, int]

    def parse(self, item: int, column: str, parse: Callable[[str], T]) -> T:
        """Return a cell as `parse` reads it.

        Raises:
            DataError: the column is missing, or `parse` raised a ValueError.
        """
        if column not in self.rows[item]:
            raise DataError(self.path, 1, f"no column {column!r}")
        try:
            return parse(self.rows[item][column])
        except ValueError as error:
            raise DataError(self.path, self.lines[item], f"{column}: {error}") from None


def read_key(path: Path, needed: Sequence[str]) -> Key:
    """Read the key of a sheet.

    Args:
        path: the file.
        needed: columns that it must have.

    Raises:
        DataError: it is not a key, or does not have a row for each item.
    """
    rows, lines, sheet = {}, {}, ""
    for line, item, row_sheet, row in _numbered_rows(path, needed):
        sheet, rows[item], lines[item] = row_sheet, row, line
    size = int(sheet.rsplit("-", 2)[1]) if sheet else 0
    # A key that was cut short would fail later, at the first item that it lacks.
    if not rows or len(rows) < size:
        raise DataError(path, None, f"has only {len(rows)} of the {size} items of its sheet")
    return Key(path, sheet, rows, lines)
