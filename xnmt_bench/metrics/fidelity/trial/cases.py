"""Rows of the two explanations on twin systems, grouped into what is tried.

Natural twins are two systems of ordinary text, each because of another word
(`corpora.planted.natural`). There which system is L follows from the slot, decision by decision.

Shapes: P pairs of twins, E explanations, S slots, U sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from xnmt_bench.corpora.planted.natural import SECOND
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.alike import comparable, family
from xnmt_bench.measuring.measurement import DECISIONS, SETTINGS, Measurement
from xnmt_bench.measuring.metric import TableRow
from xnmt_bench.measuring.units import common
from xnmt_bench.metrics.fidelity.evidence import LIKELIHOOD_OF, PLANTED, TWIN_SYSTEMS
from xnmt_bench.report.panels import Panel

EXPLANATIONS = ("names_link", "names_cue")
RANDOM = "random"  # an explanation whose log Q is the lower end of a judge's span
# Settings that are other ones for each pair of natural twins, which has a test set of its own.
OF_TEST_SET = ("test set", "test sentences", "annotation")
OTHERS = ("", "random")  # what orders the other words of a rule; nearness has no name
# What each learnt without: the link's system L first, the cue's system C. Of natural twins the
# first system, then the second one.
TWINS = ("cue", "link")
Pair = int | str  # the seed of generated twins; of natural ones both fingerprints, shortened


@dataclass
class Case:
    """What one judge says, taught on one text, of the twins of one architecture.

    Attributes:
        condition: the columns that all its rows share.
        architecture: of both systems.
        judge: name of the judge's rows, and `heading` of its column.
        judge_name: as in `judge=[name]`; empty for rows that do not say it.
        settings: what decides the rows' numbers besides their columns.
        rows: by pair, twin and explanation: a row for each seed of the judge.
    """

    condition: dict[str, Any]
    architecture: str
    judge: str
    heading: str
    judge_name: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    rows: dict[tuple[Pair, str, str], list[Measurement]] = field(default_factory=dict)

    def likelihoods(self, slots: Sequence[str]) -> dict[Pair, tuple[np.ndarray, np.ndarray]]:
        """Return log Q of labels, summed by sentence, and how many there are, by pair.

        Args:
            slots: of the decisions; only those count that both systems of the pair get right.

        Returns:
            (2, E, U) by twin and explanation, the last of which is `random` where it has rows of
            all systems, and (U,).
        """
        by_test_set: dict[str, list[Pair]] = {}
        for pair in self.pairs:
            test_set = self.rows[pair, TWINS[0], EXPLANATIONS[0]][0].units().test_set
            by_test_set.setdefault(test_set, []).append(pair)
        of_pairs: dict[Pair, tuple[np.ndarray, np.ndarray]] = {}
        for pairs in by_test_set.values():
            log_q_P2EU, count_PU = self._likelihoods_of(pairs, slots)
            of_pairs |= zip(pairs, zip(log_q_P2EU, count_PU, strict=True), strict=True)
        return {pair: of_pairs[pair] for pair in self.pairs}

    def _likelihoods_of(
        self, pairs: Sequence[Pair], slots: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the same of pairs that share a test set, (P, 2, E, U) and (P, U)."""
        names = (*EXPLANATIONS, RANDOM) if self.has_random else EXPLANATIONS
        cells = [[m.units() for m in self.rows[key]] for key in product(pairs, TWINS, names)]
        shape = (len(pairs), len(TWINS), len(names))
        numbers = common([u for cell in cells for u in cell])
        if numbers is None:  # of other test sets
            return np.zeros((*shape, 0)), np.zeros((len(pairs), 0))

        def of(column: str) -> np.ndarray:
            """Return a column, the mean of the judge's seeds, (P, 2, E, U)."""
            values = [np.mean([u.take(numbers)[column] for u in cell], axis=0) for cell in cells]
            of_twins = np.array(values).reshape(*shape, -1)
            # Where the link is what the second system uses, that one is L.
            return of_twins[:, ::-1] if self.natural and column.endswith(SECOND) else of_twins

        right_SPU = np.array([(of(PLANTED + slot) == 1).all(axis=(1, 2)) for slot in slots])
        parts = zip(slots, right_SPU, strict=True)
        summed = sum(of(LIKELIHOOD_OF + slot) * right_PU[:, None, None] for slot, right_PU in parts)
        return np.asarray(summed), right_SPU.sum(axis=0)

    def mean_fact(self, name: str) -> float:
        """Return the mean of a number among the facts of its rows; NaN where a row lacks it."""
        keys = product(self.pairs, TWINS, EXPLANATIONS)
        values = [m.facts.of_metric.get(name) for key in keys for m in self.rows[key]]
        return float("nan") if None in values else float(np.mean(values))  # type: ignore[arg-type]

    @property
    def pairs(self) -> list[Pair]:
        """Pairs of which both twins were judged by both explanations."""
        every = {pair for pair, *_ in self.rows}
        return sorted(p for p in every if {*product([p], TWINS, EXPLANATIONS)} <= {*self.rows})

    @property
    def natural(self) -> bool:
        """Whether its twins are natural ones."""
        return any(isinstance(pair, str) for pair, *_ in self.rows)

    @property
    def has_random(self) -> bool:
        """Whether `random` has rows of both twins of every pair."""
        return {*product(self.pairs, TWINS, [RANDOM])} <= {*self.rows}

    @property
    def slots(self) -> list[str]:
        """The slots that its rows have."""
        [first, *_] = self.rows[self.pairs[0], TWINS[0], EXPLANATIONS[0]]
        names = first.units().columns
        return [name.removeprefix(PLANTED) for name in names if name.startswith(PLANTED)]

    @property
    def mixed_pair(self) -> Pair | None:
        """The first pair that was judged on several sets of decisions; None where there is none."""
        for pair in self.pairs:
            cells = [self.rows[pair, *place] for place in product(TWINS, EXPLANATIONS)]
            if len({m.units().test_set for rows in cells for m in rows}) > 1:
                return pair
        return None

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
        NotApplicable: there is none, systems of other options share a name, or a pair was judged
            on several sets of decisions.
    """
    cases = [case for case in _cases(panels) if case.pairs]
    if not cases:
        raise NotApplicable(
            "needs explainer=names_link,names_cue on corpus=toy_twins, for systems with "
            "nmt.corpus={hides:cue},{hides:link}; or on corpus.twins, for both of its systems"
        )
    for case in cases:
        if any(len(names) > 1 for names in case.families):
            raise NotApplicable(
                f"several systems with different options have the name {case.architecture}; give "
                "each its nmt.name, or its own results folder"
            )
        if case.mixed_pair is not None:
            raise NotApplicable(
                f"pair {case.mixed_pair} was judged on several files of corpus.twins; give each "
                "file its own results folder"
            )
    return cases


def _cases(panels: Sequence[Panel]) -> list[Case]:
    """Return the cases of rows of both explanations, by everything that they share."""
    cases: dict[tuple[Any, ...], list[Case]] = {}
    names: dict[Pair, set[str]] = {}  # of the systems of natural pairs, which may have two
    for _, m in (named for panel in panels for named in panel.measurements()):
        if (twin := _twin_of(m)) and isinstance(twin[0], str):
            names.setdefault(twin[0], set()).add(m.identity["nmt"])
    for panel in panels:
        shared = {c: v for c, v in panel.condition.items() if c not in ("nmt", "model", SETTINGS)}
        # Of rows of some decisions and of all alike the planted ones are compared.
        settings = {name: v for name, v in panel.settings.items() if name != DECISIONS}
        for pivot, by_name in panel.by_pivot(blind=True).items():
            for others, name, measurements in _by_others(by_name):
                condition = shared | {"others": others}
                for measurement in measurements:
                    if (twin := _twin_of(measurement)) is None:
                        continue
                    pair, of = twin
                    architecture = measurement.identity["nmt"].replace(f" on hides={of}", "")
                    text, of_row = panel.condition[SETTINGS], settings
                    if pair in names:
                        architecture, text = " and ".join(sorted(names[pair])), ""
                        of_row = {n: v for n, v in settings.items() if n not in OF_TEST_SET}
                    key = (*condition.values(), architecture, pivot)
                    new = Case(
                        condition | {SETTINGS: text},
                        architecture,
                        pivot,
                        panel.heading(pivot),
                        measurement.facts.judge,
                    )
                    # Without a text only settings tell the cases of natural twins apart.
                    case = _with_settings(cases.setdefault(key, []), new, of_row, pair not in names)
                    case.rows.setdefault((pair, of, name), []).append(measurement)
    return [case for alike in cases.values() for case in alike]


def _twin_of(measurement: Measurement) -> tuple[Pair, str] | None:
    """Return a row's pair, and which of its twins it is of; None where it is of none."""
    facts, lineage = measurement.facts, measurement.facts.lineage
    if systems := facts.of_metric.get(TWIN_SYSTEMS):
        if measurement.model not in systems:  # a third system, on the decisions of this pair
            return None
        pair = "+".join(system[:6] for system in systems)
        return pair, TWINS[systems.index(measurement.model)]
    twin = lineage.get("learnt", {}).get("hides")
    # A system that was trained elsewhere has no seed, which would name its pair.
    return (lineage["seed"], twin) if twin in TWINS and "seed" in lineage else None


def _with_settings(
    cases: list[Case], new: Case, settings: Mapping[str, Any], by_text: bool
) -> Case:
    """Return the case of some settings among those that share all else: `new` where there is none.

    A twin that was measured with one setting more has panels of its own for each; those that agree
    with the other twin's are paired with it.

    Args:
        cases: that share all else.
        new: the case without its settings.
        settings: of a row.
        by_text: whether cases whose text of settings is the same are one.
    """
    text = new.condition[SETTINGS]
    for case in cases:
        same_text = by_text and case.condition[SETTINGS] == text
        if same_text or comparable(case.settings, settings):
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
