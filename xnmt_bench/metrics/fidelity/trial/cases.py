"""Rows of the two explanations on twin systems, grouped into what is tried.

Shapes: P pairs of twins, E explanations, S slots, U sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.alike import comparable, family
from xnmt_bench.measuring.measurement import DECISIONS, SETTINGS, Measurement
from xnmt_bench.measuring.metric import TableRow
from xnmt_bench.measuring.units import common
from xnmt_bench.metrics.fidelity.evidence import LIKELIHOOD_OF, PLANTED
from xnmt_bench.report.panels import Panel

EXPLANATIONS = ("names_link", "names_cue")
RANDOM = "random"  # an explanation whose log Q is the lower end of a judge's span
OTHERS = ("", "random")  # what orders the other words of a rule; nearness has no name
TWINS = ("cue", "link")  # what each learnt without: the link's system L first, the cue's system C


@dataclass
class Case:
    """What one judge says, taught on one text, of the twins of one architecture.

    Attributes:
        condition: the columns that all its rows share.
        architecture: of both systems.
        judge: name of the judge's rows, and `heading` of its column.
        judge_name: as in `judge=[name]`; empty for rows that do not say it.
        settings: what decides the rows' numbers besides their columns.
        rows: by seed of the pair, what a twin learnt without, and explanation: a row for each seed
            of the judge.
    """

    condition: dict[str, Any]
    architecture: str
    judge: str
    heading: str
    judge_name: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    rows: dict[tuple[int, str, str], list[Measurement]] = field(default_factory=dict)

    def likelihoods(self, slots: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return log Q of labels, summed by sentence, and how many there are.

        Args:
            slots: of the decisions; only those count that all systems get right.

        Returns:
            (P, 2, E, U) by pair, twin and explanation, the last of which is `random` where it has
            rows of all systems, and (U,).
        """
        names = (*EXPLANATIONS, RANDOM) if self.has_random else EXPLANATIONS
        cells = [[m.units() for m in self.rows[key]] for key in product(self.seeds, TWINS, names)]
        shape = (len(self.seeds), len(TWINS), len(names))
        numbers = common([u for cell in cells for u in cell])
        if numbers is None:  # of other test sets
            return np.zeros((*shape, 0)), np.zeros(0)

        def of(column: str) -> np.ndarray:
            """Return a column, the mean of the judge's seeds, (P, 2, E, U)."""
            values = [np.mean([u.take(numbers)[column] for u in cell], axis=0) for cell in cells]
            return np.array(values).reshape(*shape, -1)

        right_SU = np.array([(of(PLANTED + slot) == 1).all(axis=(0, 1, 2)) for slot in slots])
        parts = zip(slots, right_SU, strict=True)
        summed = sum(of(LIKELIHOOD_OF + slot) * right_U for slot, right_U in parts)
        return np.asarray(summed), right_SU.sum(axis=0)

    def mean_fact(self, name: str) -> float:
        """Return the mean of a number among the facts of its rows; NaN where a row lacks it."""
        keys = product(self.seeds, TWINS, EXPLANATIONS)
        values = [m.facts.of_metric.get(name) for key in keys for m in self.rows[key]]
        return float("nan") if None in values else float(np.mean(values))  # type: ignore[arg-type]

    @property
    def seeds(self) -> list[int]:
        """Seeds of which both twins were judged by both explanations."""
        every = {seed for seed, *_ in self.rows}
        return sorted(s for s in every if {*product([s], TWINS, EXPLANATIONS)} <= {*self.rows})

    @property
    def has_random(self) -> bool:
        """Whether `random` has rows of both twins of every pair."""
        return {*product(self.seeds, TWINS, [RANDOM])} <= {*self.rows}

    @property
    def slots(self) -> list[str]:
        """The slots that its rows have."""
        [first, *_] = self.rows[self.seeds[0], TWINS[0], EXPLANATIONS[0]]
        names = first.units().columns
        return [name.removeprefix(PLANTED) for name in names if name.startswith(PLANTED)]

    @property
    def families(self) -> list[set[str]]:
        """The families of systems of each twin; more than one are systems of other options."""
        return [
            {family(m) for (_, of, _), rows in self.rows.items() if of == twin for m in rows}
            for twin in TWINS
        ]


def title_phrases(rows: Sequence[TableRow]) -> dict[str, str]:
    """Return how a title says what all rows of a trial share."""
    phrases = {"system": "{}", "k": "k = {}"}
    # Of rules with more words than the planted one.
    return phrases | ({"others": "other words: {}"} if any(r["others"] for r in rows) else {})


def tried_cases(panels: Sequence[Panel]) -> list[Case]:
    """Return the cases that have rows of both explanations on both twins.

    Raises:
        NotApplicable: there is none, or systems of other options share a name.
    """
    cases = [case for case in _cases(panels) if case.seeds]
    if not cases:
        raise NotApplicable(
            "needs explainer=names_link,names_cue on corpus=toy_twins, for systems with "
            "nmt.corpus={hides:cue},{hides:link}"
        )
    for case in cases:
        if any(len(names) > 1 for names in case.families):
            raise NotApplicable(
                f"several systems with different options have the name {case.architecture}; give "
                "each its nmt.name, or its own results folder"
            )
    return cases


def _cases(panels: Sequence[Panel]) -> list[Case]:
    """Return the cases of rows of both explanations, by everything that they share."""
    cases: dict[tuple[Any, ...], list[Case]] = {}
    for panel in panels:
        shared = {c: v for c, v in panel.condition.items() if c not in ("nmt", "model", SETTINGS)}
        # Of rows of some decisions and of all alike the planted ones are compared.
        settings = {name: v for name, v in panel.settings.items() if name != DECISIONS}
        for pivot, by_name in panel.by_pivot(blind=True).items():
            for others, name, measurements in _by_others(by_name):
                condition = shared | {"others": others}
                of_case = condition | {SETTINGS: panel.condition[SETTINGS]}
                for measurement in measurements:
                    lineage: Mapping[str, Any] = measurement.facts.lineage
                    twin = lineage.get("learnt", {}).get("hides")
                    if twin not in TWINS:
                        continue
                    architecture = measurement.identity["nmt"].replace(f" on hides={twin}", "")
                    key = (*condition.values(), architecture, pivot)
                    name_of_judge = measurement.facts.judge
                    new = Case(of_case, architecture, pivot, panel.heading(pivot), name_of_judge)
                    case = _with_settings(cases.setdefault(key, []), new, settings)
                    case.rows.setdefault((lineage["seed"], twin, name), []).append(measurement)
    return [case for alike in cases.values() for case in alike]


def _with_settings(cases: list[Case], new: Case, settings: Mapping[str, Any]) -> Case:
    """Return the case of some settings among those that share all else: `new` where there is none.

    A twin that was measured with one setting more has panels of its own for each; those that agree
    with the other twin's are paired with it.
    """
    text = new.condition[SETTINGS]
    for case in cases:
        if case.condition[SETTINGS] == text or comparable(case.settings, settings):
            case.settings.update(settings)
            return case
    new.settings.update(settings)
    cases.append(new)
    return new


def _by_others(
    by_name: Mapping[str, Sequence[Measurement]],
) -> Iterator[tuple[str, str, Sequence[Measurement]]]:
    """Yield rows by what orders the words that the two explanations share, and by explanation."""
    for others in OTHERS:
        options = f"[others={others}]" if others else ""
        if any(f"{name}{options}" in by_name for name in EXPLANATIONS):
            for name in EXPLANATIONS:
                yield others, name, by_name.get(f"{name}{options}", ())
            yield others, RANDOM, by_name.get(RANDOM, ())
