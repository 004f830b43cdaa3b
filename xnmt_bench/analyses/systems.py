"""Systems side by side under every metric (Voita et al. 2019, Tables 6 to 8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.metric import Column, Row
from xnmt_bench.report.panels import Panel, pooled
from xnmt_bench.report.summary import Cell, Line, Summary

NOTE = "Each number is its metric's own, with its interval where it has one; n/a: not measured."


class Systems(Analysis):
    """One line a system, one column for each metric that compares systems and each test set."""

    name = "systems"

    def results(self, by_metric: Mapping[str, Sequence[Panel]]) -> Iterator[tuple[str, Result]]:
        """Yield one result for all metrics together."""
        # All metrics share one table, so each of them alone is not the question.
        panels = [panel for metric_panels in by_metric.values() for panel in metric_panels]
        yield self.name, self.analyse(panels)

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return the headline of each panel of systems, on the whole test set."""
        shown = [panel for panel in panels if panel.metric.compared == "nmt"]
        if not shown:
            raise NotApplicable("no metric that compares systems has results, such as quality")
        rows, cells = list[Row](), dict[tuple[bool, str], dict[str, Cell]]()
        for panel in shown:
            column = panel.metric.headline
            for name, row in _rows(panel, column):
                rows.append(row)
                blind = panel.blind(name)
                text = column.cell(*(row[n] for n in ("value", "low", "high")))
                # People and chance are blind rows, and never the best.
                rank = None if blind else column.rank(row["value"])
                cells.setdefault((blind, name), {})[_heading(panel)] = Cell(text, rank)
        headings = list(dict.fromkeys(map(_heading, shown)))
        lines = [
            Line(
                (),
                # A system may lack a metric: translations from a file have no contrastive accuracy.
                [Cell(name + " (blind)" * blind), *(values.get(h, Cell("n/a")) for h in headings)],
            )
            for (blind, name), values in sorted(cells.items())
        ]
        summary = Summary("Systems side by side", ["NMT", *headings], lines, [NOTE])
        identity = ("corpus", "lang_pair", "metric", "nmt")
        return Result(rows, identity, ("result", "value", "low", "high"), summary)


def _rows(panel: Panel, column: Column) -> Iterator[tuple[str, Row]]:
    """Yield each system's number in a panel."""
    pivot = next(iter(panel.rows))  # they are sorted: the whole stands before its parts
    for name in panel.names:
        if numbers := pooled(column, panel.of(pivot, name)):
            identity = {key: panel.condition[key] for key in ("corpus", "lang_pair")}
            identity |= {"metric": panel.metric.name, "nmt": name, "result": column.name}
            yield name, identity | dict(zip(("value", "low", "high"), numbers, strict=True))


def _heading(panel: Panel) -> str:
    # With the corpus: one metric may be measured on several test sets.
    return f"{panel.metric.headline.heading} {panel.condition['corpus']}"
