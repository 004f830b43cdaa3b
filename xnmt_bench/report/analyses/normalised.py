"""The normalised score of each explainer, with a figure across corpora and systems."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from omegaconf import DictConfig

from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.normalised import normalised
from xnmt_bench.report.analyses.result import Result, style
from xnmt_bench.report.fidelity_table import HEADINGS
from xnmt_bench.report.figure import legend_below
from xnmt_bench.report.panels import CONDITION, INSTANTIATIONS, Panel, named, told_apart
from xnmt_bench.report.summary import Cell, Line, Row, Summary

RANDOM = "random"
IDENTITY = (*CONDITION, "explainer", "instantiation")
MEASURED = ("score", "score_low", "score_high")
NOTE = (
    "(log PPL of random words - log PPL) / (log PPL of random words - log PPL of the NMT model "
    "with its whole context): 0 is as good as random words, 1 as good as the whole context, below "
    "0 worse than random. With 95 % bootstrap intervals over sentences. Both ends are those of the "
    "same system and instantiation, so that scores compare across corpora and systems."
)


def analyse(found: Sequence[Panel], settings: DictConfig) -> Result:
    """Scores every explainer of the panels that have random words and the NMT model's own row.

    Raises:
        NotApplicable: there is no such panel.
    """
    usable = [p for p in found if p.nmt and any(RANDOM in of for of in p.scores.values())]
    if not usable:
        raise NotApplicable("no system has results of explainer=random")
    varying, said, texts = told_apart(usable)
    rows: list[Row] = []
    lines = []
    instantiations = list(dict.fromkeys(i for panel in usable for i in panel.scores))
    for panel, text in zip(usable, texts, strict=True):
        mine = _rows(panel, settings)
        rows += mine
        for name in dict.fromkeys(row["explainer"] for row in mine):
            of = {row["instantiation"]: row for row in mine if row["explainer"] == name}
            head = [Cell(text[column]) for column in varying] + [Cell(name)]
            cells = [_cell(of.get(i)) for i in instantiations]
            lines.append(Line(tuple(panel.condition.values()), head + cells))
    heads = [*varying, "explainer", *(HEADINGS[i] for i in instantiations)]
    summary = Summary(", ".join(["Normalised fidelity", *said]), heads, lines, [NOTE])
    labels = [named(text, varying) for text in texts]
    return Result(rows, IDENTITY, MEASURED, summary, _figure(usable, rows, labels))


def _rows(panel: Panel, settings: DictConfig) -> list[Row]:
    assert panel.nmt is not None
    rows: list[Row] = []
    for instantiation, of in panel.scores.items():
        if RANDOM not in of:
            continue
        for name in of.keys() - {RANDOM}:
            score, low, high = normalised(
                of[name], of[RANDOM], panel.nmt, settings.samples, settings.seed
            )
            rows.append(
                {**panel.condition, "explainer": name, "instantiation": instantiation,
                 "score": score, "score_low": low, "score_high": high}
            )  # fmt: skip
    best: dict[str, float] = {}
    for row in rows:
        best[row["explainer"]] = max(row["score"], best.get(row["explainer"], row["score"]))
    return sorted(rows, key=lambda row: (-best[row["explainer"]], row["explainer"]))


def _cell(row: Row | None) -> Cell:
    if row is None:
        return Cell("")
    text = f"{row['score']:.3f} [{row['score_low']:.3f}, {row['score_high']:.3f}]"
    return Cell(text, -row["score"])


def _figure(found: Sequence[Panel], rows: Sequence[Row], labels: Sequence[str]) -> Figure:
    """Each explainer's score by the last instantiation there is, one line of points a panel."""
    names = sorted({row["explainer"] for row in rows})
    figure, ax = plt.subplots(figsize=(7.5, 1.6 + 0.5 * len(found)))
    for place, panel in enumerate(found):
        mine = [row for row in rows if panel.condition.items() <= row.items()]
        last = max(mine, key=lambda row: INSTANTIATIONS.index(row["instantiation"]), default={})
        shown = {**panel.condition, "instantiation": last.get("instantiation")}
        for row in rows:
            if any(row[column] != value for column, value in shown.items()):
                continue
            offset = 0.1 * (names.index(row["explainer"]) - (len(names) - 1) / 2)
            error = [
                [max(0.0, row["score"] - row["score_low"])],
                [max(0.0, row["score_high"] - row["score"])],
            ]
            ax.errorbar(row["score"], place + offset, xerr=error, capsize=2, markersize=5,
                        linestyle="none", label=row["explainer"].replace("_", " "),
                        **style(names, row["explainer"]))  # fmt: skip
    for end in (0, 1):
        ax.axvline(end, color="black", linewidth=0.8, linestyle="--")
    ax.set_yticks(range(len(found)), labels if any(labels) else [""] * len(found))
    ax.set_ylim(len(found) - 0.5, -0.5)
    ax.set_xlabel("normalised fidelity (0: random words, 1: the whole context)")
    legend_below(figure, [ax])
    return figure
