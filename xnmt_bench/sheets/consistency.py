"""Are the marked words the pronoun's translation, and what gender do they show?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.options import Text
from xnmt_bench.parquet import read_table
from xnmt_bench.sheets.files import AUTOMATIC
from xnmt_bench.sheets.sheet import SYSTEM, UNKNOWN, Item, Question, SheetKind, ShownText, yes_no

JUDGED = "judged"  # of a measurement's files
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
        yes_no(IS_TRANSLATION, "Do the marked words of the target translate those of the source?"),
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
        for measured, rows in judged_translations(measurements):
            for row in rows:
                if row[f"{self.mention}_target"]:
                    yield self._item(measured[0].identity, row)

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
        return Item(shown_mention(row, self.mention), key, cause=row["left_out"])


def judged_translations(
    measurements: Sequence[Measurement],
) -> Iterator[tuple[list[Measurement], list[dict[str, Any]]]]:
    """Yield the judged pronouns of each system's translations, with the rows of results on them.

    Several rows of results are on the same pronouns where explainers or resolvers are compared with
    them.

    Args:
        measurements: of `metric=[consistency]`.
    """
    groups: dict[tuple[str, ...], list[Measurement]] = defaultdict(list)
    for m in measurements:
        # Human translations come from no system.
        if JUDGED in m.files and not m.facts.blind:
            identity = (str(m.identity[c]) for c in (*SYSTEM, "links", "morphology"))
            # A file is named by its digest, so one name is one content.
            groups[(*identity, m.model, m.files[JUDGED])].append(m)
    for _, measured in sorted(groups.items()):
        yield measured, read_table(measured[0].file(JUDGED)).to_pylist()


def shown_mention(row: Mapping[str, Any], mention: str, numbered: bool = False) -> list[ShownText]:
    """Return source and target of a judged pronoun, with a mention marked in both.

    Args:
        row: of `judged_translations`.
        mention: `pronoun` or `entity`.
        numbered: whether the words of the source are numbered.
    """
    return [
        # By single blanks, as the marked places were counted; split() would drop an empty word.
        ShownText("source", row["source"].split(" "), row[f"{mention}_source"], numbered),
        ShownText("target", row["translation"].split(" "), row[f"{mention}_target"]),
    ]
