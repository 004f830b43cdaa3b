"""The trial of judges: which of them sees the model?

Twin systems say the same, one because of the *link* and one because of the *cue*
(`corpora.twins`). Two explanations always name the link, or the cue. A is the advantage of the
link: how much more log-probability a judge gives the label from the link than from the cue, in nats
a decision. A judge that sees the model has A > 0 in the link's system L and A < 0 in the cue's
system C; a judge that reads the text, the labels and the words alone has the same A in both.

Shapes: P pairs of twins, S slots, U sentences, R draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from xnmt_bench.analyses.analysis import Analysis, Result, varying_words
from xnmt_bench.analyses.significance import holm
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws, interval, t_interval, weights
from xnmt_bench.measuring.measurement import LINEAGE, Measurement
from xnmt_bench.measuring.metric import Row
from xnmt_bench.measuring.units import common
from xnmt_bench.metrics.fidelity.evidence import LIKELIHOOD_OF, PLANTED
from xnmt_bench.options import Count, Seed, Share
from xnmt_bench.report.figure import legend_below
from xnmt_bench.report.panels import Panel, family
from xnmt_bench.report.summary import Cell, Line, Summary

WORDS = {"system": "{}", "k": "k = {}"}  # in the title, where all rows share them
EXPLANATIONS = ("names_link", "names_cue")
TWINS = ("cue", "link")  # what each learnt without: the link's system L first, the cue's system C
ALL = "all"
FEWEST = 100  # decisions; fewer show nothing
NOTE = (
    "A: how much more log-probability the judge gives the label from the link than from the cue, "
    "in nats a planted decision that both twins get right; L uses the link, C the cue. Response s "
    "= (A_L - A_C) / 2, bias b = (A_L + A_C) / 2; intervals of A stand in the CSV. Passes: s > "
    "|b|, so that A changes its sign with the system. Of one pair, the 95 % interval of s - |b| "
    "has to be above 0; of several, a one-sided t-test over pairs decides at {level:g} (Holm over "
    "the judges of one text). Log Q: of the label, from the word that the system uses; a judge "
    "whose log Q is that of a guess has not learnt the planted words, and its A says nothing."
)
ONE_PAIR = (
    "One pair of twins: intervals are by a bootstrap over sentences ({samples:,} samples), and "
    "nothing is known of other trainings; sweep nmt.seed=0,1,2."
)
PAIRS = (
    "{pairs} pairs of twins: 95 % t-intervals over pairs. The CSV also has a two-way bootstrap "
    "over pairs and sentences ({samples:,} samples)."
)
COLORS = ("#2171b5", "#d94801", "#238b45", "#6a51a3", "#a63603", "#737373")


@dataclass
class Case:
    """What one judge says, taught on one text, of the twins of one architecture.

    Attributes:
        condition: the columns that all its rows share.
        architecture: of both systems.
        judge: name of the judge's rows, and `heading` of its column.
        rows: by seed of the pair, by what a twin learnt without, by explanation: a row for each
            seed of the judge.
    """

    condition: dict[str, Any]
    architecture: str
    judge: str
    heading: str
    rows: dict[int, dict[str, dict[str, list[Measurement]]]] = field(default_factory=dict)

    def likelihoods(self, slots: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return log Q of labels, summed by sentence, and how many there are.

        Args:
            slots: of the decisions; those alone count that all systems get right.

        Returns:
            (P, 2, 2, U) by pair, twin and explanation, and (U,).
        """
        pairs = [
            [[m.units() for m in self.rows[seed][twin][name]]
             for twin in TWINS for name in EXPLANATIONS]
            for seed in self.seeds
        ]  # fmt: skip
        shape = (len(pairs), len(TWINS), len(EXPLANATIONS))
        numbers = common([u for cells in pairs for cell in cells for u in cell])
        if numbers is None:  # of other test sets
            return np.zeros((*shape, 0)), np.zeros(0)

        def of(column: str) -> np.ndarray:
            """Return a column, the mean of the judge's seeds, (P, 2, 2, U)."""
            values = [
                [np.mean([u.take(numbers)[column] for u in cell], axis=0) for cell in cells]
                for cells in pairs
            ]
            return np.array(values).reshape(*shape, -1)

        right_SU = np.array([(of(PLANTED + slot) == 1).all(axis=(0, 1, 2)) for slot in slots])
        parts = zip(slots, right_SU, strict=True)
        summed = sum(of(LIKELIHOOD_OF + slot) * right_U for slot, right_U in parts)
        return np.asarray(summed), right_SU.sum(axis=0)

    @property
    def seeds(self) -> list[int]:
        """Seeds of which both twins were judged by both explanations."""
        return sorted(
            seed
            for seed, twins in self.rows.items()
            if all(name in twins.get(twin, {}) for twin in TWINS for name in EXPLANATIONS)
        )

    @property
    def slots(self) -> list[str]:
        """The slots that its rows have."""
        [first, *_] = self.rows[self.seeds[0]][TWINS[0]][EXPLANATIONS[0]]
        names = first.units().columns
        return [name.removeprefix(PLANTED) for name in names if name.startswith(PLANTED)]

    @property
    def families(self) -> list[set[str]]:
        """The families of systems of each twin; more than one are systems of other options."""
        return [
            {family(m) for twins in self.rows.values() for rows in twins.get(twin, {}).values()
             for m in rows}
            for twin in TWINS
        ]  # fmt: skip


