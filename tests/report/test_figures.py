"""Figures: they are written, and they show what they are given."""

from itertools import pairwise

import matplotlib.pyplot as plt
import pytest
from matplotlib.text import Text

from support.example_rows import FIDELITY, SYSTEM, scored
from xnmt_bench.errors import ConfigError
from xnmt_bench.measuring.metric import Column
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.quality import Quality
from xnmt_bench.pipeline.settings import FigureSettings
from xnmt_bench.report.figure import drawn_as, interval_figure, log_scale, save_figure
from xnmt_bench.report.panels import panels


def row(explainer, instantiation, ppl, derived=False, **row_keys):
    numbers = {"ppl": ppl, "ppl_low": ppl * 0.9, "ppl_high": ppl * 1.1}
    names = {"explainer": explainer, "instantiation": instantiation}
    return scored(FIDELITY | names | row_keys, numbers, derived=derived)


def drawn(metric, rows):
    return interval_figure(metric, panels(metric, rows))


def points(ax):
    """The value and the ends of each interval that is drawn."""
    line_points = []
    for container in ax.containers:
        line, _, [bars] = container.lines
        [[(low, _), (high, _)]] = bars.get_segments()
        line_points.append((float(line.get_xdata()[0]), float(low), float(high)))
    return sorted(line_points)


def test_the_figure_shows_every_number(tmp_path):
    numbers = {("attention", "base"): 8.0, ("attention", "sa"): 7.0,
               ("random", "base"): 30.0, ("random", "sa"): 20.0}  # fmt: skip
    rows = [row(explainer, kind, ppl) for (explainer, kind), ppl in numbers.items()]
    rows.append(row("", "unigram", 99.0, k="", prefix="", seed=""))
    rows.append(row("attention", "comb", 7.0, derived=True))  # already drawn as what was chosen
    figure = drawn(Fidelity(), rows)
    [ax] = figure.axes
    assert ax.get_xscale() == "log"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["random", "attention"]
    expected = [(p, 0.9 * p, 1.1 * p) for p in (7.0, 8.0, 20.0, 30.0)]
    assert points(ax) == [pytest.approx(point) for point in expected]
    assert 99.0 in {float(line.get_xdata()[0]) for line in ax.lines}  # the reference
    assert "toy en-de" in ax.get_title() and "k = 1" in ax.get_title()
    [legend] = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {"Base", "own SA", "unigram"}
    svg, png = save_figure(figure, tmp_path / "deep" / "fidelity")
    assert svg.read_text().startswith("<?xml")
    assert png.read_bytes().startswith(b"\x89PNG")
    # A name may have a dot, such as that of a system.
    assert [p.name for p in save_figure(plt.figure(), tmp_path / "v1.2_a")] == [
        "v1.2_a.svg", "v1.2_a.png",
    ]  # fmt: skip


def test_a_figure_says_that_data_is_generated():
    """It may stand in a paper without the table's notes."""
    for corpus, is_generated in (("toy", True), ("multi30k", False)):
        [ax] = drawn(Fidelity(), [row("attention", "sa", 8.0, corpus=corpus)]).axes
        assert ("generated" in ax.get_title()) == is_generated


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


RANGES = [(1, 2e3), (900, 2100), (3, 4.5), (1.01, 1.2), (4.5, 21), (1e-3, 2), (3, 2e5), (1e-8, 1e8)]


@pytest.mark.parametrize("inches", [1, 2.5, 6])
@pytest.mark.parametrize("which", ["x", "y"])
def test_a_log_scale_has_labels_that_stay_apart(which, inches):
    for limits in RANGES:
        figure = plt.figure(figsize=(inches, inches))
        ax = figure.add_axes((0.15, 0.15, 0.8, 0.8))
        log_scale(ax, which)
        ax.set(**{f"{which}lim": limits})
        figure.canvas.draw()
        labels = getattr(ax, f"get_{which}ticklabels")()
        boxes = [label.get_window_extent() for label in labels]
        assert len({label.get_text() for label in labels}) == len(labels) > 1
        assert not any(a.overlaps(b) for a, b in pairwise(boxes)), limits
        plt.close(figure)


