"""What was measured, as pandas frames: tables, units and analyses of a results folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from xnmt_bench.analyses.analysis import Analysis
from xnmt_bench.bundles.paths import bundle_paths
from xnmt_bench.bundles.pool import pool
from xnmt_bench.errors import TRAIN_FIRST, MissingError, NotApplicable, XnmtError, import_extra
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.measurement import FOLDER, ScoredRow
from xnmt_bench.measuring.metric import Metric
from xnmt_bench.measuring.units import NUMBER, TEST_SET
from xnmt_bench.registry import create_checked, entries, load, unknown
from xnmt_bench.report.panels import Panel, panels
from xnmt_bench.report.report import collect
from xnmt_bench.report.table import csv_columns

if TYPE_CHECKING:
    import pandas as pd

TABLE = "table"  # the column that tells an analysis's tables apart


class Results:
    """The measurements of a results folder, for pandas.

    Args:
        folder: what `train.py` calls `results`; or bundles, `["a.zip", "b.zip"]`, which are checked
            and pooled.
        samples: how often intervals are bootstrapped.
        seed: of their draws.

    Raises:
        MissingError: nothing was measured there.
        XnmtError: pandas is not installed.
    """

    def __init__(
        self,
        folder: str | Path | Sequence[str | Path] = "results",
        samples: int = 1000,
        seed: int = 0,
    ) -> None:
        self._pandas = import_extra("pandas", "frames")
        self._draws = Draws(samples, seed)
        if paths := bundle_paths(folder):
            self._place = TemporaryDirectory(prefix="pooled-")  # removed with this object
            folder = self._place.name
            pool(paths, Path(folder))
        if not isinstance(folder, str | Path):
            raise MissingError("results: the list of bundles is empty")
        self._folder = Path(folder)
        self._scored: dict[str, list[ScoredRow]] = {}
        if not self.metrics:
            raise MissingError(f"{folder}: nothing is measured here yet; {TRAIN_FIRST}")

    def __repr__(self) -> str:
        """Return the folder, and what was measured in it."""
        return f"Results({str(self._folder)!r}): {', '.join(self.metrics)}"

    @cached_property
    def metrics(self) -> list[str]:
        """The names of the metrics that were measured."""
        installed = entries("metrics")
        folders = sorted(path.name for path in (self._folder / FOLDER).glob("*"))
        return [name for name in folders if name in installed]

    def table(self, metric: str) -> pd.DataFrame:
        """Return a metric's rows with the columns of its CSV file, intervals among them.

        A row whose units are missing or altered has a `status` that begins with `failed`.

        Raises:
            XnmtError: the metric was not measured.
        """
        columns = csv_columns(self._metric(metric))
        rows = [scored.row for scored in self._rows(metric)]
        # An empty text means no value, which pandas calls None among texts and NaN elsewhere.
        values = [[row.get(name, "") for name in columns] for row in rows]
        return self._with_types(self._pandas.DataFrame(values, columns=list(columns)))

    def units(self, metric: str) -> pd.DataFrame:
        """Return the units behind a metric's rows: what a bootstrap resamples, a row each.

        Its columns: what identifies the measurement, `test_set`, `unit` (its number there;
        `unit_number` of confidence, whose rows have a `unit`), and the sums that each unit
        contributes.

        Raises:
            XnmtError: the metric was not measured.
            StoreError: units are missing, truncated or altered.
        """
        parts = []
        for scored in self._rows(metric):
            measurement = scored.measurement
            if scored.derived or measurement.path is None:  # made of other rows, or not measured
                continue
            units = measurement.units()
            number = f"{NUMBER}_number" if NUMBER in measurement.identity else NUMBER
            content = {TEST_SET: units.test_set, number: units.number_U, **units.columns}
            parts.append(self._pandas.DataFrame({**measurement.identity, **content}))
        if not parts:
            return self._pandas.DataFrame()  # type: ignore[no-any-return]
        return self._with_types(self._pandas.concat(parts, ignore_index=True))

    def analysis(self, name: str, **options: Any) -> pd.DataFrame:
        """Ask an analysis of everything that was measured.

        Args:
            name: as in `analysis=[name]`.
            options: the analysis's own.

        Returns:
            The rows of its tables, which the column `table` tells apart.

        Raises:
            ConfigError: an option has a wrong value or no such name.
            XnmtError: no such analysis, or no metric that it fits was measured.
        """
        analysis: Analysis = create_checked("analyses", name, **options)
        rows = []
        try:
            for title, result in analysis.results(dict(self._panels())):
                columns = [*result.identity, *result.measured]
                rows += [
                    {TABLE: title} | {c: row.get(c, "") for c in columns} for row in result.rows
                ]
        except NotApplicable as error:
            raise XnmtError(f"{name}: n/a: {error}") from None
        return self._with_types(self._pandas.DataFrame(rows))

    def _panels(self) -> Iterator[tuple[str, list[Panel]]]:
        for name in self.metrics:
            if metric_panels := panels(self._metric(name), self._rows(name)):
                yield name, metric_panels

    def _metric(self, name: str) -> Metric:
        if name not in self.metrics:
            raise XnmtError(unknown("measured metric", name, self.metrics))
        metric: Metric = load("metrics", name)()
        return metric

    def _rows(self, name: str) -> list[ScoredRow]:
        if name not in self._scored:
            self._scored[name] = collect(self._metric(name), self._folder, self._draws)
        return self._scored[name]

    def _with_types(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a frame whose columns of numbers are numbers, NaN where a row is empty."""
        for column in frame.columns:
            values = frame[column].tolist()
            present = [value for value in values if value not in ("", None)]
            if present and all(isinstance(value, int | float) for value in present):
                frame[column] = self._pandas.to_numeric(frame[column].replace("", None))
        return frame
