"""What a metric is: what it measures of a job, which columns tell its rows apart, how it scores.

Collecting rows, intervals, signatures, tables, figures, tracking and the page are the same for all
metrics and are written once, in `measuring` and `report`. Shapes: U units, R weightings of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from xnmt_bench.errors import StoreError
from xnmt_bench.measuring.listing import Listing
from xnmt_bench.measuring.measurement import (
    CURE,
    Evidence,
    Measurement,
    PlannedRow,
    Row,
    ScoredRow,
)
from xnmt_bench.measuring.units import Bounds, Units
from xnmt_bench.pipeline.inputs import InputFile
from xnmt_bench.pipeline.job import Job
from xnmt_bench.registry import options
from xnmt_bench.store import Stage
from xnmt_bench.words import Weighed

if TYPE_CHECKING:
    from matplotlib.figure import Figure  # slow to import, and most commands draw nothing

TableRow = dict[str, Any]  # cells by column
Form = Callable[[float], str]  # of a value in a table
SYSTEM = ("corpus", "lang_pair", "nmt")  # the first columns of every row


def digits(value: float) -> str:
    """Return three or four significant digits, as papers print perplexities."""
    return f"{value:.2f}" if value < 100 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def hundredths(value: float) -> str:
    """Return a share in per cent, without the sign, which the heading has."""
    return f"{100 * value:.1f}"


def percent(value: float) -> str:
    """Return a share in per cent."""
    return f"{hundredths(value)} %"


count = "{:,.0f}".format  # a whole number


@dataclass(frozen=True)
class Key:
    """A column that tells a row from others.

    Attributes:
        name: in CSV.
        heading: of its column in a table, where rows differ in it.
        phrase: its part of a title where all rows agree, such as `k = {}`.
        usual: the value that a title leaves out.
        order: its values in reading order; None for their natural order.
        shared: a row without a value of it is in the tables of every value.
    """

    name: str
    heading: str
    phrase: str = "{}"
    usual: Any = ""
    order: Sequence[Any] = ()
    shared: bool = False

    def text(self, value: Any) -> str:
        """Return a value as tables show it."""
        if isinstance(value, int) and not isinstance(value, bool):  # a bool is an int to Python
            return f"{value:,}"
        return str(value).replace("_", " ") if self.usual else str(value)


@dataclass(frozen=True)
class Column:
    """A result. `higher` and `lower` make one that is ranked and has an interval.

    In a table with a pivot, the headline and each result with a `title` have a column for every
    value of the pivot. A result without a title has one column, the mean over these values.

    Attributes:
        name: in CSV, and the key of what `score` gives.
        heading: of its column.
        form: formats a value.
        better: which way is better; None where neither is, and then no cell is bold.
        interval: whether it is shown with its bootstrap interval.
        log: whether it lives on a logarithmic scale, where differences are ratios.
        shown: whether the table shows it, or only in the CSV.
        title: of the table of its own that it has in a metric with a pivot.
        note: under that table.
        meaning: what it is, in words that the page shows with its heading.
        best: the best value, beyond which none is better; None for the end of the scale.
        of_joint: a table shows it only where a system has attention over source and prefix at once.
    """

    name: str
    heading: str
    form: Form = digits
    better: Literal["lower", "higher"] | None = None
    interval: bool = False
    log: bool = False
    shown: bool = True
    title: str = ""
    note: str = ""
    meaning: str = ""
    best: float | None = None
    of_joint: bool = False

    @classmethod
    def higher(
        cls, name: str, heading: str, form: Form = digits, interval: bool = True, **options: Any
    ) -> Column:
        """Return a result of which more is better; `options` are further attributes."""
        return cls(name, heading, form, "higher", interval, **options)

    @classmethod
    def lower(
        cls, name: str, heading: str, form: Form = digits, interval: bool = True, **options: Any
    ) -> Column:
        """Return a result of which less is better; `options` are further attributes."""
        return cls(name, heading, form, "lower", interval, **options)

    def means(self, meaning: str) -> Column:
        """Return a copy with `meaning` set."""
        return replace(self, meaning=meaning)

    def is_shown(self, scored: Sequence[ScoredRow]) -> bool:
        """Return whether a table of these rows shows it: one without any number takes no room."""
        having = [s.measurement for s in scored if self.name in s.values]
        return self.shown and any(m.facts.joint_attention or not self.of_joint for m in having)

    def of_each(self, values: Iterable[Any]) -> Iterator[Column]:
        """Yield a copy for each value, which replaces `{}` in name, heading, meaning."""
        for value in map(str, values):
            yield replace(
                self,
                name=self.name.replace("{}", value),
                heading=self.heading.replace("{}", value),
                meaning=self.meaning.replace("{}", value),
            )

    def rank(self, value: float) -> float | None:
        """Return the value such that the least is the best; None where neither way is better."""
        return None if self.better is None else float(self.least_first(value))

    def least_first(self, value: Any) -> Any:
        """Return a value or an array of them such that the least is the best."""
        least = -value if self.better == "higher" else value
        if self.best is None:
            return least
        return np.maximum(least, -self.best if self.better == "higher" else self.best)

    def cell(self, value: float, low: float | None = None, high: float | None = None) -> str:
        """Return a value as tables show it, with its interval where it has one."""
        # Words and not "nan", which a reader may take for a fault of the program.
        if np.isnan(value):
            return "no number"
        if low is None or high is None:  # of one without an interval
            return self.form(value)
        return f"{self.form(value)} [{self.form(low)}, {self.form(high)}]"


OFF_WORDS = Column("off_words", "on no word %", hundredths, of_joint=True).means(
    "share of the attention, or of what else sums to 1, that lies on no word: on the prompt, BOS, "
    "a separator or EOS"
)


@dataclass(frozen=True)
class Further:
    """What a metric adds to the columns, settings, contents and facts of its job.

    Attributes:
        columns: that are known only once something was made.
        settings: what decides its numbers besides its columns and options.
        content: fingerprints of further files that decide the row, by what they hold.
        facts: what is known before it is measured; a failed row has them too.
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    content: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PivotValue:
    """How tables show one value of a metric's pivot.

    Attributes:
        heading: of its column.
        order: sorts the columns; lists of the same metric hold the same types.
        precedence: lines are sorted by their best value among the columns of greatest precedence.
        meaning: what it is, in words that the page shows with its heading.
    """

    heading: str
    order: list[Any]
    precedence: int = 0
    meaning: str = ""


