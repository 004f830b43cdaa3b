"""Benchmark of explanation methods for neural machine translation.

model = xnmt_bench.load("tatoeba_de_en")
explainer = xnmt_bench.load_explainer("prediction_difference")
[explanation] = explainer(model, ["Der Hund schläft."])
print(explanation)

xnmt_bench.translate(model, ["Der Hund schläft."])
xnmt_bench.benchmark(model, [("Der Hund schläft.", "The dog is sleeping.")]).show()
"""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from xnmt_bench.corpora.passage import Passage
    from xnmt_bench.device import Device
    from xnmt_bench.explainers.base import Explainer
    from xnmt_bench.explanation import Comparison, Explanation, Explanations
    from xnmt_bench.frames import Results
    from xnmt_bench.nmt.base import NMTModel
    from xnmt_bench.notebook import BenchmarkTable

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "benchmark",
    "compare",
    "from_inseq",
    "load",
    "load_explainer",
    "load_explanations",
    "load_model",
    "results",
    "translate",
]

# What a function needs is imported when it is called, so that importing the package costs nothing.


def __dir__() -> list[str]:
    """Return what completion offers: what the package is used by, without its imports."""
    return [*__all__, "__doc__"]


def load(path: str | Path, device: Device = "auto", **options: Any) -> NMTModel:
    """Open a translation model, ready to be explained; a line on stderr says what was found.

    Args:
        path: the name of a shipped system (`tatoeba_de_en`), a folder that `train.py` or
            `save_pretrained` wrote, a fairseq checkpoint, or a model's name on Hugging Face's hub.
        device: `cpu`, `cuda`, `cuda:1`, `mps`, or `auto` for a GPU where there is one, as on the
            command line.
        options: of the reader: `source_language` and `target_language` of a model that reads many
            languages, `prefix` of T5, `template` and `examples` of a language model, `data` and
            codes of fairseq.

    Raises:
        XnmtError: no model is there, it is of no family that can be read, or an option is missing.
    """
    from xnmt_bench.nmt.opening import load

    return load(path, device, **options)


load_model = load


def translate(model: NMTModel, sources: Iterable[str | Passage], beam: int = 4) -> list[str]:
    """Translate sentences in batches; a bar shows from two seconds on.

    Args:
        model: an open model, from `load`.
        sources: the sentences; passages, of a system that reads the sentences around each.
        beam: hypotheses that are kept; 1 is greedy.

    Returns:
        Their translations, in their order.

    Raises:
        XnmtError: the model is not open, or a sentence is not a text or is longer than the model
            reads.
    """
    from xnmt_bench.nmt.passages import read_passages, require_model, translate_passages

    passages = translate_passages(require_model(model), read_passages(sources), beam)
    return [passage.target for passage in passages]


def load_explainer(name: str, **options: Any) -> Explainer:
    """Return an explainer by its name on the command line, plug-ins included.

    Call it with a model and sentences: `explainer(model, ["a source", ("a source", "a target")])`.

    Args:
        name: such as `attention`, `gradient_norm` or `prediction_difference`.
        options: the explainer's own.

    Raises:
        XnmtError: the explainer is unknown, or refuses an option.
    """
    from xnmt_bench.registry import load_explainer

    explainer: Explainer = load_explainer(name, **options)
    return explainer


def compare(explanations: Iterable[Explanation] | Mapping[str, Explanation]) -> Comparison:
    """Return explanations beside each other, which a notebook shows.

    Args:
        explanations: such as each explainer's of one sentence; a mapping gives their titles.

    Raises:
        XnmtError: there are none.
    """
    from xnmt_bench.explanation import compare

    return compare(explanations)


def load_explanations(path: str | Path) -> Explanations:
    """Return the explanations of a file that inseq, or `Explanation.save`, wrote.

    Args:
        path: the file; raw scores are aggregated as inseq does by default.

    Raises:
        DataError: the file, or a sentence of it, cannot be read.
    """
    from xnmt_bench.explanation import load_explanations

    return load_explanations(path)


def from_inseq(attributions: Any) -> Explanations:
    """Return the explanations in an object of inseq's, as `load_explanations` does of its file.

    Args:
        attributions: what `model.attribute(...)` of inseq returned, or a list of its sentences.

    Raises:
        XnmtError: it is something else, or a sentence of it cannot be read.
    """
    from xnmt_bench.explanation import from_inseq

    return from_inseq(attributions)


def results(
    folder: str | Path | Sequence[str | Path] = "results", samples: int = 1000, seed: int = 0
) -> Results:
    """Open what was measured, for pandas: `.table(metric)`, `.units(metric)`, `.analysis(name)`.

    Args:
        folder: what `train.py` calls `results`; or bundles, `["a.zip", "b.zip"]`, which are checked
            and pooled.
        samples: how often intervals are bootstrapped.
        seed: of their draws.

    Raises:
        XnmtError: nothing was measured there, or pandas is not installed.
    """
    from xnmt_bench.frames import Results

    return Results(folder, samples, seed)


def benchmark(
    model: NMTModel | str | Path,
    corpus: Iterable[tuple[str, str]] | Mapping[str, Iterable[tuple[str, str]]],
    explainers: Iterable[str | Explainer | type[Explainer]]
    | Mapping[str, Mapping[str, Any]]
    | None = None,
    judges: Iterable[str] | Mapping[str, Mapping[str, Any]] = ("base",),
    **options: Any,
) -> BenchmarkTable:
    """Measure the fidelity of explainers of a model (Li et al. 2020) on sentence pairs.

    Args:
        model: an open model, or what `load` opens.
        corpus: (source, target) pairs to be tested on; or `{"test": pairs, "train": pairs}`, where
            a judge or an explainer learns from training pairs.
        explainers: names, explainers or classes of explainers, or names with their options; four of
            them if not given.
        judges: names, or names with their options: `base`, `own`, `evalx`, `base_tuned`, `kl`,
            `base_swapped`, `evalx_states`.
        options: `k`, `prefix`, `seed`, `store` (a folder that keeps results), and `changes` to
            the rest of the configuration; see `xnmt_bench.notebook.benchmark`.

    Returns:
        The table, which prints and shows itself with its verdict; `to_frame()` gives its rows.

    Raises:
        XnmtError: a name or an option is wrong, there is nothing to learn from, or a row failed.
    """
    from xnmt_bench.notebook import DEFAULT_EXPLAINERS, benchmark

    chosen = DEFAULT_EXPLAINERS if explainers is None else explainers
    return benchmark(model, corpus, chosen, judges, **options)