class Trial(Analysis):
    """Tries judges on twin systems that say the same because of different words.

    Args:
        samples: bootstrap samples.
        seed: of the draws.
        level: of the test over pairs.
    """

    name = "trial"

    def __init__(self, samples: Count = 1000, seed: Seed = 0, level: Share = 0.05) -> None:
        self._draws, self._level = Draws(samples, seed), level

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return one line for each text, architecture, judge and slot."""
        cases = [case for case in _cases(panels) if case.seeds]
        if not cases:
            raise NotApplicable(
                "it takes explainer=names_link,names_cue on corpus=toy_twins, of systems with "
                "nmt.corpus={hides:cue},{hides:link}"
            )
        for case in cases:
            if any(len(names) > 1 for names in case.families):
                raise NotApplicable(
                    f"several systems of other options are called {case.architecture}; report "
                    "them from results folders of their own, or name them by nmt.name"
                )
        rows = [row for case in cases for row in self._judge(case)]
        if not rows:
            raise NotApplicable(f"fewer than {FEWEST} planted decisions are right in both twins")
        self._test(rows)
        pairs = sorted({row["pairs"] for row in rows})
        notes = [NOTE.format(level=self._level)]
        if pairs[0] == 1:
            notes.append(ONE_PAIR.format(samples=self._draws.samples))
        if pairs[-1] > 1:
            counts = " or ".join(str(count) for count in pairs if count > 1)
            notes.append(PAIRS.format(pairs=counts, samples=self._draws.samples))
        words, title = varying_words("The trial of judges: who sees the model?", rows, WORDS)
        heads = ["judges learn from", *words, "judge", "slot", "A in L", "A in C", "s", "b",
                 "log Q", "passes", "decisions", "pairs"]  # fmt: skip
        lines = [Line((row["corpus"], row["system"], row["k"]), _cells(row, words)) for row in rows]
        summary = Summary(title, heads, lines, notes, 3 + len(words))
        identity = (*cases[0].condition, "system", "judge", "slot")
        measured = tuple(name for name in rows[0] if name not in (*identity, "heading"))
        return Result(rows, identity, measured, summary, _figure(rows))

    def _judge(self, case: Case) -> Iterator[Row]:
        for slot in (ALL, *case.slots):
            log_q_P22U, count_U = case.likelihoods(case.slots if slot == ALL else [slot])
            if count_U.sum() < FEWEST:
                continue
            advantage_P2U = log_q_P22U[:, :, 0] - log_q_P22U[:, :, 1]
            mean_P2 = advantage_P2U.sum(axis=2) / count_U.sum()
            drawn_R2 = self._resample(advantage_P2U, count_U)
            pairs = len(case.seeds)
            # The link in L, the cue in C.
            right_PU = (log_q_P22U[:, 0, 0] + log_q_P22U[:, 1, 1]) / 2
            row: Row = {
                **case.condition,
                "system": case.architecture,
                "judge": case.judge,
                "heading": case.heading,
                "slot": slot,
                "pairs": pairs,
                "decisions": int(count_U.sum()),
                "log_q": float(right_PU.sum() / count_U.sum() / pairs),
            }
            for name, of_twins in _FUNCTIONS.items():
                drawn = interval(of_twins(drawn_R2))
                values_P = of_twins(mean_P2)
                value, *ends = t_interval(values_P) if pairs > 1 else (values_P[0], *drawn)
                row |= {name: float(value), f"{name}_low": ends[0], f"{name}_high": ends[1]}
                row |= {f"{name}_drawn_low": drawn[0], f"{name}_drawn_high": drawn[1]}
            by_seed = zip(case.seeds, mean_P2, strict=True)
            row["by_pair"] = "; ".join(f"seed {n}: {a:.3f} {c:.3f}" for n, (a, c) in by_seed)
            row["p"] = _p(_FUNCTIONS["margin"](mean_P2))
            yield row

    def _resample(self, advantage_P2U: np.ndarray, count_U: np.ndarray) -> np.ndarray:
        """Return both means, (R, 2), of draws of pairs, and of sentences alike for all pairs."""
        pairs, _, sentences = advantage_P2U.shape
        samples, seed = self._draws.samples, self._draws.seed
        drawn_RP = np.concatenate([*weights(pairs, samples, seed, stream=1)])
        means_RP2 = np.concatenate(
            [
                np.einsum("ru,ptu->rpt", block_RU, advantage_P2U)
                / (block_RU @ count_U)[:, None, None]
                for block_RU in weights(sentences, samples, seed)
            ]
        )
        return np.asarray(np.einsum("rp,rpt->rt", drawn_RP, means_RP2) / pairs)

    def _test(self, rows: Sequence[Row]) -> None:
        """Say which rows pass: corrected over the judges of one text, system and slot."""

        def place(row: Row) -> tuple[Any, ...]:
            return tuple(str(row[name]) for name in ("corpus", "system", "k", "slot"))

        for _, group in groupby(sorted(rows, key=place), key=place):
            members = list(group)
            tested = [row for row in members if row["pairs"] > 1]
            for row, p in zip(tested, holm([row["p"] for row in tested]), strict=True):
                row["p_corrected"] = float(p)
            for row in members:
                row.setdefault("p_corrected", float("nan"))
                several = row["pairs"] > 1
                row["passes"] = bool(
                    row["p_corrected"] < self._level if several else row["margin_low"] > 0
                )


# Of A in L and in C, the last axis. The margin is above 0 where A has the right sign in both.
_FUNCTIONS = {
    "advantage_l": lambda of_twins: of_twins[..., 0],
    "advantage_c": lambda of_twins: of_twins[..., 1],
    "response": lambda of_twins: (of_twins[..., 0] - of_twins[..., 1]) / 2,
    "bias": lambda of_twins: of_twins.sum(axis=-1) / 2,
    "margin": lambda of_twins: np.minimum(of_twins[..., 0], -of_twins[..., 1]),
}


def _p(margin_P: np.ndarray) -> float:
    """Return the one-sided p of a t-test over pairs that the margin is above 0; NaN for one."""
    if len(margin_P) < 2:
        return float("nan")
    from scipy import stats  # heavy, and only several pairs are tested

    return float(stats.ttest_1samp(margin_P, 0, alternative="greater").pvalue)


def _cases(panels: Sequence[Panel]) -> list[Case]:
    """Return the cases of rows of both explanations, by everything that they share."""
    cases: dict[tuple[Any, ...], Case] = {}
    for panel in panels:
        condition = {c: v for c, v in panel.condition.items() if c not in ("nmt", "model")}
        for pivot, by_name in panel.by_pivot(blind=True).items():
            for name in EXPLANATIONS:
                for measurement in by_name.get(name, ()):
                    lineage: Mapping[str, Any] = measurement.facts.get(LINEAGE, {})
                    twin = lineage.get("learnt", {}).get("hides")
                    if twin not in TWINS:
                        continue
                    architecture = measurement.identity["nmt"].replace(f" on hides={twin}", "")
                    key = (*condition.values(), architecture, pivot)
                    case = cases.setdefault(
                        key, Case(condition, architecture, pivot, panel.heading(pivot))
                    )
                    by_twin = case.rows.setdefault(lineage["seed"], {}).setdefault(twin, {})
                    by_twin.setdefault(name, []).append(measurement)
    return [*cases.values()]


def _cells(row: Row, words: Sequence[str]) -> list[Cell]:
    def shown(name: str) -> str:
        value, low, high = (row[key] for key in (name, f"{name}_low", f"{name}_high"))
        return f"{value:+.2f} [{low:+.2f}, {high:+.2f}]"

    advantages = (f"{row[name]:+.2f}" for name in ("advantage_l", "advantage_c"))
    texts = (
        row["corpus"], *(str(row[word]) for word in words), row["heading"], row["slot"],
        *advantages, shown("response"), shown("bias"),
        f"{row['log_q']:.2f}", "yes" if row["passes"] else "no",
        f"{row['decisions']:,}", str(row["pairs"]),
    )  # fmt: skip
    return [Cell(text) for text in texts]


def _figure(rows: Sequence[Row]) -> Figure:
    """Return A in L against A in C: a point a pair and judge, axes for each text judges read."""
    of_all = [row for row in rows if row["slot"] == ALL]
    texts = list(dict.fromkeys(row["corpus"] for row in of_all))
    judges = list(dict.fromkeys(row["heading"] for row in of_all))
    figure, axes = plt.subplots(
        1,
        len(texts),
        squeeze=False,
        sharex=True,
        sharey=True,
        figsize=(1.0 + 3.4 * len(texts), 4.4),
    )
    # Behind its seed, each pair has two numbers.
    points = [np.array([pair.split()[2:] for pair in row["by_pair"].split("; ")], float)
              for row in of_all]  # fmt: skip
    reach = 1.15 * max(np.abs(np.concatenate(points)).max(), 0.1)
    for ax, text in zip(axes[0], texts, strict=True):
        ax.fill_between([0, reach], -reach, 0, color="#e5f5e0", zorder=0)
        ax.text(reach * 0.97, -reach * 0.97, "sees the model", ha="right", va="bottom", fontsize=9)
        ax.plot([-reach, reach], [-reach, reach], color="#999999", linewidth=0.8, linestyle=":")
        for row, points_P2 in zip(of_all, points, strict=True):
            if row["corpus"] == text:
                number = judges.index(row["heading"])
                # Later ones are smaller, so that points in one place all show.
                size = 5 + 7 * (1 - number / len(judges))
                color = COLORS[number % len(COLORS)]
                ax.plot(*points_P2.T, "o", color=color, label=row["heading"], markersize=size)
        ax.axhline(0, color="black", linewidth=0.6)
        ax.axvline(0, color="black", linewidth=0.6)
        ax.set_xlim(-reach, reach)
        ax.set_ylim(-reach, reach)
        ax.set_aspect("equal")
        ax.set_title(f"judges learn from {text}", fontsize=9)
        ax.set_xlabel("advantage of the link in L (nats)")
    axes[0, 0].set_ylabel("advantage of the link in C (nats)")
    legend_below(figure, axes[0])
    return figure