class Metric(ABC):
    """Base of every metric. Options are arguments of `__init__`, each with a default.

    Attributes:
        name: as in `metric=[name]` and in its files.
        title: of its table.
        note: under its table: what the numbers are, and which way is better.
        keys: the columns that tell its rows apart, besides corpus, language pair and system.
        columns: its results; the first is the headline.
        unit_bounds: between what the columns of its units lie, by name; see
            `Units.require_within`. Impossible units are not read.
        compared: the column whose values are ranked: explainers, or systems.
        pivot: the key whose values stand side by side in the table, if any.
        csv_only: values of the pivot that tables leave out.
        inputs: what a file can give in the system's place: `outputs`, `scores`, `relevance`.
        needs: besides a system and its test sentences, in words, as `xnmt list metrics` says it.
        reads_relevance: whether another tool's relevance can replace the explainer's, beside
            the open system.
        reads_sheets: whether it reads people's answers, `sheet.path`.
        reads_details: whether a command reads the files of `details`, so that no text is changed
            for spreadsheets.
        setting_options: options besides its columns that decide its numbers: rows that differ in
            one are never ranked together. None for all options but the columns.
        of_words: whether its numbers depend on which words an explainer names, and not only on
            how its answers change.
        papers: where it was published: keys of `references.bib`, or BibTeX entries.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    note: ClassVar[str]
    keys: ClassVar[Sequence[Key]] = ()
    columns: Sequence[Column]
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {}
    compared: ClassVar[str] = "explainer"
    pivot: ClassVar[str | None] = None
    inputs: ClassVar[Sequence[str]] = ()
    needs: ClassVar[str] = ""
    reads_relevance: ClassVar[bool] = False
    reads_sheets: ClassVar[bool] = False
    reads_details: ClassVar[bool] = False
    setting_options: ClassVar[Sequence[str] | None] = None
    of_words: ClassVar[bool] = True
    papers: ClassVar[tuple[str, ...]] = ()
    csv_only: Sequence[str] = ()

    @abstractmethod
    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield the rows that can be measured of a job; nothing is made before a row is."""

    @abstractmethod
    def score(self, units: Units, weights_RU: np.ndarray) -> Mapping[str, np.ndarray]:
        """Return the results (R,) of each column; NaN where a weighting leaves nothing to measure.

        Args:
            units: U of them.
            weights_RU: how often each counts; a row of ones gives the value, a bootstrap's draws
                its interval.
        """

    def read_units(self, measurement: Measurement) -> Units:
        """Read the units of a row of the metric.

        Raises:
            StoreError: they are missing, truncated or altered, or hold what is not possible.
        """
        units = measurement.units()
        try:
            units.require_within(self.unit_bounds)
        except ValueError as error:
            raise StoreError(f"{measurement.path}: {error}; {CURE}") from None
        return units

    @property
    def _setting_options(self) -> dict[str, Any]:
        """The options that are settings of its rows, by name; see `setting_options`."""
        names = self.setting_options
        if names is None:
            names = [*options(type(self), but=[key.name for key in self.keys])]
        return {
            name.replace("_", " "): getattr(self, name) for name in names if hasattr(self, name)
        }

    @property
    def headline(self) -> Column:
        """The first result, by which rows are ranked."""
        return self.columns[0]

    @property
    def identity(self) -> tuple[str, ...]:
        """The names of all columns that tell rows apart."""
        return (*SYSTEM, *(key.name for key in self.keys))

    def measured_from_files(self, job: Job) -> bool:
        """Return whether files hold everything it needs, so that `evaluate.py` can measure."""
        return bool(self.input_files(job))

    def reads(self, input_file: InputFile) -> bool:
        """Return whether a file has a part in its rows."""
        explains = input_file.kind == "relevance" and input_file.dump is not None
        return input_file.kind in self.inputs or (explains and self.reads_relevance)

    def measured_job(self, job: Job) -> Job:
        """Return the job that is measured: with a file's relevance as its explainer's, if any."""
        return job.explained_by_file if self.reads_relevance else job

    def input_files(self, job: Job) -> dict[str, InputFile]:
        """Return the files of a job that it reads, by kind."""
        # Only those that it reads: another file must not become part of the row's identity.
        files = {kind: job.input_file(kind) for kind in self.inputs}
        return {kind: input_file for kind, input_file in files.items() if input_file is not None}

    def plan(
        self,
        job: Job,
        make: Callable[[], Evidence | None],
        stages: Callable[[], Iterable[Stage | None]] = tuple,
        further: Callable[[], Further] | None = None,
        explained: bool = False,
        of_system: bool = True,
        of_corpus: bool = True,
        **keys: Any,
    ) -> PlannedRow:
        """Plan a row of a job.

        Args:
            job: whose row.
            make: measures it.
            stages: lists the stages that it needs, for a plan; None among them is from a file.
            further: returns what the metric adds; called once the system is there.
            explained: whether the explainer and its seed are part of its identity.
            of_system: whether the system, or a file in its place, has a part in the row; if not,
                the row has the fingerprint of neither.
            of_corpus: whether it is of the test set of the job's corpus, whose doubts it shares.
            keys: the metric's own columns, which replace the others of the same name.
        """
        configured = (job.explained_identity() if explained else job.system_identity()) | keys

        def identify() -> Row:
            added = further() if further else Further()
            doubts = [*(job.doubts if of_corpus else ()), *added.facts.get("doubts", ())]
            facts: dict[str, Any] = {"generated": job.corpus.generated}
            if left_out := job.settings.omissions:
                facts["omissions"] = list(left_out)
            # Of a file's relevance it is unknown whether a model was asked, and a reference of all
            # explainers is of none.
            if explained and configured["explainer"] and job.input_file("relevance") is None:
                explainer = job.explained.explainer
                facts["blind"] = explainer.blind
                if explainer.alters:
                    facts["alters"] = job.explained.alteration
            measured = job.system if of_system and not job.from_files else None
            model = measured.fingerprint if measured else ""  # this may train the system
            if measured and (lineage := measured.lineage):
                facts["lineage"] = lineage
            if measured and (opened := measured.opened):
                facts["opened"] = opened
            settings = (measured.reading if measured else {}) | self._setting_options
            settings |= job.learning_settings if explained else {}
            if system := added.content.get("system"):  # of translations of others
                settings |= {"explained by": system[:6]}
            input_files = self.input_files(job) if of_system else {}
            inputs = {kind: input_file.fingerprint for kind, input_file in input_files.items()}
            # A reference has no explainer, and so no file of its relevance.
            relevance = job.file_relevance if explained and configured["explainer"] else {}
            return Row(
                # The metric's own keys come last, so that it may override what the job says.
                configured | dict(added.columns) | keys,
                model,
                settings | dict(added.settings),
                facts | dict(added.facts) | ({"doubts": doubts} if doubts else {}),
                inputs | relevance | dict(added.content),
            )

        of_own_model = explained and of_corpus and job.input_file("relevance") is None

        def make_with_agreement() -> Evidence | None:
            evidence = make()
            if evidence is None or not of_own_model:
                return evidence
            # Explanations of a model that hardly translates mean little.
            facts = {
                "agreement": job.explained.decisions.agreement,
                "joint_attention": job.system.joint_attention,
            }
            return replace(evidence, facts=evidence.facts | facts)

        # Identified late: the model's fingerprint may need a training, and planning starts none.
        def needed() -> Iterator[Stage]:
            yield from filter(None, stages())
            if of_own_model:
                yield job.explained.decisions.compared_labels

        return PlannedRow(configured, identify, make_with_agreement, needed)

    def combine(self, scored: Sequence[ScoredRow]) -> list[ScoredRow]:
        """Return further rows made of the given ones, such as the best of a family."""
        return []

    def reference(self, row: TableRow) -> str | None:
        """Return what a row is that stands under the table as a point of reference, unranked.

        None for every other row.
        """
        return None

    def pivot_value(self, measurement: Measurement) -> PivotValue:
        """Return how tables show the row's value of the pivot."""
        if stored := measurement.facts.pivot:
            return PivotValue(**stored)
        # Only judges store one; any other value stands by its bare name.
        value = str(measurement.identity[self.pivot]) if self.pivot else ""
        return PivotValue(value or self.headline.heading, [value])

    def why_unranked(
        self,
        best: float,
        rows: Sequence[ScoredRow],
        references: Mapping[str, Sequence[ScoredRow]],
    ) -> str | None:
        """Return why a value of the pivot ranks nothing, such as `does not judge here: ...`.

        It goes on a sentence that begins with the value's heading. None where it ranks its rows.

        Args:
            best: the best headline of its rows, blind ones too.
            rows: that have a number.
            references: the rows that stand beside them unranked, by value of the pivot.
        """
        return None

    def about_system(self, row: TableRow) -> str | None:
        """Return a note on the system that this row gives the tables of other metrics, if any."""
        return None

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return further notes under the table."""
        return []

    def details(self, measurements: Sequence[Measurement]) -> Iterator[tuple[str, list[TableRow]]]:
        """Yield the names of further CSV files, each with its rows."""
        return iter(())

    def shows(self, measurements: Sequence[Measurement]) -> Iterator[tuple[str, Weighed]]:
        """Yield captions and sentences whose weights the terminal shows under the table."""
        return iter(())

    def listings(self, measurements: Sequence[Measurement]) -> Iterator[Listing]:
        """Yield what can be read sentence by sentence, on a page of its own."""
        return iter(())

    def figures(self, measurements: Sequence[Measurement]) -> Iterator[tuple[str, Figure]]:
        """Yield names and figures, besides the figure that every metric has."""
        return iter(())


class SumMetric(Metric):
    """A metric whose results are functions of weighted sums over the units."""

    @abstractmethod
    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return the results (R,) from the sums (R,) of each of the units' columns."""

    def score(self, units: Units, weights_RU: np.ndarray) -> Mapping[str, np.ndarray]:
        """Sum each column of the units, weighted, and call `of_sums`."""
        # All samples and columns at once: (R, U) by (U, C) gives (R, C).
        sums_RC = weights_RU @ np.stack([*units.columns.values()], axis=1, dtype=np.float64)
        return self.of_sums(dict(zip(units.columns, sums_RC.T, strict=True)))


def ratio(numerator_R: np.ndarray, denominator_R: np.ndarray) -> np.ndarray:
    """Return a quotient of sums, NaN where the denominator is 0."""
    # Broadcast: either may be a single number.
    empty = np.full(np.broadcast(numerator_R, denominator_R).shape, np.nan)
    return np.divide(numerator_R, denominator_R, out=empty, where=denominator_R != 0)
