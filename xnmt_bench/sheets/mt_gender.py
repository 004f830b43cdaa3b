"""People's labels of WinoMT's translations as mt_gender released them (Stanovsky et al. 2019).

A row is `Index` (a line of `en.txt`, from 0), the entity, the translation, whether the entity can
be found in it (Y or N), and its gender: M, F, or N for none. They come in as answers to a sheet of
entities (`sheet=consistency sheet.mention=entity sheet.items=null`), whose key they need.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from xnmt_bench.corpora.text import csv_rows
from xnmt_bench.errors import DataError
from xnmt_bench.parsing import parse_count
from xnmt_bench.sheets.consistency import GENDER, TRANSLATION, ConsistencySheet
from xnmt_bench.sheets.files import FilledSheet, Key
from xnmt_bench.sheets.sheet import SYSTEM

log = logging.getLogger(__name__)
INDEX, SENTENCE = "Index", "Sentence"
KEY_COLUMNS = (*SYSTEM, "mention", "number", TRANSLATION)
FOUND, LABEL = "Find entity? [Y/N]", "Gender? [M/F/N]"


def read_mt_gender(path: Path, key: Key) -> FilledSheet:
    """Return released labels as answers to the question of gender.

    An entity that was not found, or that shows no gender (N), has no answer.

    Args:
        path: the file.
        key: of a sheet of the same translations, with the columns of `KEY_COLUMNS`.

    Raises:
        DataError: the file is not in that form, or labels translations that the key lacks.
    """
    # The files do not ask whether the words are a translation, so the gender depends on nothing.
    gender_questions = [
        replace(q, only_if=None) for q in ConsistencySheet.questions if q.name == GENDER
    ]
    by_number: dict[int, dict[str, int]] = defaultdict(dict)
    for item, row in key.rows.items():
        if row["mention"] == "entity":
            # By text too: a key may hold several systems' translations of a sentence. Where two of
            # them are equal, the label is of either, and the first takes it.
            number = key.parse(item, "number", parse_count)
            by_number[number].setdefault(row[TRANSLATION], item)
    answers: dict[int, dict[str, str]] = {}
    lines, unlinked = 0, 0
    for line, row in csv_rows(path, [INDEX, SENTENCE, FOUND, LABEL]):
        lines += 1
        is_found, label = (row[name].strip().upper() for name in (FOUND, LABEL))
        if is_found not in ("Y", "N") or label not in ("M", "F", "N", ""):
            raise DataError(
                path,
                line,
                f"{is_found!r} should be Y or N, and {label!r} should be M, F, N or empty",
            )
        try:
            texts = by_number.get(parse_count(row[INDEX].strip()), {})
        except ValueError as error:
            raise DataError(path, line, f"{INDEX}: {error}") from None
        # The labels are of all of WinoMT; a sheet may be of a sample.
        if not texts:
            unlinked += 1
            continue
        # Words of the judged translations stand between single blanks.
        item_found = texts.get(" ".join(row[SENTENCE].split()))
        if item_found is None:
            problem = f"the key has another translation of sentence {row[INDEX].strip()}"
            raise DataError(path, line, f"{problem}: {next(iter(texts))[:60]!r}")
        gender = label.lower() if is_found == "Y" and label in ("M", "F") else ""
        answers[item_found] = {GENDER: gender}
    if not answers:
        raise DataError(path, None, f"{key.path} has none of its {lines} sentences")
    if unlinked:
        log.warning("%s: %d sentences are not in %s", path, unlinked, key.path)
    return FilledSheet(path, key.sheet, gender_questions, answers)
