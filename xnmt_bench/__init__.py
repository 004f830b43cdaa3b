"""Benchmark of explanation methods for neural machine translation.

model = xnmt_bench.load_model("outputs/store/nmt/...")
explainer = xnmt_bench.load_explainer("prediction_difference")
[explanation] = explainer(model, [("the dog sleeps .", "der Hund schläft .")])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xnmt_bench.nmt.loading import load_model
    from xnmt_bench.registry import load_explainer

__all__ = ["load_explainer", "load_model"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that importing the package costs nothing."""
    if name == "load_model":  # imports torch
        from xnmt_bench.nmt.loading import load_model

        return load_model
    if name == "load_explainer":
        from xnmt_bench.registry import load_explainer

        return load_explainer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
