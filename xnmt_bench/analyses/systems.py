"""Systems side by side under every metric (Voita et al. 2019, Tables 6 to 8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.metric import Column, TableRow
from xnmt_bench.report.panels import Panel, distinguish, name_of_all, pooled
from xnmt_bench.report.summary import Cell, Line, Summary

NOTE = "Each number is its metric's own, with its interval where it has one; n/a: not measured."


class Systems(Analysis):
    """One line a system, one column for each metric that compares systems and each test set."""

    name = "systems"

    def results(self, by_metric: Mapping[str, Sequence[Panel]]) -> Iterator[tuple[str, Result]]:
        """Yield one result for all metrics together."""
        # All metrics share one table, so the question is not of each of them.
        panels = [panel for metric_panels in by_metric.values() for panel in metric_panels]
        yield self.name, self.analyse(panels)

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return the headline of each panel of systems, on the whole test set."""
        shown = [panel for panel in panels if panel.metric.compared == "nmt"]
        if not shown:
            raise NotApplicable("no metric that compares systems has results, such as quality")
        rows, cells = list[TableRow](), dict[tuple[bool, str], dict[str, Cell]]()
        headings, every = _headings(shown), [s for panel in shown for s in panel.scored()]
        for panel, heading in zip(shown, headings, strict=True):
            column = panel.metric.headline
            for panel_name, row in _rows(panel, column):
                name = name_of_all(panel, panel_name, every)
                rows.append(row | {"heading": heading, "nmt": name})
                blind = panel.blind(panel_name)
                ends = ("low", "high") if column.interval else ()
                text = column.cell(*(row[n] for n in ("value", *ends)))
                # People and chance are blind rows, and never the best.
                rank = None if blind else column.rank(row["value"])
                cells.setdefault((blind, name), {})[heading] = Cell(text, rank)
        lines = [
            Line(
                (),
                # A system may lack a metric: translations from a file have no contrastive accuracy.
                [Cell(name + " (blind)" * blind), *(values.get(h, Cell("n/a")) for h in headings)],
            )
            for (blind, name), values in sorted(cells.items())
        ]
        summary = Summary("Systems side by side", ["NMT", *headings], lines, [NOTE])
        identity = ("corpus", "lang_pair", "metric", "heading", "nmt")
        return Result(rows, identity, ("result", "value", "low", "high"), summary)


def _rows(panel: Panel, column: Column) -> Iterator[tuple[str, TableRow]]:
    """Yield each system's number in a panel, and its name there."""
    pivot = next(iter(panel.rows))  # they are sorted: the whole stands before its parts
    for name in panel.names:
        if numbers := pooled(column, panel.of(pivot, name)):
            identity = {key: panel.condition[key] for key in ("corpus", "lang_pair")}
            identity |= {"metric": panel.metric.name, "result": column.name}
            value, *ends = numbers
            low, high = ends if column.interval else ("", "")
            yield name, identity | {"value": value, "low": low, "high": high}


def _headings(panels: Sequence[Panel]) -> list[str]:
    """Return a heading for each panel: what is measured, on which corpus, and what else differs."""
    several = len({panel.condition["lang_pair"] for panel in panels}) > 1
    pair = "corpus", *(("lang_pair",) if several else ())
    plain = [
        " ".join([panel.metric.headline.heading, *(panel.condition[c] for c in pair)])
        for panel in panels
    ]
    headings = list(plain)
    for heading in dict.fromkeys(plain):
        # One metric may be measured on several test sets of a corpus, or with several options.
        numbers = [n for n, other in enumerate(plain) if other == heading]
        phrases = distinguish([panels[n] for n in numbers], but=("corpus", "nmt")).phrases
        for n, phrase in zip(numbers, phrases, strict=True):
            headings[n] = ", ".join(filter(None, [heading, phrase]))
    return headings
