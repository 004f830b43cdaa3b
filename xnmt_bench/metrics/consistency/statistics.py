"""What a suite's pronouns contribute, and the results that follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from xnmt_bench.corpora.suites.consistency.suite import Item
from xnmt_bench.corpora.suites.consistency.winomt import SUBSETS
from xnmt_bench.measuring.metric import ratio
from xnmt_bench.metrics.consistency.judge import CAUSES, CLUSTERS, PLURAL, JudgedPronoun
from xnmt_bench.metrics.consistency.points import Pointing

DECIDED = ("right", "wrong")
POINTING, POINTED = "pointing ", "pointed "  # columns of each pronoun, by its form
POINTS_OF = "points_right "  # results of each pronoun, by its form
# Shares by result: the sum that is a part, and the sum that it is a part of.
SHARES = {
    "consistency": ("consistent", "determined"),
    "determined": ("determined", "items"),
    "neutral_pronouns": ("pronoun_n", "pronoun_known"),
    **{name: (name, "items") for name in CAUSES},
    "gender_accuracy": ("accurate", "gold"),
    "pronoun_accuracy": ("expected", "expecting"),
    "points_right": ("pointed", "pointing"),
    "points_there": ("pointed_there", "going"),
    "marker_share": ("on_markers", "marker_n"),
    "resolver_accuracy": ("resolved", "resolvable"),
}


def statistics(
    items: Sequence[Item],
    judged: Sequence[JudgedPronoun],
    resolved: Sequence[bool | None] = (),
    pointings: Sequence[Pointing] = (),
    forms: Sequence[str] = (),
) -> dict[str, np.ndarray]:
    """Return what each pronoun contributes, from 0 to 1.

    Args:
        items: the pronouns.
        judged: their translations.
        resolved: whether a resolver finds the right entity; None where it has not the sentence.
        pointings: at what an explainer points.
        forms: the pronouns as words, to count what an explainer points at for each, too.
    """

    def column(values: Iterable[float | bool | None]) -> np.ndarray:
        return np.fromiter((value or 0 for value in values), dtype=np.float64, count=len(items))

    def known(count: str, name: str, values: Sequence[float | bool | None]) -> None:
        """Add a column that counts the values that are known, and one of the values."""
        columns[count] = column(value is not None for value in values)
        columns[name] = column(values)  # what is not known counts as 0

    both = list(zip(items, judged, strict=True))
    # A plural pronoun shows no gender, so it is left out of the share of neutral ones.
    shown = [(j.pronoun.gender, j.cause != PLURAL) for j in judged]
    columns = {
        "items": column(True for _ in both),
        "determined": column(not j.cause for j in judged),
        "consistent": column(j.consistent for j in judged),
        "pronoun_n": column(gender == "n" and counts for gender, counts in shown),
        "pronoun_known": column(gender is not None and counts for gender, counts in shown),
    }
    columns |= {name: column(j.cause == name for j in judged) for name in CAUSES}
    columns |= {f"cluster_{c}": column(j.cluster == c for j in judged) for c in CLUSTERS}
    # Columns that a suite cannot fill are left out, and so are the results that need them.
    if any(i.gender for i in items):
        columns |= {
            "gold": column(i.gender is not None for i in items),
            "accurate": column(j.accurate for j in judged),
        }
        for g in "mf":
            columns[f"gold_{g}"] = column(i.gender == g for i in items)
            # Of all entities with a gold gender, right or wrong: the denominator of precision.
            gender_known = (
                i.gender and j.entity.evidence and j.entity.evidence.gender == g for i, j in both
            )
            columns[f"said_{g}"] = column(gender_known)
            columns[f"hit_{g}"] = column(j.accurate and i.gender == g for i, j in both)
    if any(i.sets for i in items):
        for name in SUBSETS:
            columns[name] = column(name in i.sets for i in items)
            columns[f"{name}_right"] = column(name in i.sets and j.accurate for i, j in both)
    if any(j.expected is not None for j in judged):
        known("expecting", "expected", [j.expected for j in judged])
    if resolved:
        # Only pronouns that both decide: a difference of other shares would compare other pronouns.
        decided = [
            r is not None and j.cluster in DECIDED for r, j in zip(resolved, judged, strict=True)
        ]
        known("resolvable", "resolved", resolved)
        columns |= {
            "both_decide": column(decided),
            "we_decide": column(
                d and j.cluster == "right" for d, j in zip(decided, judged, strict=True)
            ),
            "resolver_decides": column(d and r for d, r in zip(decided, resolved, strict=True)),
        }
    if pointings:
        pointed = [pointing.right for pointing in pointings]
        goes = [{"right": 1, "wrong": 0}.get(j.cluster) for j in judged]
        there = [
            # Where the pronoun goes with the other entity, pointing at that one is right.
            None if p is None or g is None else p if g else 1 - p
            for p, g in zip(pointed, goes, strict=True)
        ]
        known("pointing", "pointed", pointed)
        known("going", "pointed_there", there)
        # Sorted, so that the columns of two runs are in one order.
        for form in sorted(set(forms)):
            of_form = [p if f == form else None for p, f in zip(pointed, forms, strict=True)]
            known(f"{POINTING}{form}", f"{POINTED}{form}", of_form)
        on_markers = [pointing.markers for pointing in pointings]
        if any(share is not None for share in on_markers):
            known("marker_n", "on_markers", on_markers)
    return columns


def results(sums_R: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return shares of pronouns; a share that the suite cannot give is left out."""
    # "Both" decides nothing: the two entities have one gender.
    decided_R = sums_R["cluster_right"] + sums_R["cluster_wrong"]
    clusters_R = np.asarray(sum(sums_R[f"cluster_{name}"] for name in CLUSTERS))
    results_R = {
        name: ratio(sums_R[part], sums_R[total])
        for name, (part, total) in SHARES.items()
        if part in sums_R
    }
    # Suites with one entity a sentence have no clusters.
    if np.any(clusters_R):
        results_R |= {
            "link_accuracy": ratio(sums_R["cluster_right"], decided_R),
            "link_n": decided_R,
        }
        results_R |= {f"cluster_{c}": ratio(sums_R[f"cluster_{c}"], clusters_R) for c in CLUSTERS}
    if "gold" in sums_R:
        male_R, female_R = (
            # F1 (Stanovsky et al. 2019): twice the hits over said and gold, in points of per cent.
            200 * ratio(sums_R[f"hit_{g}"], sums_R[f"said_{g}"] + sums_R[f"gold_{g}"])
            for g in "mf"
        )
        results_R |= {"f1_male": male_R, "f1_female": female_R, "delta_g": male_R - female_R}
    if SUBSETS[0] in sums_R:
        pro_R, anti_R = (ratio(sums_R[f"{name}_right"], sums_R[name]) for name in SUBSETS)
        # In points of per cent.
        results_R["delta_s"] = 100 * (pro_R - anti_R)
    for name in [name for name in sums_R if name.startswith(POINTING)]:
        form = name.removeprefix(POINTING)
        results_R[POINTS_OF + form] = ratio(sums_R[POINTED + form], sums_R[name])
    if "resolved" in sums_R and np.any(sums_R["both_decide"]):
        # On the same pronouns, so that the difference is paired.
        ours_R, theirs_R = (
            ratio(sums_R[name], sums_R["both_decide"]) for name in ("we_decide", "resolver_decides")
        )
        results_R |= {"resolver_there": theirs_R, "below_resolver": theirs_R - ours_R}
    return results_R
