"""Which of the measured rows a report shows: `rows="explainer=attention,lexicon judge=base"`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xnmt_bench.errors import ConfigError
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.measurement import Measurement, ScoredRow
from xnmt_bench.measuring.metric import Metric
from xnmt_bench.overrides import split
from xnmt_bench.report.panels import panels
from xnmt_bench.report.standing import Standing, Standings, standings_of

# The column of a judge's row holds the name of its proxy; `judge=[...]` names the judge itself.
JUDGE, INSTANTIATION = "judge", "instantiation"
EXAMPLE = 'such as rows="explainer=attention,lexicon judge=base"'
VERDICT_NOTE = (
    "Marks and verdicts are tests against every blind row that was measured, shown or not; p is "
    "corrected for every explainer that was measured."
)


@dataclass(frozen=True)
class Selection:
    """The values that rows may have, by column; a row of another value is not shown.

    A row without a value in a column, such as one without a seed, fits every value of it. A column
    that a metric lacks selects nothing among its rows.

    Attributes:
        text: as it was typed.
        values: by column of the CSV, or `judge`.
    """

    text: str
    values: Mapping[str, Sequence[str]]

    @classmethod
    def parse(cls, text: str) -> Selection:
        """Read a selection: `column=value,value` with blanks between columns.

        Raises:
            ConfigError: a part is not of this form, or a column stands twice.
        """
        try:
            parts = shlex.split(text)
        except ValueError as error:
            raise ConfigError([f"rows: {error}, {EXAMPLE}"]) from None
        values: dict[str, Sequence[str]] = {}
        for part in parts:
            column, equals, listed = part.partition("=")
            if not (column and equals):
                raise ConfigError([f"rows: {part!r} is not column=value, {EXAMPLE}"])
            if column in values:
                raise ConfigError([f"rows: {column} stands twice; give {column}=first,second"])
            values[column] = split(listed)
        return cls(" ".join(text.split()), values)

    def fits(self, metric: Metric, measurement: Measurement, but: Sequence[str] = ()) -> bool:
        """Return whether a row has one of the values in each column, `but` some columns."""
        return all(
            _value(metric, measurement, column) in ("", *values)
            for column, values in self.values.items()
            if column not in but
        )

    def check(self, measured: Sequence[tuple[Metric, Sequence[Measurement]]]) -> None:
        """Refuse columns and values that no row has.

        Args:
            measured: the rows of each metric.

        Raises:
            ConfigError: a line for each, with the columns or values that there are.
        """
        problems = []
        for column, values in self.values.items():
            columns = {c for metric, _ in measured for c in _columns(metric)}
            if column not in columns:
                problems.append(f"rows: no column {column!r}; {_list(columns)}")
                continue
            there = {_value(metric, m, column) for metric, rows in measured for m in rows} - {""}
            problems += [
                f"rows: no row has {column}={value}; {_list(there)}"
                for value in values
                if value not in there
            ]
        combined = any(self.fits(metric, m) for metric, rows in measured for m in rows)
        if self.values and not problems and not combined:
            problems = [f"rows={self.text!r}: no row has all of these values"]
        if problems:
            raise ConfigError(problems)

    def shown(self, metric: Metric, scored: Sequence[ScoredRow]) -> list[ScoredRow]:
        """Return the rows that a report shows."""
        return [s for s in scored if self.fits(metric, s.measurement)]

    def standings(
        self, metric: Metric, scored: Sequence[ScoredRow], draws: Draws
    ) -> list[Standings]:
        """Return the standings of the panels of the rows shown.

        What is compared, such as explainers, selects no row of the tests, and neither do seeds and
        trainings. So a report of few explainers tests each against every blind row, and corrects
        for every explainer.

        Args:
            metric: of the rows.
            scored: all its rows.
            draws: of the intervals and the tests.
        """
        but = (metric.compared, "seed", "model")
        tested = [s for s in scored if self.fits(metric, s.measurement, but)]
        standings = standings_of(metric, tested, draws)
        if not self.values:
            return standings
        return _standings_of_shown(metric, tested, standings, self.shown(metric, scored))

    @property
    def notes(self) -> list[str]:
        """The notes under every table of a selection; none where all rows are shown."""
        return [f"Rows shown: {self.text}.", VERDICT_NOTE] if self.values else []


def _standings_of_shown(
    metric: Metric,
    tested: Sequence[ScoredRow],
    standings: Sequence[Standings],
    shown: Sequence[ScoredRow],
) -> list[Standings]:
    """Return the standings of all tested rows, for the panels of the rows shown.

    Args:
        metric: of the rows.
        tested: rows that were tested together.
        standings: of their panels, in the order of `panels`.
        shown: those of them that a report shows.
    """
    of_row: dict[int, Standing] = {}  # by the row's object, since its panel and name may differ
    for panel, of_panel in zip(panels(metric, tested), standings, strict=True):
        for pivot, of_pivot in of_panel.items():
            for name, standing in of_pivot.items():
                of_row |= {id(row): standing for row in panel.of(pivot, name)}
    return [
        {
            pivot: {
                name: of_row[id(rows[0])] for name, rows in by_name.items() if id(rows[0]) in of_row
            }
            for pivot, by_name in panel.rows.items()
        }
        for panel in panels(metric, shown)
    ]


def _list(names: Iterable[str]) -> str:
    return f"there are {', '.join(sorted(names))}"


def _columns(metric: Metric) -> set[str]:
    judge = {JUDGE} if metric.pivot == INSTANTIATION else set()
    return {*metric.identity, "model", *judge}


def _value(metric: Metric, measurement: Measurement, column: str) -> str:
    """Return a row's text in a column; empty without one.

    A point of reference under a table, such as the system with its whole context, is of no judge
    that could be chosen, so that it is left out by what it is measured on alone.
    """
    if column not in _columns(metric):
        return ""
    reference = metric.reference(measurement.identity) is not None
    if column in (JUDGE, INSTANTIATION) and reference:
        return ""
    if column == JUDGE:
        return measurement.facts.judge
    return str({**measurement.identity, "model": measurement.model}[column])
