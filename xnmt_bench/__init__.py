"""Benchmark of explanation methods for neural machine translation.

model = xnmt_bench.load("tatoeba_de_en")
explainer = xnmt_bench.load_explainer("prediction_difference")
[explanation] = explainer(model, ["Der Hund schläft."])
print(explanation)

table = xnmt_bench.benchmark(model, [("Der Hund schläft.", "The dog is sleeping.")])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from xnmt_bench.device import Device
    from xnmt_bench.explainers.base import Explainer
    from xnmt_bench.explanation import Comparison, Explanation
    from xnmt_bench.frames import Results
    from xnmt_bench.nmt.base import NMTModel

__all__ = [
    "benchmark",
    "compare",
    "load",
    "load_explainer",
    "load_explanations",
    "load_model",
    "results",
]

# What a function needs is imported when it is called, so that importing the package costs nothing.


def load(path: str | Path, device: Device = "cpu", **options: Any) -> NMTModel:
    """Open a translation model, ready to be explained; a line on stderr says what was found.

    Args:
        path: the name of a shipped system (`tatoeba_de_en`), a folder that `train.py` or
            `save_pretrained` wrote, a fairseq checkpoint, or a model's name on Hugging Face's hub.
        device: `cpu`, `cuda`, `cuda:1`, `mps`, or `auto` for a GPU where there is one.
        options: of the reader: `source_language` and `target_language` of a model that reads many
            languages, `prefix` of T5, `data` and codes of fairseq.

    Raises:
        XnmtError: no model is there, it is of no family that can be read, or an option is missing.
    """
    from xnmt_bench.nmt.opening import load

    return load(path, device, **options)


load_model = load


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


def load_explanations(path: str | Path) -> list[Explanation]:
    """Return the explanations of a file that inseq, or `Explanation.save`, wrote.

    Args:
        path: the file; raw scores are aggregated as inseq does by default.

    Raises:
        DataError: the file, or a sentence of it, cannot be read.
    """
    from xnmt_bench.explanation import load_explanations

    return load_explanations(path)


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
    corpus: Sequence[tuple[str, str]] | Mapping[str, Sequence[tuple[str, str]]],
    explainers: Sequence[str] | Mapping[str, Mapping[str, Any]] | None = None,
    judges: Sequence[str] | Mapping[str, Mapping[str, Any]] = ("base",),
    **options: Any,
) -> pa.Table:
    """Measure the fidelity of explainers of a model (Li et al. 2020) on sentence pairs.

    Args:
        model: an open model, or what `load` opens.
        corpus: (source, target) pairs to be tested on; or `{"test": pairs, "train": pairs}`, where
            a judge or an explainer learns from training pairs.
        explainers: their names, or their names with their options; four of them if not given.
        judges: the same of judges: `base`, `own`, `evalx`, `base_tuned`, `kl`,
            `base_swapped`, `evalx_states`.
        options: `k`, `seed`, `store` (a folder that keeps results), and `changes` to the rest of
            the configuration; see `xnmt_bench.notebook.benchmark`.

    Returns:
        A row for each explainer and judge, with the columns of `fidelity.csv`.

    Raises:
        XnmtError: a name or an option is wrong, there is nothing to learn from, or a row failed.
    """
    from xnmt_bench.notebook import DEFAULT_EXPLAINERS, benchmark

    return benchmark(model, corpus, explainers or DEFAULT_EXPLAINERS, judges, **options)
