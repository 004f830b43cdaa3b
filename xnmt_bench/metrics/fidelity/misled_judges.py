"""Does a judge prefer an explainer to blind words where these miss the cause of a decision?

`misled` says how often the strongest cause of a decision is not the word that the lexicon names.
There a judge that sees the model has to prefer an explainer that finds causes; one that learnt from
text alone may prefer the lexicon.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from xnmt_bench.analyses.analysis import Analysis, Result, estimate
from xnmt_bench.analyses.tables import pivoted
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.alike import origin, paired, same_decisions
from xnmt_bench.measuring.bootstrap import Draws, weights
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import TableRow, ratio
from xnmt_bench.measuring.units import by_unit
from xnmt_bench.options import Count, Seed, Text
from xnmt_bench.parquet import read_table
from xnmt_bench.report.panels import Panel, distinguish, ends
from xnmt_bench.report.summary import Cell
from xnmt_bench.rules.extract import TEACHER_FORCING
from xnmt_bench.rules.scores import DecisionScores

CAUSES, STRONGEST = "causes", "strongest"  # the metric, and the file of its rows
Decision = tuple[int, int]  # sentence and step
NOTE = (
    "In nats a decision: how much more probable the label is by the words of an explainer than by "
    "those of {blind}. Above 0 the judge prefers the explainer. With a 95 % bootstrap interval "
    "over sentences; of several systems or seeds the mean. Misses: decisions whose strongest cause "
    "{blind} does not name first on its side; only decisions in which some word has an effect of "
    "at least metric.causes.least count."
)


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

        summary = pivoted(
            f"How much judges prefer explainers to {self._blind}",
            usable,
            [rows for _, rows in by_panel],
            {"judge": "heading", f"the strongest cause: {self._blind}": "kind"},
            "explainer",
            cell,
            [NOTE.format(blind=self._blind)],
            distinguish(usable),
        )
        identity = (*usable[0].condition, "judge", "blind", "kind", "explainer")
        rows = [row for _, rows in by_panel for row in rows]
        measured = ("decisions", *ends("preferred"))
        yield f"fidelity_{CAUSES}_{self.name}", Result(rows, identity, measured, summary)

    def _rows(self, panel: Panel, causes: Sequence[Panel]) -> Iterator[TableRow]:
        missed = self._missed(panel, causes)
        for judge, by_name in panel.by_pivot(blind=True).items():
            of_blind = by_name.pop(self._blind, [])
            for name, of_name in by_name.items():
                preferences = [
                    self._compare(row, blind_row, missed[origin(row)])
                    for blind_row, row in paired(of_blind, of_name)
                    if origin(row) in missed
                ]
                if not preferences:
                    continue
                for kind in ("misses", "names"):
                    shares_R = np.mean([by_kind[kind][1] for by_kind in preferences], axis=0)
                    count = float(np.mean([by_kind[kind][0] for by_kind in preferences]))
                    yield {
                        **panel.condition,
                        "judge": judge,
                        "heading": panel.heading(judge),
                        "blind": self._blind,
                        "kind": kind,
                        "explainer": name,
                        "decisions": round(count),
                        **dict(zip(ends("preferred"), estimate(shares_R), strict=True)),
                    }

    def _missed(self, panel: Panel, causes: Sequence[Panel]) -> dict[str, dict[Decision, float]]:
        """Return how probably the blind explainer misses the cause, by system and decision."""
        if panel.condition.get("scenario", TEACHER_FORCING) != TEACHER_FORCING:
            return {}  # of other decisions than the causes
        missed: dict[str, dict[Decision, float]] = {}
        for other in causes:
            if same_decisions(other.condition, panel.condition):
                for row in other.of("", self._blind):
                    if row.measurement.ok and STRONGEST in row.measurement.files:
                        columns = ("sentence", "step", "missed")
                        table = read_table(row.measurement.file(STRONGEST), columns)
                        *places, probability = (table[name].to_pylist() for name in columns)
                        decisions = zip(*places, strict=True)
                        of_system = dict(zip(decisions, probability, strict=True))
                        missed[origin(row.measurement)] = of_system
        return missed

    def _compare(
        self, explainer: Measurement, blind: Measurement, missed: Mapping[Decision, float]
    ) -> dict[str, tuple[float, np.ndarray]]:
        """Return decisions and mean preferences, whole and resampled, (1 + R,), by kind."""
        of_explainer, of_blind = (_load_scores(m) for m in (explainer, blind))
        decisions = [d for d in missed if d in of_explainer and d in of_blind]
        more_N = np.array([of_explainer[d] - of_blind[d] for d in decisions])
        missed_N = np.array([missed[d] for d in decisions])
        number_U, sums = by_unit(
            np.array([sentence for sentence, _ in decisions]),
            misses=missed_N,
            names=1 - missed_N,
            more_misses=missed_N * more_N,
            more_names=(1 - missed_N) * more_N,
        )
        drawn = weights(len(number_U), self._draws.samples, self._draws.seed)
        weight_RU = np.concatenate([np.ones((1, len(number_U))), *drawn])
        return {
            kind: (
                float(sums[kind].sum()),
                ratio(weight_RU @ sums[f"more_{kind}"], weight_RU @ sums[kind]),
            )
            for kind in ("misses", "names")
        }


def _load_scores(measurement: Measurement) -> dict[Decision, float]:
    scores = DecisionScores.load(measurement.file("decisions"))
    places = zip(scores.sentence_N.tolist(), scores.step_N.tolist(), strict=True)
    return dict(zip(places, scores.log_likelihood_N.tolist(), strict=True))
