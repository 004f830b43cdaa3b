"""The benchmark in one process and without a command line: for notebooks and optimisers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
from omegaconf import DictConfig, OmegaConf

from xnmt_bench.commands import CONF
from xnmt_bench.composition import load_choice
from xnmt_bench.corpora.sentence import SPLITS
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import ConfigError, XnmtError, import_extra
from xnmt_bench.explainers.base import Explainer
from xnmt_bench.explanation.drawing import show
from xnmt_bench.judges.unigram import Unigram
from xnmt_bench.measuring.bootstrap import sign
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import TableRow
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.opening import load
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.settings import read_settings
from xnmt_bench.progress import bar, in_notebook
from xnmt_bench.registry import KINDS, entries, explainer_of, options, plain, unknown
from xnmt_bench.registry import load as load_class
from xnmt_bench.report.report import collect
from xnmt_bench.report.standing import standings_of
from xnmt_bench.report.summary import Summary, to_html, to_text
from xnmt_bench.report.summary import show as print_summary
from xnmt_bench.report.table import csv_columns, tables
from xnmt_bench.report.tracking import Tracker
from xnmt_bench.report.verdict import verdict
from xnmt_bench.rules.prefix import CHOSEN, PrefixWords
from xnmt_bench.run import draws, measure
from xnmt_bench.schema import check
from xnmt_bench.store import Store, fingerprint, write_atomically

if TYPE_CHECKING:
    import pandas as pd

Pair = tuple[str, str]
DEFAULT_EXPLAINERS = ("attention", "gradient_norm", "prediction_difference", "random")
Named = Mapping[str, Mapping[str, Any]]  # options by name
UNKNOWN = ("source", "target")  # languages of a model that does not name them


def benchmark(
    model: NMTModel | str | Path,
    corpus: Iterable[Pair] | Mapping[str, Iterable[Pair]],
    explainers: Named | Iterable[str | Explainer | type[Explainer]] = DEFAULT_EXPLAINERS,
    judges: Named | Iterable[str] = ("base",),
    k: int = 1,
    prefix: PrefixWords = CHOSEN,
    seed: int = 0,
    store: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
) -> BenchmarkTable:
    """Measure the fidelity of explainers of a model (Li et al. 2020) on sentence pairs.

    Args:
        model: an open model, or what `load` opens.
        corpus: (source, target) pairs to be tested on; or `{"test": pairs, "train": pairs}`, where
            a judge or an explainer learns from training pairs.
        explainers: names, explainers, classes of explainers, or names with their options.
        judges: the same of judges.
        k: words a side in a rule.
        prefix: the target-prefix words of a rule: `chosen` by the explainer; `none`; or
            `previous`, the word before, in every row.
        seed: of explainers that draw, and of judges that are trained.
        store: a folder in which results are kept and found again; a temporary one if not given.
        changes: further options by their names in the configuration, such as
            `{"proxy.training.max_epochs": 5}`.

    Returns:
        A row for each explainer and judge, and the verdict on the explainers.

    Raises:
        ConfigError: an option is wrong; each fault is a line.
        XnmtError: a name is unknown, there is nothing to learn from, or a row failed.
    """
    splits = _read_splits(corpus)
    # Opened once and before anything is written: a wrong path fails here, and all explainers share
    # the weights.
    opened = model if isinstance(model, NMTModel) else load(model)
    metric, errors, measured = Fidelity(), list[Exception](), _Signatures()
    with ExitStack() as stack:
        # On the same stack as the work: a temporary folder lives until the last row is read.
        folder = Path(store or stack.enter_context(tempfile.TemporaryDirectory()))
        options = {"k": k, "prefix": prefix, "seed": seed, **(changes or {})}
        config = _configure(opened, splits, folder, options)
        config.judge = dict(_nodes("judges", judges))
        for judge in config.judge if "train" not in splits else ():
            if load_class("judges", judge).learns_from != "nothing":
                _refuse_learner(judge)
        # One store, so that labels and shared judges are made once for all explainers.
        artefacts = Store(folder / "store")
        jobs = []
        for name, phi in _nodes("explainers", explainers, seed):
            config.explainer = {"name": name, "phi": phi}
            check(config)
            job = Job(read_settings(config), store=artefacts)
            job.system.use(opened)
            if "train" not in splits and job.explained.explainer.learns:
                _refuse_learner(name)
            jobs.append(job)
        if not jobs:
            raise XnmtError("explainers: the list is empty; give one, such as 'attention'")
        # All are checked before the first, which may take hours.
        with bar(len(jobs), "benchmark", "explainers") as progress:
            for job in jobs:
                errors += measure(metric, job, measured)
                progress.update()
        # After all explainers: in a store that is kept, the work of the others is then done.
        if errors:
            raise errors[0]

        bootstrap = draws(jobs[-1].settings)

        def is_wanted(m: Measurement) -> bool:
            # The store may hold rows of other calls; and without training pairs, none are counted.
            counted = "train" in splits or m.identity["instantiation"] != Unigram.name
            return counted and sign(metric, m, bootstrap) in measured.signatures

        scored = collect(metric, Path(config.results), bootstrap, is_wanted)
        standings = standings_of(metric, scored, bootstrap)
        return BenchmarkTable(
            _as_arrow([row.row for row in scored], csv_columns(metric)),
            [summary for _, summary in tables(metric, scored, (), standings)],
            list(verdict(metric, scored, standings)),
        )


@dataclass(frozen=True, repr=False)
class BenchmarkTable:
    """What a benchmark measured.

    Attributes:
        arrow: a row for each explainer and judge, with the columns of `fidelity.csv`: `explainer`,
            `instantiation` (the judge), `ppl`, `ppl_low`, `ppl_high` and the rest.
        summaries: the tables for readers.
        verdict: the result of the test of each explainer, a sentence a judge.
    """

    arrow: pa.Table
    summaries: Sequence[Summary]
    verdict: Sequence[str]

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a pandas frame.

        Raises:
            XnmtError: pandas is not installed.
        """
        import_extra("pandas", "frames")
        frame: pd.DataFrame = self.arrow.to_pandas()
        return frame

    def __repr__(self) -> str:
        """Return the tables as text, and the verdict under them."""
        return "\n".join([*map(to_text, self.summaries), *self.verdict])

    def _repr_html_(self) -> str:
        """Return the tables as HTML, and the verdict under them."""
        return "".join(
            [*map(to_html, self.summaries), *(f"<p>{escape(text)}</p>" for text in self.verdict)]
        )

    def show(self) -> None:
        """Show tables and verdict in a notebook; elsewhere print them, as wide as the terminal."""
        if in_notebook():
            show(self)
            return
        for summary in self.summaries:
            print_summary(summary)
        print(*self.verdict, sep="\n")


