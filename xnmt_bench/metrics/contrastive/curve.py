"""What training looked at, epoch by epoch (Voita et al. 2019, Figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {
    "bleu": "BLEU, validation",
    "chrf": "chrF, validation",
    "contrastive": "accuracy %, contrastive",
}


def curve_figure(system: str, curve: Sequence[dict[str, float]]) -> Figure:
    """Return BLEU, or chrF, and accuracy over the steps of a training, an axes each.

    Args:
        system: its name.
        curve: of each epoch its last `step`, and what was looked at.
    """
    import matplotlib.pyplot as plt  # slow, and seldom drawn

    from xnmt_bench.report.figure import lay_out, style, wrapped

    names = [name for name in LABELS if name in curve[0]]
    figure, axes = plt.subplots(
        len(names), 1, figsize=(6, 2.2 * len(names)), sharex=True, squeeze=False
    )
    steps = [epoch["step"] for epoch in curve]
    for ax, name in zip(axes[:, 0], names, strict=True):
        ax.plot(steps, [epoch[name] for epoch in curve], **style(names, name), markersize=4)
        ax.set_ylabel(LABELS[name], fontsize=9)
        ax.grid(linewidth=0.3, alpha=0.6)
    axes[0, 0].set_title(wrapped(system, 5), fontsize=10)
    axes[-1, 0].set_xlabel("updates")
    lay_out(figure)
    return figure
