"""BUG (Levy et al. 2021): natural sentences with a profession and a pronoun of it."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from xnmt_bench.corpora.consistency.pronouns import PRONOUNS, bare
from xnmt_bench.corpora.consistency.suite import Entity, Item, Suite, left_out
from xnmt_bench.corpora.text import csv_rows, text_lines
from xnmt_bench.errors import DataError
from xnmt_bench.morphology import Gender

GENDERS: Mapping[str, Gender] = {"Male": "m", "Female": "f"}
SETS = {"1": ("pro",), "-1": ("anti",), "0": ()}
SENTENCE, PRONOUN, NOUN, GENDER = "sentence_text", "g", "profession", "predicted gender"
NEEDED = (
    SENTENCE,
    PRONOUN,
    NOUN,
    GENDER,
    f"{PRONOUN}_first_index",
    f"{NOUN}_first_index",
    "stereotype",
)


def bug(data: Path, language: str) -> Suite:
    """Return a CSV, whose places count words between blanks; it names no other entity.

    Every row is a sentence. Rows whose words do not stand at their places are counted and listed,
    and have no item.
    """
    path = data / "bug" / "gold_BUG.csv"
    rows = csv.DictReader(text + "\n" for _, text in text_lines(path))
    if missing := [name for name in NEEDED if name not in (rows.fieldnames or ())]:
        raise DataError(path, 1, f"no column {missing[0]!r}")
    sources: list[str] = []
    items: list[Item] = []
    problems: dict[int, str] = {}
    for row in csv_rows(path, rows):
        try:
            words = row[SENTENCE].split()
            places = [int(row[f"{name}_first_index"]) for name in (PRONOUN, NOUN)]
            gender, sets = GENDERS[row[GENDER]], SETS[row["stereotype"]]
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise DataError(path, rows.line_num, f"not readable: {error}") from None
        if PRONOUNS.get(bare(row[PRONOUN])) != gender:
            problems[rows.line_num] = f"{row[PRONOUN]!r} is no pronoun of {row[GENDER]}"
        for place, name in zip(places, (PRONOUN, NOUN), strict=True):
            word = bare(words[place]) if 0 <= place < len(words) else "nothing"
            if word != bare(row[name]):
                problems[rows.line_num] = f"{word!r} is at word {place}, not {row[name]!r}"
        if rows.line_num not in problems:
            pronoun, noun = places
            items.append(Item(len(sources), pronoun, Entity((noun,)), None, gender, sets))
        sources.append(" ".join(words))
    left_out(path, problems)
    return Suite.of("bug", sources, items)
