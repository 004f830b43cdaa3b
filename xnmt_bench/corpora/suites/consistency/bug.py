"""BUG (Levy et al. 2021): natural sentences with a profession and a pronoun of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from xnmt_bench.corpora.suites.consistency.pronouns import PRONOUNS, bare
from xnmt_bench.corpora.suites.consistency.suite import Entity, Item, Suite, left_out
from xnmt_bench.corpora.text import csv_rows
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import DataError
from xnmt_bench.morphology import Gender
from xnmt_bench.parsing import parse_count

GENDERS: Mapping[str, Gender] = {"Male": "m", "Female": "f"}
SETS = {"1": ("pro",), "-1": ("anti",), "0": ()}
SENTENCE, PRONOUN, NOUN, GENDER = "sentence_text", "g", "profession", "predicted gender"
PLACES = (f"{PRONOUN}_first_index", f"{NOUN}_first_index")
NEEDED = (SENTENCE, PRONOUN, NOUN, GENDER, *PLACES, "stereotype")


def bug(data: Path, language: str) -> Suite:
    """Read BUG's CSV, whose places count words between blanks; it names no other entity.

    Every row is a sentence. Rows whose words do not stand at their places are counted and listed,
    and have no item.
    """
    path = data / "bug" / "gold_BUG.csv"
    sources: list[str] = []
    items: list[Item] = []
    problems: dict[int, str] = {}
    for line, row in csv_rows(path, NEEDED):
        try:
            words = split_words(row[SENTENCE])
            places = [parse_count(row[name]) for name in PLACES]
            gender, sets = GENDERS[row[GENDER]], SETS[row["stereotype"]]
        except (ValueError, KeyError) as error:
            raise DataError(path, line, f"not readable: {error}") from None
        # The gold gender is predicted by BUG's own tool, and does not always fit the pronoun.
        if PRONOUNS.get(bare(row[PRONOUN])) != gender:
            problems[line] = f"{row[PRONOUN]!r} is not a {row[GENDER]} pronoun"
        for place, name in zip(places, (PRONOUN, NOUN), strict=True):
            # Checked, since a place that is off would judge another word.
            word = bare(words[place]) if 0 <= place < len(words) else "nothing"
            if word != bare(row[name]):
                problems[line] = f"word {place} is {word!r}, not {row[name]!r}"
        if line not in problems:
            pronoun, noun = places
            items.append(Item(len(sources), pronoun, Entity((noun,)), None, gender, sets))
        # Every row keeps its place, so that translations made elsewhere stay aligned.
        sources.append(" ".join(words))
    left_out(path, problems)
    return Suite.of("bug", sources, items)
