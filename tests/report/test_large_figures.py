"""Figures whose size follows the data, of far more data than a picture holds."""

import struct
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from support.example_rows import FIDELITY, scored
from support.explanations import make_explanation
from xnmt_bench.analyses.matrix_figure import Matrix, draw_matrices
from xnmt_bench.explanation.figure import heatmap_figures
from xnmt_bench.metrics.consistency import moves
from xnmt_bench.metrics.fidelity import Fidelity, density, facets
from xnmt_bench.metrics.fidelity.trial import figure as trial
from xnmt_bench.report.figure import (
    LARGEST,
    LONGEST_NAME,
    interval_figure,
    save_figure,
    save_parts,
    shorten_all,
)
from xnmt_bench.report.panels import panels

MANY = 400


def row(explainer, ppl, **row_keys):
    numbers = {"ppl": ppl, "ppl_low": ppl * 0.9, "ppl_high": ppl * 1.1}
    names = {"explainer": explainer, "instantiation": "sa"}
    return scored(FIDELITY | names | row_keys, numbers)


def intervals(rows):
    return interval_figure(Fidelity(), panels(Fidelity(), rows))


def of_density(systems, explainers):
    bins = dict.fromkeys(density.BIN_COLUMNS, 2)
    keys = [dict.fromkeys(density.SYSTEM, "") | {"corpus": f"c{n}"} for n in range(systems)]
    rows = [key | bins | {"explainer": f"e{n}"} for key in keys for n in range(explainers)]
    return density._figure(rows, {density._system(key): key["corpus"] for key in keys})


def of_moves(systems, explainers):
    numbers = {"pronoun": moves.ALL, "blind": False, "low": 0, "high": 2, "change": 1}
    return moves._figure(
        [
            numbers | {"tuned": f"s{system:03}", "explainer": f"e{explainer}"}
            for system in range(systems)
            for explainer in range(explainers)
        ],
        [],
    )


def of_facets(blocks, explainers):
    numbers = {"facet": "place", "category": "1", "ppl": 2, "ppl_low": 1, "ppl_high": 3}
    rows = [numbers | {"explainer": f"e{n}"} for n in range(explainers)]
    return facets._figure(Fidelity(), [rows] * blocks, [f"b{n}" for n in range(blocks)])


def of_trial(texts):
    point = {"slot": trial.ALL, "heading": "SA", "by_pair": "seed 0 0.1 0.2"}
    return trial.draw([point | {"corpus": f"text {n}"} for n in range(texts)])


def of_matrices(systems, names):
    rankings = [f"ranking {n}" for n in range(names)]
    return draw_matrices([Matrix(f"s{n}", rankings, np.eye(names)) for n in range(systems)])


@pytest.mark.parametrize(
    ("draw", "expected"),
    [
        (lambda: intervals([row(f"e{n}", 2 + n) for n in range(3000)]), "of 3,000 rows"),
        (lambda: intervals([row("e", 2, corpus=f"c{n}") for n in range(MANY)]), "of 400 blocks"),
        (lambda: of_density(MANY, 1), "of 400 systems"),
        (lambda: of_density(1, MANY), "of 400 rows"),
        (lambda: of_moves(MANY, 1), "of 400 systems"),
        (lambda: of_moves(1, MANY), "of 400 explainers"),
        (lambda: of_facets(MANY, 1), "of 400 blocks"),
        (lambda: of_facets(1, MANY), "of 400 explainers"),
        (lambda: of_trial(MANY), "of 400 texts"),
        (lambda: of_matrices(MANY, 2), "of 400 systems"),
        (lambda: of_matrices(1, MANY), "of 400 rankings"),
    ],
)
def test_a_figure_of_too_much_says_how_much_it_shows(draw, expected):
    figure = draw()
    assert max(figure.get_size_inches()) <= LARGEST
    titles = [figure.get_suptitle(), *(ax.get_title() for ax in figure.axes)]
    assert any(expected in title.replace("\n", " ") for title in titles)
    plt.close(figure)


def test_the_best_rows_are_shown():
    [ax] = intervals([row(f"e{n}", 500 - n) for n in range(MANY)]).axes
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[::-1] == [f"e{MANY - 1 - n}" for n in range(len(labels))]


def test_a_figure_of_any_size_is_written(tmp_path, caplog):
    """That of a plug-in too: matplotlib draws no letters at the 2 dots an inch that it had."""
    figure = plt.figure(figsize=(4, 4000))
    figure.text(0.5, 0.5, "a word", fontsize=8)
    [_, png] = save_figure(figure, tmp_path / "long")
    width, height = struct.unpack(">II", png.read_bytes()[16:24])
    assert height <= 8000 and width / 4 == pytest.approx(height / LARGEST, abs=1)
    [line] = caplog.messages
    assert "4 by 4000 inches" in line and "long" in line


def test_long_names_keep_both_ends_and_no_two_look_alike():
    long = ["x" * 3000 + str(n) for n in range(3)] + ["a" + "y" * 3000 + "b", "y" * 3000]
    middle = ["z" * 100 + str(n) + "z" * 100 for n in range(2)]
    short = shorten_all([*long, *middle, "attention"])
    assert len(set(short.values())) == 8
    assert all(len(text) <= LONGEST_NAME + len(" #2") for text in short.values())
    assert [short[name][-1] for name in long] == ["0", "1", "2", "b", "y"]
    assert short[long[3]][0] == "a" and short["attention"] == "attention"


def test_long_names_stay_inside_the_figure():
    figure = intervals([row("x" * 3000 + str(n), 2 + n, corpus="c" * 400) for n in range(3)])
    figure.draw_without_rendering()
    [ax] = figure.axes
    box = ax.get_tightbbox()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.width
    assert ax.get_position().width > 0.4
    plt.close(figure)


def test_a_long_passage_is_drawn_in_parts(tmp_path):
    passage = make_explanation(300, 250)
    figures = list(heatmap_figures([passage.panel("attention"), passage.panel("rollout")]))
    assert len(figures) == 2
    for figure, name in zip(figures, ("attention", "rollout"), strict=True):
        assert max(figure.get_size_inches()) <= LARGEST
        titles = {ax.get_title("left") for ax in figure.axes} - {""}
        source = f"{name}, the first 120 of 250 steps: source, the first 120 of 300 words"
        assert titles == {source, "target prefix, the first 120 of 249 words"}
        plt.close(figure)


def test_parts_of_an_earlier_run_are_dropped(tmp_path):
    def names(number):
        paths = save_parts((plt.figure(figsize=(1, 1)) for _ in range(number)), tmp_path / "a.b")
        assert sorted(paths) == sorted(tmp_path.iterdir())
        return [path.name for path in paths if path.suffix == ".png"]

    assert names(3) == ["a.b.png", "a.b_2.png", "a.b_3.png"]
    assert names(1) == ["a.b.png"]


def test_a_long_word_leaves_room_for_the_others():
    words = ["Donau" * 200, "x" * 3000, "ja"]
    long = replace(make_explanation(3, 3), source_tokens=words, labels=words, target_tokens=words)
    [figure] = heatmap_figures([long.panel("attention")])
    assert max(figure.get_size_inches()) < 15
    plt.close(figure)
