"""Does a judge prefer an explainer to blind words where these miss the cause of a decision?

`misled` says how often the strongest cause of a decision is not the word that the lexicon names.
There a judge that sees the model should prefer an explainer that finds those causes; one that
learnt from text alone may prefer the lexicon.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import itemgetter

import numpy as np

from xnmt_bench.analyses.analysis import Analysis, Result, estimate
from xnmt_bench.analyses.tables import pivoted
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.alike import origin, same_decisions
from xnmt_bench.measuring.bootstrap import Draws, average_systems, resample_ratios
from xnmt_bench.measuring.measurement import SETTINGS, Measurement
from xnmt_bench.measuring.metric import TableRow
from xnmt_bench.options import Count, Seed, Text
from xnmt_bench.parquet import column_names, read_table
from xnmt_bench.report.panels import Panel, distinguish, ends
from xnmt_bench.report.standing import about_unranked
from xnmt_bench.report.summary import Cell
from xnmt_bench.rules.extract import TEACHER_FORCING
from xnmt_bench.rules.scores import DecisionScores

CAUSES, STRONGEST = "causes", "strongest"  # the metric, and the file of its rows
KINDS = "misses", "names"  # what the blind explainer does to the strongest cause
Origin = tuple[str, str, object]  # system, test set and seed
PLACES = 2**32  # steps of a sentence, more than any has: sentence and step are one number
NOTE = (
    "In nats a decision: how much more probable the label is by the words of an explainer than by "
    "those of {blind}. Above 0 the judge prefers the explainer. With a 95 % bootstrap interval "
    "over sentences; of several systems or seeds the mean, of decisions too. Misses: "
    "decisions whose strongest cause {blind} does not name first on its side; where several words "
    "are as relevant to it, a decision counts in both kinds, in part. Only decisions in which some "
    "word has an effect of at least metric.causes.least count."
)


@dataclass(frozen=True)
class Scores:
    """A number for each decision.

    Attributes:
        decision_N: sentence and step as one number, ascending.
        value_N: the numbers.
    """

    decision_N: np.ndarray
    value_N: np.ndarray

    @classmethod
    def of(cls, sentence_N: np.ndarray, step_N: np.ndarray, value_N: np.ndarray) -> Scores:
        """Return numbers of decisions in any order."""
        decision_N = sentence_N.astype(np.int64) * PLACES + step_N
        order = np.argsort(decision_N)
        return cls(decision_N[order], value_N[order])

    def at(self, decision_X: np.ndarray) -> np.ndarray:
        """Return the numbers of some decisions, (X,), each of which has one."""
        return self.value_N[np.searchsorted(self.decision_N, decision_X)]


class MisledJudges(Analysis):
    """How much each judge prefers explainers where a blind one misses the strongest cause.

    Args:
        blind: the explainer that is compared with.
        samples: bootstrap samples.
        seed: of the draws.
    """

    name = "misled_judges"

    def __init__(self, blind: Text = "lexicon", samples: Count = 1000, seed: Seed = 0) -> None:
        self._blind, self._draws = blind, Draws(samples, seed)

    def results(self, by_metric: Mapping[str, Sequence[Panel]]) -> Iterator[tuple[str, Result]]:
        """Yield one result, of fidelity's judges beside the causes."""
        causes = by_metric.get(CAUSES, ())
        by_panel = [(p, list(self._rows(p, causes))) for p in by_metric.get("fidelity", ())]
        by_panel = [(panel, rows) for panel, rows in by_panel if rows]
        if not by_panel:
            raise NotApplicable(
                f"needs metric=[fidelity,causes] with scenario=teacher_forcing of {self._blind} "
                "and another explainer"
            )
        usable = [panel for panel, _ in by_panel]

        def cell(row: TableRow) -> Cell:
            value, low, high = (f"{row[name]:+.3f}" for name in ends("preferred"))
            return Cell(f"{value} [{low}, {high}]")

        rows = [row for _, rows in by_panel for row in rows]
        words = {"judge": "heading", f"strongest cause: {self._blind}": "kind"}
        # Causes that were measured in several ways are several truths.
        words |= {"causes": "causes"} if len({row["causes"] for row in rows}) > 1 else {}
        for _, of_panel in by_panel:
            _count_decisions(of_panel)
        summary = pivoted(
            f"How much judges prefer explainers to {self._blind}",
            usable,
            [rows for _, rows in by_panel],
            words | {"decisions": "of"},
            "explainer",
            cell,
            [*about_unranked(usable), NOTE.format(blind=self._blind)],
            distinguish(usable),
        )
        identity = (*usable[0].condition, "judge", "blind", "kind", "causes", "explainer")
        measured = ("decisions", *ends("preferred"))
        yield f"fidelity_{CAUSES}_{self.name}", Result(rows, identity, measured, summary)

    def _rows(self, panel: Panel, causes: Sequence[Panel]) -> Iterator[TableRow]:
        if panel.condition.get("scenario", TEACHER_FORCING) != TEACHER_FORCING:
            return  # of other decisions than the causes
        for truth in causes:
            missed = self._missed(truth)
            if not missed or not same_decisions(truth.condition, panel.condition):
                continue
            for judge, by_name in panel.by_pivot(blind=True).items():
                of_blind = [(m, load_scores(m)) for m in by_name.pop(self._blind, [])]
                for name, of_name in by_name.items():
                    for kind, numbers in self._compare(of_name, of_blind, missed):
                        yield {
                            **panel.condition,
                            "judge": judge,
                            "heading": panel.heading(judge),
                            "blind": self._blind,
                            "kind": kind,
                            "causes": truth.condition[SETTINGS],
                            "explainer": name,
                            **numbers,
                        }

    def _missed(self, truth: Panel) -> dict[Origin, Scores]:
        """Return how probably the blind explainer misses the cause of each decision."""
        missed = {}
        for row in truth.of("", self._blind):
            m, names = row.measurement, ("sentence", "step", "missed")
            # Where no decision has a cause, the file has no column.
            if m.ok and STRONGEST in m.files and column_names(m.file(STRONGEST)):
                table = read_table(m.file(STRONGEST), names)
                scores = Scores.of(*(table[name].to_numpy() for name in names))
                missed[origin_of(m)] = scores
        return missed

    def _compare(
        self,
        of_name: Sequence[Measurement],
        of_blind: Sequence[tuple[Measurement, Scores]],
        missed: Mapping[Origin, Scores],
    ) -> Iterator[tuple[str, TableRow]]:
        """Yield each kind that has decisions, with their number and the mean preference."""
        pairs = []
        for m in of_name:
            scores = load_scores(m)
            for blind, blind_scores in of_blind:
                system, test_set, seed = where = origin_of(blind)
                cause = missed.get(where) or missed.get((system, test_set, ""))
                # A row without a seed fits each seed, as that of an explainer that draws nothing.
                fits = seed in ("", origin_of(m)[-1]) or not origin_of(m)[-1]
                if cause and fits and origin_of(m)[:2] == (system, test_set):
                    every = [x.decision_N for x in (cause, scores, blind_scores)]
                    decision_X = reduce(np.intersect1d, every)
                    more_X = scores.at(decision_X) - blind_scores.at(decision_X)
                    pairs.append((system, decision_X // PLACES, cause.at(decision_X), more_X))
        for kind in KINDS:
            rows, systems = [], []
            for system, sentence_X, missed_X, more_X in pairs:
                weight_X = missed_X if kind == "misses" else 1 - missed_X
                if weight_X.sum():
                    rows.append((sentence_X, weight_X * more_X, weight_X))
                    systems.append(system)
            if rows:
                preferred_R = average_systems([*resample_ratios(rows, self._draws)], systems)
                count = round(float(np.mean([weight_X.sum() for *_, weight_X in rows])))
                numbers = dict(zip(ends("preferred"), estimate(preferred_R), strict=True))
                yield kind, {"decisions": count, **numbers}


def _count_decisions(rows: Sequence[TableRow]) -> None:
    """Add to each row the decisions of its line in the table: fewest and most of an explainer."""
    line = itemgetter("judge", "kind", "causes")
    for row in rows:
        counts = sorted({other["decisions"] for other in rows if line(other) == line(row)})
        row["of"] = "-".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1])))


def origin_of(measurement: Measurement) -> Origin:
    """Return whose decisions a row is of, and its seed; empty without one."""
    test_set, seed = measurement.units().test_set, measurement.identity.get("seed", "")
    return origin(measurement), test_set, seed


def load_scores(measurement: Measurement) -> Scores:
    """Return log Q of each decision's label."""
    scores = DecisionScores.load(measurement.file("decisions"))
    return Scores.of(scores.sentence_N, scores.step_N, scores.log_likelihood_N)
