"""How often an explainer misses the strongest cause of a decision, by the kind of decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xnmt_bench.analyses.analysis import Analysis, Result, estimate
from xnmt_bench.analyses.tables import pivoted
from xnmt_bench.corpora.function_words import function_words, is_function
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.alike import origin
from xnmt_bench.measuring.bootstrap import Draws, average_systems, resample_ratios
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import TableRow, hundredths
from xnmt_bench.metrics.causes.ranks import SIDES, Ranking
from xnmt_bench.metrics.causes.table import Decision
from xnmt_bench.options import Count, Seed
from xnmt_bench.parquet import read_table
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.report.panels import Panel, distinguish, ends
from xnmt_bench.report.summary import Cell
from xnmt_bench.rules.decision_kinds import FIFTHS, FREQUENCIES, name_frequencies

STRONGEST = "strongest"  # the file of a row of causes
LENGTHS, UP_TO = ("1-10 source words", "11-20", "> 20"), (10, 20)
CLASSES = ("content word", "function word")
# The categories of each facet in reading order; one that a corpus cannot tell is empty.
FACETS: Mapping[str, Sequence[str]] = {
    "all": ("all",),
    "side": SIDES,
    "class": CLASSES,
    "frequency": FREQUENCIES,
    "place": FIFTHS,
    "length": LENGTHS,
}
TITLES = {
    "all": "all decisions",
    "side": "side of the strongest cause",
    "class": "the target's word",
    "frequency": "its first piece's frequency in the training targets",
    "place": "place in the sentence",
    "length": "length of the source",
}
NOTE = (
    "In % of the decisions of each kind, with a 95 % bootstrap interval over sentences: how often "
    "the word whose replacement does most is not the first word that the explainer names on its "
    "side. Only decisions in which some word has an effect of at least metric.causes.least count."
)


def miss_strongest(
    decision: Decision, rankings: Sequence[Ranking], least: float
) -> tuple[str, float] | None:
    """Return the side of a decision's strongest cause, and how probably it is not named first.

    Args:
        decision: with its effects.
        rankings: the explainer's, of each side's words.
        least: the effect that the strongest cause needs.

    Returns:
        None where no word has such an effect, two words decide together, or the explainer says
        nothing of that side.
    """
    effects = [np.nan_to_num(decision.effects["replaced", side]) for side in SIDES]
    side = int(np.argmax([effect_W.max(initial=0.0) for effect_W in effects]))
    greatest = effects[side].max(initial=0.0)
    unnamed = np.isnan(rankings[side].relevance_W).all()
    if decision.takes_both or greatest < least or unnamed:
        return None
    return SIDES[side], 1 - float(rankings[side].named(1)[effects[side] >= greatest].sum())


def describe_decisions(job: Job, rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield decisions with their category in each facet.

    Args:
        job: whose test set it is.
        rows: `sentence`, `step`, `side` and `missed` of each decision.
    """
    split, system = job.texts.split(EVALUATED), job.system
    sentences = dict(zip(split.number.tolist(), job.texts.sentences(EVALUATED), strict=True))
    functional = function_words(job.corpus.target_language)
    frequency_V = name_frequencies(system.learnt_texts.split("train"), len(system.subwords[1]))
    for row in rows:
        sentence, index = sentences[row["sentence"]], split.index_of[row["sentence"]]
        ids, step = split.target[index], row["step"]
        word = split_words(sentence.target)[split.target.words(index)[step]]
        length = len(split_words(sentence.source))
        yield {
            "all": "all",
            **row,
            "class": CLASSES[is_function(word, functional)] if functional else "",
            "frequency": str(frequency_V[ids[step]]),
            "place": FIFTHS[5 * step // len(ids)],
            "length": LENGTHS[int(np.searchsorted(UP_TO, length))],
        }


class Misled(Analysis):
    """How often the strongest cause is not the word that an explainer names, by kind of decision.

    With `explainer=lexicon` it says how often the words of a lexicon would mislead.

    Args:
        samples: bootstrap samples.
        seed: of the draws.
    """

    name = "misled"

    def __init__(self, samples: Count = 1000, seed: Seed = 0) -> None:
        self._draws = Draws(samples, seed)

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return one line a kind of decision."""
        by_panel = [(panel, list(self._rows(panel))) for panel in panels]
        by_panel = [(panel, rows) for panel, rows in by_panel if rows]
        if not by_panel:
            raise NotApplicable("the results lack the strongest causes (metric=[causes])")
        usable = [panel for panel, _ in by_panel]
        distinction = distinguish(usable)

        def cell(row: TableRow) -> Cell:
            value, low, high = (hundredths(row[name]) for name in ends("missed"))
            return Cell(f"{value} [{low}, {high}]")

        summary = pivoted(
            "How often the strongest cause is not named first, %",
            usable,
            [rows for _, rows in by_panel],
            {name: name for name in ("kind", "category", "decisions")},
            "explainer",
            cell,
            [NOTE],
            distinction,
        )
        identity = (*usable[0].condition, "facet", "category", "explainer")
        measured = ("decisions", *ends("missed"))
        return Result([r for _, rows in by_panel for r in rows], identity, measured, summary)

    def _rows(self, panel: Panel) -> Iterator[TableRow]:
        tables = {
            name: [(origin(m), _read_strongest(m)) for m in measurements if STRONGEST in m.files]
            for by_name in panel.by_pivot(blind=True).values()
            for name, measurements in by_name.items()
        }
        tables = {n: kept for n, rows in tables.items() if (kept := [r for r in rows if r[1]])}
        # Of an explainer that names words of one side, only rows of that side compare with others'.
        sides = {
            n: {side for _, c in of_name for side in c["side"]} for n, of_name in tables.items()
        }
        every_side = set().union(*sides.values())
        for facet, categories in FACETS.items():
            for category in categories:
                for name, of_name in tables.items():
                    if facet != "side" and sides[name] < every_side:
                        continue
                    chosen = [c[facet] == category for _, c in of_name]
                    if not all(chosen_N.any() for chosen_N in chosen):
                        continue
                    rows = [
                        (c["sentence"][n], c["missed"][n], np.ones(n.sum()))
                        for (_, c), n in zip(of_name, chosen, strict=True)
                    ]
                    shares = resample_ratios(rows, self._draws)
                    shares_R = average_systems([*shares], [system for system, _ in of_name])
                    yield {
                        **panel.condition,
                        "facet": facet,
                        "kind": TITLES[facet],
                        "category": category,
                        "decisions": int(np.mean([chosen_N.sum() for chosen_N in chosen])),
                        "explainer": name,
                        **dict(zip(ends("missed"), estimate(shares_R), strict=True)),
                    }


def _read_strongest(measurement: Measurement) -> dict[str, np.ndarray]:
    """Return the columns of a row's decisions; none where no decision has a cause."""
    table = read_table(measurement.file(STRONGEST))
    return {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
