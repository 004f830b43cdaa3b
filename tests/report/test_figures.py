"""Figures: they are written, and they show what they are given."""

import pytest
from measured import FIDELITY, SYSTEM, scored

from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.quality import Quality
from xnmt_bench.report.figure import interval_figure, save_figure
from xnmt_bench.report.panels import panels


def row(explainer, instantiation, ppl, derived=False, **more):
    numbers = {"ppl": ppl, "ppl_low": ppl * 0.9, "ppl_high": ppl * 1.1}
    names = {"explainer": explainer, "instantiation": instantiation}
    return scored(FIDELITY | names | more, numbers, derived=derived)


def drawn(metric, rows):
    return interval_figure(metric, panels(metric, rows))


def points(ax):
    """The value and the ends of each interval that is drawn."""
    found = []
    for container in ax.containers:
        line, _, [bars] = container.lines
        [[(low, _), (high, _)]] = bars.get_segments()
        found.append((float(line.get_xdata()[0]), float(low), float(high)))
    return sorted(found)


def test_the_figure_shows_every_number(tmp_path):
    numbers = {("attention", "base"): 8.0, ("attention", "sa"): 7.0,
               ("random", "base"): 30.0, ("random", "sa"): 20.0}  # fmt: skip
    rows = [row(explainer, kind, ppl) for (explainer, kind), ppl in numbers.items()]
    rows.append(row("", "unigram", 99.0, k="", seed=""))
    rows.append(row("attention", "comb", 7.0, derived=True))  # already drawn as what was chosen
    figure = drawn(Fidelity(), rows)
    [ax] = figure.axes
    assert ax.get_xscale() == "log"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["random", "attention"]
    expected = [(p, 0.9 * p, 1.1 * p) for p in (7.0, 8.0, 20.0, 30.0)]
    assert points(ax) == [pytest.approx(one) for one in expected]
    assert 99.0 in {float(line.get_xdata()[0]) for line in ax.lines}  # the reference
    assert "toy en-de" in ax.get_title() and "k = 1" in ax.get_title()
    [legend] = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {"Base", "SA", "unigram"}
    svg, png = save_figure(figure, tmp_path / "deep" / "fidelity")
    assert svg.read_text().startswith("<?xml")
    assert png.read_bytes().startswith(b"\x89PNG")


def test_a_figure_says_that_data_is_generated():
    """It may stand in a paper without the table's notes."""
    for corpus, said in (("toy", True), ("multi30k", False)):
        [ax] = drawn(Fidelity(), [row("attention", "sa", 8.0, corpus=corpus)]).axes
        assert ("generated" in ax.get_title()) == said


def test_each_condition_has_axes_of_its_own():
    figure = drawn(Fidelity(), [row("a", "sa", 8.0), row("a", "sa", 6.0, k=2)])
    assert [ax.get_title().split(",")[0] for ax in figure.axes] == ["k = 1", "k = 2"]
    assert [points(ax)[0][0] for ax in figure.axes] == [8.0, 6.0]


def test_higher_is_better_stands_above():
    rows = [scored(SYSTEM | {"nmt": name}, {"bleu": bleu, "bleu_low": bleu - 1,
                                            "bleu_high": bleu + 2}, model=name)
            for name, bleu in (("weak", 10.0), ("strong", 30.0), ("middle", 20.0))]  # fmt: skip
    [ax] = drawn(Quality(), rows).axes
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == ["weak", "middle", "strong"]  # from below
    assert ax.get_xscale() == "linear"
    assert "further right: better" in ax.get_xlabel()
    assert points(ax) == [(v, v - 1, v + 2) for v in (10.0, 20.0, 30.0)]


def test_without_a_number_there_is_no_figure():
    assert drawn(Fidelity(), [scored(FIDELITY, {}, "n/a")]) is None
    assert drawn(Fidelity(), []) is None