def _read_splits(corpus: Iterable[Pair] | Mapping[str, Iterable[Pair]]) -> dict[str, list[Pair]]:
    """Return the pairs of each split.

    Raises:
        XnmtError: the test split is missing, a split is empty or has another name, or a pair does
            not hold two texts.
    """
    named = corpus if isinstance(corpus, Mapping) else {"test": corpus}
    splits = {split: list(pairs) for split, pairs in named.items()}
    if not splits.get("test") or not splits.keys() <= set(SPLITS):
        raise XnmtError("corpus: needs pairs as 'test', and may have 'train' and 'valid'")
    for split, pairs in splits.items():
        if not pairs:
            raise XnmtError(f"corpus: {split!r} has no pairs")
        for number, pair in enumerate(pairs, start=1):
            if not isinstance(pair, tuple | list) or list(map(type, pair)) != [str, str]:
                problem = f"{split!r}, pair {number} is {pair!r}, not a (source, target) pair"
                raise XnmtError(f"corpus: {problem} of texts")
    return splits


class _Signatures(Tracker):
    """Keeps the signatures of the rows that were measured."""

    def __init__(self) -> None:
        self.signatures: set[str] = set()

    def table(self, name: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Keep the signatures of some rows."""
        self.signatures |= {row["signature"] for row in rows}


def _configure(
    model: NMTModel,
    splits: Mapping[str, Sequence[Pair]],
    folder: Path,
    changes: Mapping[str, Any],
) -> DictConfig:
    """Return the configuration of a job on pairs, which are written as text."""
    # A file for each side, named by its language.
    languages = model.languages or UNKNOWN
    if len({*languages}) < 2:
        languages = UNKNOWN
    texts = {}
    for split in SPLITS:
        # A corpus has three splits; without training pairs nothing reads the other two.
        pairs = splits.get(split) or splits["test"]
        for side, language in enumerate(languages):
            # A line end inside a sentence would make two of it.
            lines = [" ".join(split_words(pair[side])) for pair in pairs]
            texts[f"{split}.{language}"] = "\n".join(lines) + "\n"
    # A folder of its own: calls at the same time may share a store.
    root = folder / "text" / fingerprint(texts)
    root.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_atomically(root / name, text)
    config: Any = OmegaConf.load(CONF / "config.yaml")
    # Hydra keeps one global state, which a notebook or an optimiser may use itself.
    del config["defaults"], config["hydra"]
    for group, choice in {"corpus": "text", "nmt": "tatoeba_de_en", "proxy": "sa"}.items():
        config[group] = load_choice(group, choice)
    config.trainer = load_choice("trainer", "default")
    config.logger = load_choice("logger", "csv")
    config.metric, config.judge, config.analysis = {}, {}, {}
    config.explainer = {"name": "attention", "phi": {}}
    config.corpus.root = str(root)
    config.corpus.source_language, config.corpus.target_language = languages
    # The fingerprint stands in the place of a path: the model is already open, and recipes have
    # to name it.
    config.nmt.name, config.nmt.path = type(model).__name__, model.fingerprint
    config.store, config.results = str(folder / "store"), str(folder / "results")
    # Where the model already is: a benchmark must not move the caller's weights.
    config.device = str(next(model.parameters()).device)
    config.trainer.progress_bar = False
    if "train" not in splits:
        # The test pairs are written in its place, and would be found there.
        config.doubts.shared_pairs = None
    for name, value in changes.items():
        if OmegaConf.select(config, name, default=KINDS) is KINDS:  # a value that no option has
            raise ConfigError([f"{name}: no such option"])
        OmegaConf.update(config, name, plain(value))
    composed: DictConfig = config
    return composed


def _nodes(kind: str, chosen: Any, seed: int = 0) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the configuration node of each thing that is chosen.

    Args:
        kind: of the registry.
        chosen: names, objects or classes; or options by name.
        seed: of those that draw and have no seed of their own.

    Raises:
        XnmtError: a name or an option is unknown, or something else was given.
    """
    if isinstance(chosen, str | type | Explainer):
        raise XnmtError(f"{chosen!r}: should be in a list: [{chosen!r}]")
    with_options = (
        chosen.items() if isinstance(chosen, Mapping) else ((each, {}) for each in chosen)
    )
    for each, settings in with_options:
        if isinstance(each, str):
            name = explainer_of(each) if kind == "explainers" else each
            node = _node(kind, name, settings)
            if kind == "explainers" and "seed" in node and "seed" not in settings:
                node["seed"] = plain(seed)
            yield name, node
        elif kind == "explainers":
            name, node = _of_object(each)
            if isinstance(each, type) and "seed" in node:
                node["seed"] = plain(seed)
            yield name, node
        else:
            raise XnmtError(f"{each!r}: should be the name of a judge")


def _of_object(explainer: Any) -> tuple[str, dict[str, Any]]:
    """Return the name and the configuration node of an explainer, or of a class of explainers."""
    if isinstance(explainer, type) and issubclass(explainer, Explainer):
        explainer = explainer()
    if not isinstance(explainer, Explainer):
        raise XnmtError(f"{explainer!r}: should be an explainer, its class or its name")
    cls = type(explainer)
    if "<locals>" in cls.__qualname__:
        raise XnmtError(f"{cls.__name__}: define the class outside of functions")
    value = f"{cls.__module__}:{cls.__qualname__}"
    declared = {point.value: name for name, point in entries("explainers").items()}
    target = value.replace(":", ".")
    return declared.get(value, explainer.name), {"_target_": target, **explainer.options}


def _node(kind: str, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration node of an entry with some of its options."""
    declared = options(load_class(kind, name), KINDS[kind].hidden)
    for option in settings:
        if option not in declared:
            raise XnmtError(unknown(f"option of {name}", option, declared))
    changed = {option: plain(value) for option, value in settings.items()}
    return {"_target_": entries(kind)[name].value.replace(":", "."), **declared, **changed}


def _refuse_learner(name: str) -> NoReturn:
    """Refuse a judge or an explainer that learns, where there is nothing to learn from."""
    raise XnmtError(f'{name} learns from training pairs: give {{"test": ..., "train": ...}}')


def _as_arrow(rows: Sequence[TableRow], columns: Sequence[str]) -> pa.Table:
    return pa.table({name: _column([row.get(name) for row in rows]) for name in columns})


def _column(values: list[Any]) -> pa.Array:
    """Return a column; an empty text stands for no value among numbers."""
    # Booleans are ints to Python, and would turn into 0.0 and 1.0.
    numbers = any(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    if not numbers:
        return pa.array([None if v is None else str(v) for v in values])
    return pa.array([None if v in ("", None) else float(v) for v in values])
