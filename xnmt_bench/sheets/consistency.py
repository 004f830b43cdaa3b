"""Are the marked words the pronoun's translation, and what gender do they show?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from xnmt_bench.errors import StoreError
from xnmt_bench.measuring.measurement import BLIND, Measurement
from xnmt_bench.options import Text
from xnmt_bench.parquet import column_names, read_table
from xnmt_bench.sheets.files import AUTOMATIC
from xnmt_bench.sheets.sheet import SYSTEM, UNKNOWN, Item, Question, SheetKind, ShownText

JUDGED = "judged"  # of a measurement's files
NEEDED = "pronoun_target"
TRANSLATION = "translation"  # of the key: by it labels of other files are checked
YES, NO = "yes", "no"
IS_TRANSLATION, GENDER = "is_translation", "gender"
GENDERS = {"m": "masculine", "f": "feminine", "n": "neuter", UNKNOWN: "they do not show it"}


class ConsistencySheet(SheetKind):
    """Translations that `metric=[consistency]` judged, one mention marked in each.

    Args:
        mention: what is marked, the pronoun or its entity.
        corpus, lang_pair, nmt: the rows of results that items come from; None for all.
    """

    name = "consistency"
    metric = "consistency"
    made_by = "evaluate.py metric=[consistency] with outputs.path=..., or train.py"
    title = "Pronouns and genders"
    instruction = (
        "Words are marked in a sentence (source) and in its translation (target). Say whether the "
        "marked words of the target translate those of the source, and which grammatical gender "
        "they show. Other mistakes of the translation do not matter."
    )
    questions = (
        Question(
            IS_TRANSLATION,
            "Do the marked words of the target translate those of the source?",
            {YES: "yes", NO: "no"},
            "yn",
        ),
        Question(
            GENDER,
            "Which gender do the marked words of the target show?",
            GENDERS,
            "mfnu",
            only_if=(IS_TRANSLATION, (YES,)),
        ),
    )
    source = "Yehudai et al. 2023, section 3.3"

    def __init__(
        self,
        mention: Literal["pronoun", "entity"] = "pronoun",
        corpus: Text | None = None,
        lang_pair: Text | None = None,
        nmt: Text | None = None,
    ) -> None:
        super().__init__(corpus, lang_pair, nmt)
        self.mention = mention

    def items(self, measurements: Sequence[Measurement]) -> Iterator[Item]:
        """Yield the translations in which words are linked to the mention; see `SheetKind`."""
        for measurement in measurements:
            # Human translations come from no system.
            if JUDGED not in measurement.files or measurement.facts.get(BLIND):
                continue
            path = measurement.file(JUDGED)
            if NEEDED not in column_names(path):
                cure = f"an earlier version wrote it; run {self.made_by} again"
                raise StoreError(f"{path}: has no column {NEEDED!r}: {cure}")
            for row in read_table(path).to_pylist():
                if row[f"{self.mention}_target"]:
                    yield self._item(measurement.identity, row)

    def _item(self, identity: Mapping[str, Any], row: Mapping[str, Any]) -> Item:
        key = {column: str(identity[column]) for column in SYSTEM} | {
            "links": str(identity["links"]),
            "morphology": str(identity["morphology"]),
            "mention": self.mention,
            "number": str(row["number"]),
            "cause": row["left_out"],
            TRANSLATION: row["translation"],
            # Words are marked because they count as its translation.
            f"{AUTOMATIC}{IS_TRANSLATION}": YES,
            f"{AUTOMATIC}{GENDER}": row[f"{self.mention}_gender"] or UNKNOWN,
        }
        texts = [
            # By single blanks, as the marked places were counted; split() would drop an empty word.
            ShownText("source", row["source"].split(" "), row[f"{self.mention}_source"]),
            ShownText("target", row["translation"].split(" "), row[f"{self.mention}_target"]),
        ]
        return Item(texts, key, cause=row["left_out"])
