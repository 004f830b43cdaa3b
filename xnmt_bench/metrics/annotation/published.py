"""Two tables that papers made of people's answers: sums over items, as units.

Shapes: U items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from xnmt_bench.metrics.annotation.answers import Answers
from xnmt_bench.metrics.annotation.coefficients import MISSING
from xnmt_bench.parsing import parse_number
from xnmt_bench.sheets import consistency, links
from xnmt_bench.sheets.files import AUTOMATIC

Sums = dict[str, np.ndarray]
# Which links a row counts (Dinarelli et al. 2024, Table 5).
LINKS_OF = {
    "all cases": lambda needed, hard, attended: True,
    "context needed": lambda needed, hard, attended: needed,
    "context needed, hard": lambda needed, hard, attended: needed and hard,
    "positive attention": lambda needed, hard, attended: attended,
}


def judged_annotations(answers: Answers, items: Sequence[int]) -> Sums:
    """Count annotations as Yehudai et al. (2023), Table 10, by item.

    Returns:
        `alignment_errors`: the marked words do not translate the marked words.
        `gender_errors`: they are, and their gender is another than the automatic one. `correct`:
        they are, with the automatic gender. `annotations`: all of these. What is unanswered counts
        nowhere.
    """
    automatic_U = answers.hidden(f"{AUTOMATIC}{consistency.GENDER}", items)
    sums = {
        name: np.zeros(len(items))
        for name in ("alignment_errors", "gender_errors", "correct", "annotations")
    }
    both = zip(
        answers.given(consistency.IS_TRANSLATION, items),
        answers.given(consistency.GENDER, items),
        strict=True,
    )
    for aligned_U, gender_U in both:
        answered_U = gender_U != MISSING
        # "No" ends an annotation; "yes" counts only with the gender, which comes after it.
        yes_U = (aligned_U == consistency.YES) & answered_U
        sums["alignment_errors"] += aligned_U == consistency.NO
        sums["gender_errors"] += yes_U & (gender_U != automatic_U)
        sums["correct"] += yes_U & (gender_U == automatic_U)
    # Their sum and not a count of answers: one that was left halfway is none of the three.
    sums["annotations"] = sums["alignment_errors"] + sums["gender_errors"] + sums["correct"]
    return sums


def _number_or_zero(cell: str) -> float:
    return parse_number(cell) if cell else 0.0


def read_links(answers: Answers, items: Sequence[int]) -> Iterator[tuple[str, str, Sums]]:
    """Yield the sums of Dinarelli et al. (2024), Table 5, by explainer and group of links.

    People say whether a link is found, naive, and needs its context; the weight and the number of
    attended words are the heatmap's, as the key has them. A link counts once for each person.
    """
    assert answers.key is not None, "explainer and weight stand in the key"
    explainer_U = answers.hidden("explainer", items)
    # An empty cell stands for a mention that looks nowhere; `looks_U` keeps its 0 out of the mean.
    weight_U, attended_U = (
        np.array([answers.key.parse(item, column, _number_or_zero) for item in items])
        for column in (links.WEIGHT, links.ATTENDED)
    )
    looks_U = answers.hidden(links.ATTENDED, items) != MISSING
    hard_U = answers.hidden(links.HARD, items) == "yes"
    names = ("needed", "found", "naive", "dispersed")
    answers_of = {name: answers.given(getattr(links, name.upper()), items) for name in names}
    for explainer in sorted(set(explainer_U)):
        for group, belongs in LINKS_OF.items():
            sums: Sums = {
                name: np.zeros(len(items))
                for name in (
                    *("annotations", "naive", "max_weight", "nonzero", "weight"),
                    *("looking", "attended", "spread_asked", "spread"),
                )
            }
            people: Iterator[Mapping[str, np.ndarray]] = (
                {name: person_U[n] for name, person_U in answers_of.items()}
                for n in range(len(answers.filled))
            )
            for person in people:
                needed_U = person["needed"] == "yes"
                # In Table 5 positive attention is attention to any word of the context sentence.
                chosen = map(belongs, needed_U, hard_U, looks_U)
                counted_U = (
                    np.fromiter(chosen, bool, len(items))
                    & (explainer_U == explainer)
                    & (person["found"] != MISSING)
                )
                sums["annotations"] += counted_U
                sums["naive"] += counted_U & (person["naive"] == "yes")
                sums["max_weight"] += counted_U & (person["found"] == links.MAX)
                sums["nonzero"] += counted_U & (person["found"] != links.NO_WEIGHT)
                sums["weight"] += counted_U * weight_U
                sums["looking"] += counted_U & looks_U
                sums["attended"] += (counted_U & looks_U) * attended_U
                sums["spread_asked"] += counted_U & (person["dispersed"] != MISSING)
                sums["spread"] += counted_U & (person["dispersed"] == "yes")
            # A group without a judged link gives no row, where it would give a row of NaN.
            if sums["annotations"].any():
                yield explainer, group, sums
