"""How often do the rules of an explainer come back? (Li et al. 2020, Table 2)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.analyses.tables import listed, written
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.alike import origin
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import TableRow
from xnmt_bench.report.figure import fitting, lay_out, name_labels, stacked, wrapped
from xnmt_bench.report.panels import Panel, distinguish
from xnmt_bench.rules.density import BINS

SYSTEM = ("corpus", "lang_pair", "nmt", "model", "learned_from")
BIN_COLUMNS = tuple(f"frequency_bin_{n}" for n in range(1, len(BINS) + 2))
BIN_NAMES = [
    *(f"{low + 1}-{high}" if high - low > 1 else str(high) for low, high in pairwise((0, *BINS))),
    f"> {BINS[-1]}",
]
# Of one hue, from rare to frequent: told apart by lightness only.
SHADES = ("#c6dbef", "#9ecae1", "#6baed6", "#2171b5", "#08306b")
NOTE = (
    "Unique rules of the training set at k = 1 (source word, prefix word and label), and how many "
    "of them come how often. Fewer unique rules: denser patterns."
)


class RuleDensity(Analysis):
    """Counts the unique training rules of each explainer, once for each set of rules."""

    name = "density"

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return one line an explainer, the densest first."""
        # k, the prefix words that judges see, the scenario of the test and the size of a proxy's
        # training leave the stored rules unchanged.
        by_explainer: dict[tuple[str, ...], dict[str, tuple[Measurement, Panel]]] = {}
        for panel in panels:
            for name, m in panel.measurements():
                # Only judges that learn from rules had the training rules extracted.
                if "density" in m.facts.of_metric and "rules" in m.made_by:
                    by_rules = by_explainer.setdefault((*_system(panel.condition), name), {})
                    # Judges of one explainer share its rules, which count once.
                    by_rules.setdefault(m.made_by["rules"], (m, panel))
        if not by_explainer:
            raise NotApplicable("no explainer has stored rules of training sentences")
        identity, measured = (*SYSTEM, "explainer", "rules_id"), ("rules", "unique", *BIN_COLUMNS)
        rows: list[TableRow] = []
        systems: dict[tuple[str, ...], Panel] = {}
        for (*system, explainer), by_rules in by_explainer.items():
            for rules_id, (m, panel) in by_rules.items():
                systems[tuple(system)] = panel
                # The rules of an explainer that draws differ by seed, and those of several
                # trainings by the system.
                several = len({origin(m) for m, _ in by_rules.values()}) > 1
                which = f" (seed {m.identity['seed']})" if len(by_rules) > 1 else ""
                which += f" of {origin(m)[:6]}" if several else ""
                density = m.facts.of_metric["density"]
                counts = (density["rules"], density["unique"], *density["bins"])
                values = (*system, explainer + which, rules_id, *counts)
                rows.append(dict(zip((*identity, *measured), values, strict=True)))
        # Names break ties, so that the order is the same on every run.
        rows.sort(key=lambda row: (*_system(row), row["unique"], row["explainer"]))
        views = ("k", "prefix", "scenario", "train_sentences")
        distinction = distinguish(list(systems.values()), but=views)
        texts = dict(zip(systems, distinction.texts, strict=True))
        heads = ("rules", "unique", *BIN_NAMES)
        summary = listed(
            distinction.title("Rule density"),
            [*distinction.varying, "explainer"],
            [(_system(row), [*texts[_system(row)], row["explainer"]], row) for row in rows],
            [(h, written("{:,}".format, c)) for h, c in zip(heads, measured, strict=True)],
            [NOTE],
        )
        figure = _figure(rows, dict(zip(systems, distinction.phrases, strict=True)))
        return Result(rows, identity, measured, summary, figure)


def _system(columns: TableRow) -> tuple[str, ...]:
    return tuple(columns[c] for c in SYSTEM)


def _figure(rows: Sequence[TableRow], titles: dict[tuple[str, ...], str]) -> Figure:
    """Return unique rules by how often they come, one bar an explainer, one axes a system."""
    every_block = [
        (title, *fitting([row for row in rows if _system(row) == system], "rows", lambda _: 0.2))
        for system, title in titles.items()
    ]
    heights = [max(1.9, 0.5 + 0.2 * len(system_rows)) for _, system_rows, _ in every_block]
    blocks, note = fitting(every_block, "systems", lambda block: heights[every_block.index(block)])
    heights = heights[: len(blocks)]
    figure, axes = stacked(7.5, heights, 1.2)
    for ax, (title, system_rows, rows_note) in zip(axes, blocks, strict=True):
        labels = name_labels(row["explainer"] for row in system_rows)
        names = [labels[row["explainer"]] for row in system_rows]
        bar_start = np.zeros(len(system_rows))
        for column, name, shade in zip(BIN_COLUMNS, BIN_NAMES, SHADES, strict=True):
            counts = np.array([row[column] for row in system_rows])
            ax.barh(names, counts, left=bar_start, color=shade, label=name, height=0.7)
            bar_start += counts
        ax.invert_yaxis()  # the densest above
        ax.set_title(wrapped(title, 5, rows_note), fontsize=10)
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.grid(axis="x", linewidth=0.3, alpha=0.6)
    axes[-1].set_xlabel("unique rules, by how often they come (fewer: denser)")
    lay_out(figure, axes, note)
    return figure