@pytest.mark.parametrize(
    ("inches", "limits", "expected"),
    [
        (6, (0.9, 60), ["1", "2", "5", "10", "20", "50"]),
        (3, (90, 150_000), ["100", "1,000", "10,000", "100,000"]),
        (1, (3, 2e5), ["10", "10,000"]),
        (6, (3, 4.1), ["3", "3.2", "3.4", "3.6", "3.8", "4"]),
    ],
)
def test_a_log_scale_is_as_fine_as_there_is_room(inches, limits, expected):
    figure = plt.figure(figsize=(inches, 2))
    ax = figure.add_axes((0.1, 0.2, 0.8, 0.7))
    log_scale(ax, "x")
    ax.set(xlim=limits)
    figure.canvas.draw()
    assert [label.get_text() for label in ax.get_xticklabels()] == expected
    plt.close(figure)


def test_the_best_part_orders_systems_where_higher_is_better():
    """As in the table, by the greatest of the values of the pivot and not by the least."""

    class Accuracy(Fidelity):
        columns = (Column("share", "share", "{:.2f}".format, "higher"),)

    def of(explainer, base, fn):
        return [
            scored(FIDELITY | {"explainer": explainer, "instantiation": kind}, {"share": share})
            for kind, share in (("base", base), ("fn", fn))
        ]

    rows = [*of("uneven", 0.9, 0.1), *of("even", 0.5, 0.5)]
    [ax] = drawn(Accuracy(), rows).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["even", "uneven"]


PAPER = FigureSettings(pdf=True, width=3.3, font="STIXGeneral", size=8.0)
NUMBERS = {"prediction_difference": 8.0, "attention": 7.0, "random": 30.0}


def sizes(figure):
    return {round(t.get_fontsize(), 3) for t in figure.findobj(Text) if t.get_text().strip()}


def test_a_papers_figure_has_its_width_its_font_and_its_size(tmp_path):
    rows = [row(name, kind, p) for name, p in NUMBERS.items() for kind in ("base", "evalx_sa")]
    with drawn_as(PAPER):
        figure = drawn(Fidelity(), rows)
        *_, pdf = save_figure(figure, tmp_path / "fidelity")
    assert figure.get_figwidth() == pytest.approx(3.3)
    assert sizes(figure) == {8.0}
    assert {t.get_fontfamily()[0] for t in figure.findobj(Text)} == {"STIXGeneral"}
    [ax] = figure.axes
    box = ax.get_tightbbox()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.width
    content = pdf.read_bytes()
    assert b"STIXGeneral" in content and b"/MediaBox [ 0 0 237.6" in content
    # TrueType as a whole, and no bitmaps.
    assert b"/FontFile2" in content and b"/Type3" not in content


def test_a_figure_of_another_width_is_scaled_with_its_texts(tmp_path):
    """A heatmap's cells hold its labels, so that all of it gets smaller together."""
    with drawn_as(PAPER):
        figure = plt.figure(figsize=(6.6, 4))
        figure.text(0.5, 0.5, "a word", fontsize=9)
        save_figure(figure, tmp_path / "heatmap")
    assert tuple(figure.get_size_inches()) == (3.3, 2.0)
    assert sizes(figure) == {4.5}


def test_a_pdf_is_written_on_request_alone_and_is_never_an_old_one(tmp_path):
    def files():
        save_figure(plt.figure(), tmp_path / "a")
        return {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    with drawn_as(PAPER):
        first = files()
        assert {*first} == {"a.svg", "a.png", "a.pdf"}
        assert files()["a.pdf"] == first["a.pdf"]
    assert {*files()} == {"a.svg", "a.png"}


def test_a_font_that_is_not_installed_is_refused():
    settings = FigureSettings(pdf=True, width=None, font="STIXGenral", size=10.0)
    problem = "no font 'STIXGenral'; did you mean STIXGeneral"
    with pytest.raises(ConfigError, match=problem), drawn_as(settings):
        pass
