"""Heatmaps of one sentence, in the terminal and as a figure."""

import io
from dataclasses import replace

import matplotlib.pyplot as plt
import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

from support.explanations import make_explanation
from xnmt_bench.explanation import Explanation
from xnmt_bench.explanation.figure import FOLD, heatmap_figures, scaled
from xnmt_bench.report.figure import save_figure, save_parts
from xnmt_bench.report.heatmap import SHADES, legend, terminal_heatmaps


@pytest.mark.parametrize("width", [30, 80, 200])
def test_terminal_blocks_fit(width):
    """Every step's column whole, in as many tables as it takes."""
    buffer = io.StringIO()
    console = Console(file=buffer, width=width, color_system=None)
    explained = make_explanation(9, 32)
    blocks = list(terminal_heatmaps("attention_rollout", explained, width))
    for block in blocks:
        console.print(block)
    printed = buffer.getvalue()
    assert all(len(line) <= width for line in printed.splitlines())
    assert "…" not in printed
    titles = [line for line in printed.splitlines() if "attention" in line]
    assert len(titles) == len(blocks)  # also over a last block that is narrower than its title
    assert all("step" in title for title in titles[1:])
    assert [f"{p:.2f}" for p in explained.probabilities.tolist()] == [
        x for line in printed.splitlines() if line.startswith("P") for x in line.split()[1:]
    ]
    assert "␣" in printed  # a blank that is a piece of its own


def test_the_greatest_of_a_step_is_the_darkest():
    buffer = io.StringIO()
    [block] = terminal_heatmaps("random", make_explanation(4, 2, prefix=False), 80)
    Console(file=buffer, width=80, color_system=None).print(block)
    row = next(x for x in buffer.getvalue().splitlines() if x.startswith("source3"))
    assert row.split()[-1] == SHADES[-1] * 5  # 3 of 0 to 3, the step's greatest


def test_what_hurts_has_a_sign_that_no_colour_is_needed_for():
    buffer = io.StringIO()
    console = Console(file=buffer, width=80, color_system=None)
    signed = make_explanation(4, 2, prefix=False)  # -4 to -1, and 0 to 3
    for block in terminal_heatmaps("weighted_gradient", signed, 80):
        console.print(block)
    rows = {row.split()[0]: row.split()[1:] for row in buffer.getvalue().splitlines()[3:]}
    assert rows["␣"] == ["−████"]  # 0 in the other step, which is blank
    assert rows["source3"] == ["−░░░░", "█████"]
    assert "red and −: it hurts" in legend([signed]).plain
    attention = replace(signed, source_TS=signed.source_TS.abs())
    assert "hurts" not in legend([attention]).plain


@pytest.mark.parametrize("width", [30, 80, 200])
def test_no_word_of_a_terminal_heatmap_is_cut(width):
    """One that is longer than the terminal goes on in the next line."""
    words = ["Donaudampfschifffahrtsgesellschaft", "ja", "Schifffahrt", "猫" * 30]
    label = replace(make_explanation(4, 4, prefix=False), source_tokens=words[::-1], labels=words)
    buffer = io.StringIO()
    for block in terminal_heatmaps("attention", label, width):
        Console(file=buffer, width=width, color_system=None).print(block)
    printed = buffer.getvalue()
    assert max(map(cell_len, printed.splitlines())) <= width
    letters = {character: "".join(words).count(character) for character in "Dj猫"}
    blocks = printed.count("attention")
    # Each label stands once, each word once in every block.
    assert all(printed.count(c) == n * (1 + blocks) for c, n in letters.items())


@pytest.mark.parametrize(("words", "steps", "panels"), [(3, 1, 1), (5, 4, 2), (110, 61, 6)])
def test_long_sentences_fold(words, steps, panels):
    """110 words in 2 parts and 60 prefix words in 1, for each of two parts of the steps."""
    assert FOLD == 60
    explained = make_explanation(words, steps)
    [figure] = heatmap_figures([explained.panel("attention")])
    drawn = [ax for ax in figure.axes if ax.images]
    assert len(drawn) == panels
    names = [text.get_text() for ax in drawn for text in ax.texts]
    assert set(explained.readable(explained.source_tokens)) <= set(names)
    for ax in drawn:
        box = ax.get_position()
        assert 0 <= box.x0 < box.x1 <= 1
        assert 0 <= box.y0 < box.y1 <= 1
    first = drawn[0].images[0].get_array()
    assert first.shape == (min(steps, FOLD), min(words, FOLD))
    expected = scaled(explained.source_TS.double())[:FOLD, :FOLD]
    assert torch.equal(torch.as_tensor(first), expected)
    plt.close(figure)


def test_labels_stay_apart_and_inside_the_figure():
    [figure] = heatmap_figures([make_explanation(30, 20).panel("attention")])
    renderer = figure.canvas.get_renderer()
    for ax in (ax for ax in figure.axes if ax.images):
        cells = ax.get_window_extent(renderer)
        for text in ax.texts:
            box = text.get_window_extent(renderer)
            assert not box.overlaps(cells)
            assert min(box.x0, box.y0) >= 0
    plt.close(figure)


def test_dollars_are_no_formula(tmp_path):
    explained = make_explanation(3, 2)
    explained.source_tokens[:] = explained.labels[0], r"$\frac{$", "$5$"
    for path in save_parts(heatmap_figures([explained.panel(r"a$\b$")]), tmp_path / "explanation"):
        assert path.stat().st_size > 1000


def little(prefix=True):
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


def test_steps_are_scaled_to_their_greatest():
    shares = scaled(little().source_TS)
    assert shares.tolist() == [[1.0, 0.5, 0.0], [0.0, -1.0, 0.5], [0.0, 0.0, 0.0]]
    assert scaled(little().prefix_TT).isnan().sum() == 6


def test_the_terminal_shows_words_labels_and_shades():
    buffer = io.StringIO()
    [block] = terminal_heatmaps("gradient_norm", little(), 100)
    Console(file=buffer, width=100).print(block)
    lines = buffer.getvalue().splitlines()
    assert "gradient norm" in lines[0]
    [dog] = [line for line in lines if line.strip().startswith("dog")]
    assert "▒▒▒▒▒" in dog and "−████" in dog
    assert "0.90" in buffer.getvalue()
    assert "×" in next(line for line in lines if line.strip().startswith("Hund") and "×" in line)


def test_heatmaps_without_prefix_words(tmp_path):
    both = [little(prefix=False).panel("attention"), little().panel("gradient_norm")]
    [figure] = heatmap_figures(both)
    assert len(figure.axes) == 4  # three panels and the scale
    for path in save_figure(figure, tmp_path / "explanation"):
        assert path.stat().st_size > 1000
