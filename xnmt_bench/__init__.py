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
from importlib import import_module

if typing.TYPE_CHECKING:
    from xnmt_bench.explanation import compare, from_inseq, load_explanations
    from xnmt_bench.frames import Results as results
    from xnmt_bench.nmt.opening import load
    from xnmt_bench.nmt.opening import load as load_model
    from xnmt_bench.nmt.passages import translate
    from xnmt_bench.notebook import benchmark
    from xnmt_bench.registry import load_explainer

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

PLACES = {
    "benchmark": "notebook.benchmark",
    "compare": "explanation.compare",
    "from_inseq": "explanation.from_inseq",
    "load": "nmt.opening.load",
    "load_explainer": "registry.load_explainer",
    "load_explanations": "explanation.load_explanations",
    "load_model": "nmt.opening.load",
    "results": "frames.Results",
    "translate": "nmt.passages.translate",
}


def __dir__() -> list[str]:
    """Return what completion offers: what the package is used by, without its imports."""
    return [*__all__, "__doc__"]


def __getattr__(name: str) -> typing.Any:
    """Import a name at its first use, so that importing the package costs nothing."""
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = PLACES[name].rpartition(".")
    value = getattr(import_module(f"{__name__}.{module}"), attribute)
    globals()[name] = value
    return value
