"""The answers of several people to one sheet, and where its items are from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xnmt_bench.errors import ConfigError, DataError
from xnmt_bench.metrics.annotation.coefficients import MISSING
from xnmt_bench.sheets.files import FilledSheet, Key, read_filled, read_key
from xnmt_bench.sheets.mt_gender import KEY_COLUMNS, read_mt_gender
from xnmt_bench.sheets.sheet import SYSTEM, Question

MT_GENDER = "mt_gender"
Group = Mapping[str, str]  # corpus, lang_pair, nmt


@dataclass(frozen=True)
class Answers:
    """What people answered.

    Attributes:
        filled: a sheet for each person.
        key: where the items are from; None while that is hidden.
    """

    filled: Sequence[FilledSheet]
    key: Key | None

    @property
    def sheet(self) -> str:
        """Which sheet it is."""
        return self.filled[0].sheet

    @property
    def questions(self) -> Sequence[Question]:
        """Of the sheet."""
        return self.filled[0].questions

    @property
    def items(self) -> list[int]:
        """The numbers of the items that at least one file holds, ascending."""
        return sorted({item for sheet in self.filled for item in sheet.answers})

    def people(self) -> list[str]:
        """Return the name of each file, and how many of its questions are unanswered."""
        paths = [sheet.path for sheet in self.filled]
        names = [path.name for path in paths]
        if len(set(names)) < len(names):  # the page saves each person's file under one name
            names = ["/".join(path.parts[-2:]) for path in paths]  # no path of a machine is kept
        if len(set(names)) < len(names):
            names = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
        missing = zip(names, (sheet.missing() for sheet in self.filled), strict=True)
        return [f"{name} ({count} unanswered)" if count else name for name, count in missing]

    def groups(self) -> Iterator[tuple[Group, list[int]]]:
        """Yield the items of each system on each corpus, and all of them where these are several.

        Without a key that is unknown, and there is one group.
        """
        if self.key is None:
            yield dict.fromkeys(SYSTEM, ""), self.items
            return
        members: dict[tuple[str, ...], list[int]] = {}
        for item in self.items:
            row = self.key.rows[item]
            members.setdefault(tuple(row[column] for column in SYSTEM), []).append(item)
        for values, items in sorted(members.items()):
            yield dict(zip(SYSTEM, values, strict=True)), items
        # A coefficient over several systems is not the mean of theirs, so it has a row of its own.
        if len(members) > 1:
            yield {"corpus": "all", "lang_pair": "", "nmt": ""}, self.items

    def given(self, question: str, items: Sequence[int]) -> list[np.ndarray]:
        """Return each person's answers to a question, (U,); empty texts where there is none."""
        return [
            np.array([sheet.answers.get(item, {}).get(question, MISSING) for item in items], object)
            for sheet in self.filled
        ]

    def hidden(self, column: str, items: Sequence[int]) -> np.ndarray:
        """Return a column of the key, (U,); empty texts where there is none."""
        assert self.key is not None, "a hidden column needs the key"
        return np.array([self.key.rows[item].get(column, MISSING) for item in items], object)


def read_answers(paths: Sequence[Path], key_path: Path | None, form: str) -> Answers:
    """Read the answers of one person or several.

    Args:
        paths: a file for each person.
        key_path: the key of their sheet; None while that is hidden.
        form: how the answers are written, `sheet` or `mt_gender`.

    Raises:
        ConfigError: a file is given twice, or labels of others without a key.
        DataError: a file is not readable, or is of another sheet.
    """
    # A file compared with itself would agree perfectly.
    if len({path.resolve() for path in paths}) < len(paths):
        raise ConfigError(
            ["sheet.path: the same file is given twice; give one file for each person"]
        )
    key_columns = KEY_COLUMNS if form == MT_GENDER else SYSTEM
    key = read_key(key_path, key_columns) if key_path else None
    # Released labels name sentences; only a key ties them to the items of a sheet.
    if form == MT_GENDER:
        if key is None:
            raise ConfigError([f"sheet.format={form} needs sheet.key of a sheet with all entities"])
        return Answers([read_mt_gender(path, key) for path in paths], key)
    filled = [read_filled(path) for path in paths]
    for sheet in filled[1:]:
        if sheet.sheet != filled[0].sheet:
            problem = f"answers sheet {sheet.sheet}, but {filled[0].path} answers {filled[0].sheet}"
            raise DataError(sheet.path, 2, problem)
    if key is not None and key.sheet != filled[0].sheet:
        problem = f"is the key of sheet {key.sheet}, but {filled[0].path} answers {filled[0].sheet}"
        raise DataError(key.path, 2, problem)
    return Answers(filled, key)
