"""Where fidelity is lost: perplexity by the kind of decision."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from omegaconf import DictConfig

from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.bootstrap import interval
from xnmt_bench.metrics.facets import FACETS, FIFTHS, LINKS
from xnmt_bench.metrics.perplexity import DecisionScores, resampled
from xnmt_bench.report.analyses.result import Result, style
from xnmt_bench.report.fidelity_table import HEADINGS
from xnmt_bench.report.figure import legend_below
from xnmt_bench.report.panels import CONDITION, Panel, named, told_apart
from xnmt_bench.report.summary import Cell, Line, Row, Summary, digits

IDENTITY = (*CONDITION, "instantiation", "facet", "category", "explainer")
MEASURED = ("decisions", "ppl", "ppl_low", "ppl_high")
TITLES = {
    "place": "place in the sentence",
    "frequency": "label's frequency in the training targets",
    "piece": "the label",
    "link": "gold link of the target word",
}
NMT = "NMT itself"
NOTE = (
    "PPL on the decisions of each kind, with its 95 % bootstrap interval over sentences; NMT "
    "itself: the NMT model with its whole context."
)


def analyse(found: Sequence[Panel], settings: DictConfig) -> Result:
    """Perplexity of every explainer on each kind of decision, by the last instantiation there is.

    Raises:
        NotApplicable: no results say what kinds of decisions they are of.
    """
    usable = [
        panel for panel in found
        if panel.nmt and panel.facets is not None and len(panel.nmt) == len(panel.facets["step"])
    ]  # fmt: skip
    if not usable:
        raise NotApplicable("the results say nothing of the kinds of decisions; run train.py again")
    rows = [row for panel in usable for row in _rows(panel, settings)]
    names = list(dict.fromkeys(row["explainer"] for row in rows))
    varying, said, texts = told_apart(usable)
    lines = []
    for panel, text in zip(usable, texts, strict=True):
        mine = [row for row in rows if panel.condition.items() <= row.items()]
        for facet, category in dict.fromkeys((r["facet"], r["category"]) for r in mine):
            of = {
                r["explainer"]: r for r in mine if (r["facet"], r["category"]) == (facet, category)
            }
            count = next(iter(of.values()))["decisions"]
            head = [*(text[name] for name in varying), TITLES[facet], category, f"{count:,}"]
            cells = [_cell(of.get(name)) for name in names]
            lines.append(Line((*panel.condition.values(), facet), [*map(Cell, head), *cells]))
    last = ", ".join(dict.fromkeys(HEADINGS[row["instantiation"]] for row in rows))
    title = ", ".join([f"Where fidelity is lost ({last})", *said])
    summary = Summary(title, [*varying, "kind", "category", "decisions", *names], lines, [NOTE])
    labels = [named(text, varying) for text in texts]
    return Result(rows, IDENTITY, MEASURED, summary, _figure(usable, labels, rows, names))


def _rows(panel: Panel, settings: DictConfig) -> list[Row]:
    instantiation = list(panel.scores)[-1]
    assert panel.facets is not None
    assert panel.nmt is not None
    predictors = {**panel.scores[instantiation], NMT: [panel.nmt]}
    order = [*sorted(set(predictors) - {NMT}), NMT]
    rows: list[Row] = []
    for facet in FACETS:
        for category in _ordered(facet, panel.facets[facet]):
            chosen = panel.facets[facet] == category
            for name in order:
                parts = [_aligned(s, panel.facets).take(chosen) for s in predictors[name]]
                ppl, sentences = resampled(parts), len(np.unique(parts[0].sentence_N))
                low, high = interval(ppl, sentences, settings.samples, settings.seed)
                rows.append(
                    {**panel.condition, "instantiation": instantiation, "facet": facet,
                     "category": category, "decisions": int(chosen.sum()), "explainer": name,
                     "ppl": float(ppl(np.ones((1, sentences)))[0]), "ppl_low": low,
                     "ppl_high": high}
                )  # fmt: skip
    return rows


def _aligned(scores: DecisionScores, facets: dict[str, np.ndarray]) -> DecisionScores:
    """The scores in the order of the facets."""
    order = np.lexsort((scores.step_N, scores.sentence_N))
    wanted = np.lexsort((facets["step"], facets["sentence"]))
    place = np.empty_like(order)
    place[wanted] = order
    return scores.take(place)


def _ordered(facet: str, values: np.ndarray) -> list[str]:
    """The categories that occur, in reading order; the empty one tells nothing."""
    there = set(values) - {""}
    known = {"place": FIFTHS, "link": LINKS}.get(facet)
    if known:
        return [name for name in known if name in there]
    if facet == "frequency":
        return sorted(there, key=lambda name: int(name.strip("> ").split("-")[0].replace(",", "")))
    return sorted(there)


def _cell(row: Row | None) -> Cell:
    if row is None:
        return Cell("")
    return Cell(f"{digits(row['ppl'])} [{digits(row['ppl_low'])}, {digits(row['ppl_high'])}]")


def _figure(
    found: Sequence[Panel], labels: Sequence[str], rows: Sequence[Row], names: Sequence[str]
) -> Figure:
    """One row of axes a panel, one column a facet."""
    shown = [facet for facet in FACETS if any(row["facet"] == facet for row in rows)]
    figure, axes = plt.subplots(len(found), len(shown), sharey="row", squeeze=False,
                                figsize=(3.0 * len(shown), 0.9 + 2.9 * len(found)))  # fmt: skip
    for line, (panel, label) in enumerate(zip(found, labels, strict=True)):
        for ax, facet in zip(axes[line], shown, strict=True):
            mine = [r for r in rows if r["facet"] == facet and panel.condition.items() <= r.items()]
            categories = list(dict.fromkeys(row["category"] for row in mine))
            for name in names:
                points = [row for row in mine if row["explainer"] == name]
                y, low, high = (
                    np.array([r[f"ppl{end}"] for r in points]) for end in ("", "_low", "_high")
                )
                x = [categories.index(row["category"]) for row in points]
                ax.errorbar(x, y, yerr=np.maximum(0, [y - low, high - y]), capsize=2, markersize=4,
                            linewidth=1, label=name.replace("_", " "),
                            linestyle="-" if facet in ("place", "frequency") else "none",
                            **style(names, name))  # fmt: skip
            ax.set_xticks(range(len(categories)), categories, rotation=35, ha="right", fontsize=8)
            ax.margins(x=0.15)
            ax.set_yscale("log")
            ax.yaxis.set_major_formatter("{x:,g}")
            ax.grid(axis="y", which="both", linewidth=0.3, alpha=0.6)
            if line == 0:
                ax.set_title(TITLES[facet], fontsize=9)
        axes[line, 0].set_ylabel(
            f"{label}\nperplexity, log scale" if label else "perplexity, log scale"
        )
    legend_below(figure, axes[:, 0])
    return figure
