"""What a metric is: what it measures of a job, how its rows are told apart, how they are scored.

Collecting rows, intervals, signatures, tables, figures, tracking and the page are the same for all
metrics and stand elsewhere, once. Shapes: U units, R weightings of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from xnmt_bench.measuring.measurement import BLIND, DOUBTS, Evidence, Measurement, Planned, Scored
from xnmt_bench.measuring.units import Units
from xnmt_bench.pipeline.job import Job

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from xnmt_bench.measuring.listing import Listing
    from xnmt_bench.words import Weighed

Row = dict[str, Any]
SYSTEM = ("corpus", "lang_pair", "nmt")  # the first columns of every row


def digits(value: float) -> str:
    """Three or four significant digits, as papers print perplexities."""
    return f"{value:.2f}" if value < 100 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def hundredths(value: float) -> str:
    """A share in per cent, the sign left to the heading."""
    return f"{100 * value:.1f}"


def percent(value: float) -> str:
    """A share in per cent."""
    return f"{hundredths(value)} %"


count = "{:,.0f}".format  # a whole number


@dataclass(frozen=True)
class Key:
    """A column that tells a row from others.

    Attributes:
        name: in CSV.
        heading: of its column where rows differ in it.
        phrase: how it is said in a title where all rows agree, such as `k = {}`.
        usual: the value that goes without saying there.
        order: its values in reading order, where that is not their own.
    """

    name: str
    heading: str
    phrase: str = "{}"
    usual: Any = ""
    order: Sequence[Any] = ()

    def text(self, value: Any) -> str:
        """A value as it is read."""
        if isinstance(value, int) and not isinstance(value, bool):  # a bool is an int to Python
            return f"{value:,}"
        return str(value).replace("_", " ") if self.usual else str(value)


@dataclass(frozen=True)
class Column:
    """A result.

    Attributes:
        name: in CSV, and the key of what `score` gives.
        heading: of its column.
        form: a value as it is read.
        better: which way is better; None where neither is, and then none stands out.
        interval: whether it is shown with its bootstrap interval.
        log: it lives on a logarithmic scale: differences are ratios.
        shown: whether it stands in the table, or in the CSV alone.
        title: of the table of its own that it has beside a pivot, if it is not the headline.
        note: under that table.
    """

    name: str
    heading: str
    form: Callable[[float], str] = digits
    better: Literal["lower", "higher"] | None = None
    interval: bool = False
    log: bool = False
    shown: bool = True
    title: str = ""
    note: str = ""

    def rank(self, value: float) -> float | None:
        """The value such that the least is the best."""
        return None if self.better is None else value if self.better == "lower" else -value

    def cell(self, value: float, low: float | None = None, high: float | None = None) -> str:
        """A value as it is read, with its interval where it has one."""
        if np.isnan(value):
            return "no number"
        if low is None or high is None:
            return self.form(value)
        return f"{self.form(value)} [{self.form(low)}, {self.form(high)}]"


class Metric(ABC):
    """Base of every metric. Options are arguments of `__init__`, each with a default.

    Attributes:
        name: as in `metric=[name]` and in its files.
        title: of its table.
        note: under its table: what the numbers are, and which way is better.
        keys: what tells its rows apart beside corpus, language pair and system.
        columns: its results; the first is the one that stands for the metric.
        compared: the column whose values are ranked: explainers, or systems.
        pivot: the key whose values stand side by side in the table, if any.
        csv_only: values of the pivot that have no place in the table.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    note: ClassVar[str]
    keys: ClassVar[Sequence[Key]] = ()
    columns: ClassVar[Sequence[Column]]
    compared: ClassVar[str] = "explainer"
    pivot: ClassVar[str | None] = None
    csv_only: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def measure(self, job: Job) -> Iterator[Planned]:
        """What there is to measure of a job; each is made, and written, as it comes."""

    @abstractmethod
    def score(self, units: Units, weights_RU: np.ndarray) -> Mapping[str, np.ndarray]:
        """The results (R,) of each column; NaN where a weighting leaves nothing to measure.

        Args:
            units: U of them.
            weights_RU: how often each counts; a row of ones gives the value, a bootstrap's draws
                its interval.
        """

    @property
    def headline(self) -> Column:
        """The result that stands for the metric."""
        return self.columns[0]

    @property
    def identity(self) -> tuple[str, ...]:
        """The names of all columns that tell rows apart."""
        return (*SYSTEM, *(key.name for key in self.keys))

    def measured_from_files(self, job: Job) -> bool:
        """Whether all that it needs are files, so that `evaluate.py` can measure."""
        return job.from_files

    def plan(
        self, job: Job, make: Callable[[], Evidence], explained: bool = False, **keys: Any
    ) -> Planned:
        """A row of a job, which `make` measures.

        Its identity is the system's, the explainer's and its seed if `explained`, and the metric's
        own `keys`, which have the last word.
        """
        identity = (job.explained_identity() if explained else job.system_identity()) | keys
        facts = {"generated": job.corpus.generated, DOUBTS: job.doubts}
        if explained and job.door("relevance") is None:
            facts[BLIND] = job.explained.explainer.blind
        return Planned(identity, job.model_id, make, facts)

    def combine(self, scored: Sequence[Scored]) -> list[Scored]:
        """Further rows made of others, such as the best of a family."""
        return []

    def reference(self, row: Row) -> str | None:
        """What a row is that stands under the table as a point of reference, unranked."""
        return None

    def heading(self, value: str) -> str:
        """The heading of one value of the pivot."""
        return value

    def pivot_order(self, value: str) -> tuple[Any, ...]:
        """Sorts the values of the pivot."""
        return (value,)

    def ranking(self, by_pivot: Mapping[str, float]) -> float:
        """What lines are sorted by, the least first: the best of their ranked values."""
        return min(by_pivot.values())

    def about_system(self, row: Row) -> str | None:
        """What the tables of other metrics say of a system because of this row."""
        return None

    def notes(self, scored: Sequence[Scored]) -> list[str]:
        """Further notes under the table."""
        return []

    def details(self, measurements: Sequence[Measurement]) -> Iterator[tuple[str, list[Row]]]:
        """Rows of its own below those of the table, by the name of their CSV."""
        return iter(())

    def shows(self, measurements: Sequence[Measurement]) -> Iterator[tuple[str, Weighed]]:
        """Sentences whose weights the terminal shows, under the table, each with a caption."""
        return iter(())

    def listings(self, measurements: Sequence[Measurement]) -> Iterator[Listing]:
        """What can be read one by one, on a page of its own."""
        return iter(())

    def figures(self, measurements: Sequence[Measurement]) -> Iterator[tuple[str, Figure]]:
        """Figures of its own, by name, beside the one that every metric has."""
        return iter(())


class SumMetric(Metric):
    """A metric whose results are functions of weighted sums over the units."""

    @abstractmethod
    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """The results (R,) from the sums (R,) of each of the units' columns."""

    def score(self, units: Units, weights_RU: np.ndarray) -> Mapping[str, np.ndarray]:
        """Sums each column of the units, weighted, and asks `of_sums`."""
        return self.of_sums({name: weights_RU @ units[name] for name in units.columns})


def ratio(numerator_R: np.ndarray, denominator_R: np.ndarray) -> np.ndarray:
    """A quotient of sums, NaN where there is nothing to divide by."""
    empty = np.full(np.broadcast(numerator_R, denominator_R).shape, np.nan)
    return np.divide(numerator_R, denominator_R, out=empty, where=denominator_R != 0)
