"""Figures and heatmaps: they are written, and they show what they are given."""

import io

import torch
from rich.console import Console

from xnmt_bench.explainers.base import Explanation
from xnmt_bench.report.fidelity import COLUMNS
from xnmt_bench.report.figure import fidelity_figure, save_figure
from xnmt_bench.report.heatmap import heatmap_figure, save_heatmap, scaled, terminal_heatmap


def row(explainer, instantiation, ppl):
    known = {"corpus": "toy", "lang_pair": "en-de", "nmt": "transformer", "k": 1, "model": "m"}
    numbers = {"ppl": ppl, "ppl_low": ppl * 0.9, "ppl_high": ppl * 1.1}
    names = {"explainer": explainer, "instantiation": instantiation}
    return {**dict.fromkeys(COLUMNS, ""), **known, **numbers, **names}


def explanation(prefix=True):
    nan = float("nan")
    return Explanation(
        source_tokens=["▁the", "▁dog", "</s>"],
        target_tokens=["▁der", "▁Hund", "</s>"],
        labels=["▁der", "▁Hund", "</s>"],
        probabilities=torch.tensor([0.9, 0.8, 0.7]),
        source_TS=torch.tensor([[0.5, 0.25, 0.0], [0.0, -0.8, 0.4], [0.0, 0.0, 0.0]]),
        prefix_TT=torch.tensor([[nan, nan, nan], [0.1, nan, nan], [0.1, 0.2, nan]])
        if prefix
        else None,
    )


def test_the_figure_shows_every_number(tmp_path):
    rows = [row(e, i, p) for e, p in (("attention", 8.0), ("random", 30.0)) for i in ("base", "sa")]
    rows.append(row("", "unigram", 99.0))
    figure = fidelity_figure(rows)
    [ax] = figure.axes
    assert ax.get_xscale() == "log"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["random", "attention"]
    assert len(ax.containers) == 4
    assert "generated" in ax.get_title()
    svg, png = save_figure(figure, tmp_path / "deep" / "fidelity")
    assert svg.read_text().startswith("<?xml")
    assert png.read_bytes().startswith(b"\x89PNG")


def test_steps_are_scaled_to_their_greatest():
    found = scaled(explanation().source_TS)
    assert found.tolist() == [[1.0, 0.5, 0.0], [0.0, -1.0, 0.5], [0.0, 0.0, 0.0]]
    assert scaled(explanation().prefix_TT).isnan().sum() == 6


def test_the_terminal_shows_words_labels_and_shades():
    buffer = io.StringIO()
    Console(file=buffer, width=100).print(terminal_heatmap("gradient_norm", explanation()))
    lines = buffer.getvalue().splitlines()
    assert "gradient norm" in lines[0]
    [dog] = [line for line in lines if line.strip().startswith("▁dog")]
    assert "▒▒▒▒▒" in dog and "█████" in dog
    assert "0.90" in buffer.getvalue()
    assert "·" in next(line for line in lines if line.strip().startswith("▁Hund") and "·" in line)


def test_heatmaps_without_prefix_words(tmp_path):
    both = {"attention": explanation(prefix=False), "gradient_norm": explanation()}
    assert len(heatmap_figure(both).axes) == 5  # four panels and the scale
    for path in save_heatmap(both, tmp_path / "explanation"):
        assert path.stat().st_size > 1000
