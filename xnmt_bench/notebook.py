"""The benchmark in one process and without a command line: for notebooks and optimisers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
from omegaconf import DictConfig, OmegaConf

from xnmt_bench.commands import CONF
from xnmt_bench.composition import load_choice
from xnmt_bench.corpora.sentence import SPLITS
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import ConfigError, XnmtError
from xnmt_bench.measuring.bootstrap import sign
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.opening import load
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.settings import read_settings
from xnmt_bench.registry import KINDS, entries, options, unknown
from xnmt_bench.registry import load as load_class
from xnmt_bench.report.report import collect
from xnmt_bench.report.table import csv_columns
from xnmt_bench.report.tracking import Tracker
from xnmt_bench.run import draws, measure
from xnmt_bench.schema import check
from xnmt_bench.store import Store, fingerprint, write_atomically

Pair = tuple[str, str]
DEFAULT_EXPLAINERS = ("attention", "gradient_norm", "prediction_difference", "random")
UNKNOWN = ("source", "target")  # languages of a model that does not name them


def benchmark(
    model: NMTModel | str | Path,
    corpus: Iterable[Pair] | Mapping[str, Iterable[Pair]],
    explainers: Sequence[str] | Mapping[str, Mapping[str, Any]] = DEFAULT_EXPLAINERS,
    judges: Sequence[str] | Mapping[str, Mapping[str, Any]] = ("base",),
    k: int = 1,
    seed: int = 0,
    store: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Measure the fidelity of explainers of a model (Li et al. 2020) on sentence pairs.

    Args:
        model: an open model, or what `load` opens.
        corpus: (source, target) pairs to be tested on; or `{"test": pairs, "train": pairs}`, where
            a judge or an explainer learns from training pairs.
        explainers: their names, or their names with their options.
        judges: the same of judges.
        k: words a side in a rule.
        seed: of explainers that draw, and of judges that are trained.
        store: a folder in which results are kept and found again; a temporary one if not given.
        changes: further options by their names in the configuration, such as
            `{"proxy.training.max_epochs": 5}`.

    Returns:
        A row for each explainer and judge, with the columns of `fidelity.csv`: `explainer`,
        `instantiation` (the judge), `ppl`, `ppl_low`, `ppl_high` and the rest.

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
        config = _configure(opened, splits, folder, k, seed, changes or {})
        config.judge = {n: _node("judges", n, o) for n, o in _with_options(judges).items()}
        for judge in config.judge if "train" not in splits else ():
            if load_class("judges", judge).learns_from != "nothing":
                _refuse_learner(judge)
        # One store, so that labels and shared judges are made once for all explainers.
        artefacts = Store(folder / "store")
        jobs = []
        for name, phi in _with_options(explainers).items():
            config.explainer = {"name": name, "phi": _node("explainers", name, phi)}
            if "seed" in config.explainer.phi and "seed" not in phi:
                config.explainer.phi.seed = seed
            check(config)
            job = Job(read_settings(config), store=artefacts)
            job.system.use(opened)
            if "train" not in splits and job.explained.explainer.learns:
                _refuse_learner(name)
            jobs.append(job)
        # All are checked before the first, which may take hours.
        for job in jobs:
            errors += measure(metric, job, measured)
        # After all explainers: in a store that is kept, the work of the others is then done.
        if errors:
            raise errors[0]

        bootstrap = draws(jobs[-1].settings)

        def is_wanted(m: Measurement) -> bool:
            # The store may hold rows of other calls.
            return sign(metric, m, bootstrap) in measured.signatures

        scored = collect(metric, Path(config.results), bootstrap, is_wanted)
        columns = csv_columns(metric)
        rows = [{name: row.row.get(name) for name in columns} for row in scored]
    return pa.table({name: _column([row[name] for row in rows]) for name in columns})


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
    k: int,
    seed: int,
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
    config.k, config.seed = k, seed
    config.store, config.results = str(folder / "store"), str(folder / "results")
    # Where the model already is: a benchmark must not move the caller's weights.
    config.device = str(next(model.parameters()).device)
    config.trainer.progress_bar = False
    for name, value in changes.items():
        if OmegaConf.select(config, name, default=KINDS) is KINDS:  # a value that no option has
            raise ConfigError([f"{name}: no such option"])
        OmegaConf.update(config, name, value)
    composed: DictConfig = config
    return composed


def _with_options(
    names: Sequence[str] | Mapping[str, Mapping[str, Any]],
) -> Mapping[str, Mapping[str, Any]]:
    if isinstance(names, str):
        raise XnmtError(f"{names!r}: should be a list of names")
    return names if isinstance(names, Mapping) else {name: {} for name in names}


def _node(kind: str, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration node of an entry with some of its options."""
    declared = options(load_class(kind, name), KINDS[kind].hidden)
    for option in settings:
        if option not in declared:
            raise XnmtError(unknown(f"option of {name}", option, declared))
    return {"_target_": entries(kind)[name].value.replace(":", "."), **declared, **settings}


def _refuse_learner(name: str) -> NoReturn:
    """Refuse a judge or an explainer that learns, where there is nothing to learn from."""
    raise XnmtError(f'{name} learns from training pairs: give {{"test": ..., "train": ...}}')


def _column(values: list[Any]) -> pa.Array:
    """Return a column; an empty text stands for no value among numbers."""
    # Booleans are ints to Python, and would turn into 0.0 and 1.0.
    numbers = any(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    if not numbers:
        return pa.array([None if v is None else str(v) for v in values])
    return pa.array([None if v in ("", None) else float(v) for v in values])
