"""Two tables that papers made of people's answers: sums over items, as units.

Shapes: U items.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from xnmt_bench.metrics.annotation.answers import Answers
from xnmt_bench.metrics.annotation.coefficients import MISSING
from xnmt_bench.parsing import parse_number
from xnmt_bench.sheets import consistency, links
from xnmt_bench.sheets.files import AUTOMATIC

Sums = dict[str, np.ndarray]
# Which links a row counts (Dinarelli et al. 2024, Table 5).
LINKS_OF = ("all cases", "context needed", "context needed, hard", "positive attention")


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
    # An empty cell means a mention that looks nowhere; `looks_U` keeps its 0 out of the mean.
    weight_U, attended_U = (
        np.array([answers.key.parse(item, column, _number_or_zero) for item in items])
        for column in (links.WEIGHT, links.ATTENDED)
    )
    looks_U = answers.hidden(links.ATTENDED, items) != MISSING
    hard_U = answers.hidden(links.HARD, items) == "yes"
    questions = (links.NEEDED, links.FOUND, links.NAIVE, links.DISPERSED)
    answers_of = [answers.given(question, items) for question in questions]
    for explainer in sorted(set(explainer_U)):
        for place, group in enumerate(LINKS_OF):
            people: list[Sums] = []
            for needed_U, found_U, naive_U, dispersed_U in zip(*answers_of, strict=True):
                # In Table 5 positive attention is attention to any word of the context sentence.
                belongs_U = (True, needed_U == "yes", (needed_U == "yes") & hard_U, looks_U)[place]
                counted_U = belongs_U & (explainer_U == explainer) & (found_U != MISSING)
                person = {
                    "annotations": counted_U,
                    "naive": counted_U & (naive_U == "yes"),
                    "max_weight": counted_U & (found_U == links.MAX),
                    "nonzero": counted_U & (found_U != links.NO_WEIGHT),
                    "weight": counted_U * weight_U,
                    "looking": counted_U & looks_U,
                    "attended": (counted_U & looks_U) * attended_U,
                    "spread_asked": counted_U & (dispersed_U != MISSING),
                    "spread": counted_U & (dispersed_U == "yes"),
                }
                people.append(person)
            sums = {n: np.sum([p[n] for p in people], axis=0, dtype=float) for n in people[0]}
            # A group without a judged link gives no row, where it would give a row of NaN.
            if sums["annotations"].any():
                yield explainer, group, sums
