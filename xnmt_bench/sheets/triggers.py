"""Which words of the source made the gender of an entity's translation?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.parquet import read_table
from xnmt_bench.sheets.consistency import GENDERS, NO, YES, judged_translations, shown_mention
from xnmt_bench.sheets.sheet import (
    SYSTEM,
    UNKNOWN,
    Item,
    Question,
    SheetKind,
    ShownText,
    joined_numbers,
)
from xnmt_bench.sheets.words import relevance_files

RELEVANCE_FILE = "entity_relevance"  # of a measurement's files
TRIGGERS = "triggers"
GENDER, AGREES = "gender", "agrees"  # of the key; people see the gender


class TriggersSheet(SheetKind):
    """Entities of `metric=[consistency]` whose translation shows a gender."""

    name = "triggers"
    metric = "consistency"
    made_by = (
        "train.py metric=[consistency] metric.consistency.relevance=true for each explainer, or "
        "evaluate.py metric=[consistency] with outputs.path=..."
    )
    title = "Which words make the gender?"
    instruction = (
        "A person or thing is marked in a sentence (source) and in its translation (target), "
        "with the grammatical gender that the marked words of the target show. Choose the words of "
        "the source that led to this gender: words that tell it, such as a pronoun, and words that "
        "suggest it. The gender may be wrong: then choose the words that misled. Choose as few as "
        "you can; choose none where the gender is the one that the language takes by default. "
        "Leave an item open where the marked words of the target do not translate those of the "
        "source."
    )
    questions = (
        Question(
            TRIGGERS,
            "Which words of the source made this gender? No word: it is the language's default.",
            words_of="source",
        ),
    )
    source = "after Hackenbuchner et al. 2026"

    def items(self, measurements: Sequence[Measurement]) -> Iterator[Item]:
        """Yield the entities of each system's translations; see `SheetKind`."""
        for measured, rows in judged_translations(measurements):
            files = relevance_files(measured, RELEVANCE_FILE, "blind_explainer")
            tables = {column: read_table(path) for column, path in files.items()}
            relevance_of = {name: table["relevance"].to_pylist() for name, table in tables.items()}
            entities = set[tuple[int, ...]]()
            for place, row in enumerate(rows):
                # Several pronouns may refer to an entity; the first decides whether they agree.
                entity = (row["number"], *row["entity_source"])
                # An earlier sentence is translated without the words of this one.
                if not row["entity_gender"] or row["entity_back"] or entity in entities:
                    continue
                entities.add(entity)
                relevance = {
                    column: joined_numbers(values[place])
                    for column, values in relevance_of.items()
                    if values[place]
                }
                yield _item(measured[0].identity, row, relevance)


def _item(
    identity: Mapping[str, Any], row: Mapping[str, Any], relevance: Mapping[str, str]
) -> Item:
    """Return one entity.

    Args:
        identity: of a row of results.
        row: of `judged_translations`.
        relevance: of the source's words, by column of the key.
    """
    # A pronoun that was left out has no gender to agree with.
    agrees = UNKNOWN if row["left_out"] else YES if row["consistent"] else NO
    key = {column: str(identity[column]) for column in (*SYSTEM, "links", "morphology")} | {
        "number": str(row["number"]),
        GENDER: row["entity_gender"],
        AGREES: agrees,
        **relevance,
    }
    gender = ShownText("gender", [GENDERS[row["entity_gender"]]])
    texts = [*shown_mention(row, "entity", numbered=True), gender]
    return Item(texts, key, cause=f"{row['entity_gender']} {agrees}")
