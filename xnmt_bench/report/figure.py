"""Figures that can go into a paper unchanged: SVG, PNG and PDF, colour-blind-safe."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain, count
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal, TypeVar

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from rich.cells import cell_len

from xnmt_bench.measuring.metric import Metric
from xnmt_bench.pictures import LARGEST, LONGEST_NAME, fonts_for, require_font, shorten
from xnmt_bench.pipeline.settings import FigureSettings
from xnmt_bench.report.panels import Panel, distinguish, pooled, sort_pivots

log = logging.getLogger(__name__)
Item = TypeVar("Item")

plt.rcParams["text.parse_math"] = False  # a name may hold two dollar signs
plt.rcParams["pdf.fonttype"] = 42  # TrueType: publishers refuse matplotlib's usual Type 3
logging.getLogger("fontTools").setLevel(logging.WARNING)  # it logs each table of a PDF's fonts
# Okabe and Ito's palette: told apart also by those who see fewer colours; so are the markers.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
SHAPES = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = (":", "--", "-.")
LONGEST_SIDE = 8000  # pixels of a PNG
ROOM = LARGEST - 10  # inches for axes, beside titles, labels and the legend
MOST_LINES = 60  # of one axes, which colours and markers still tell apart
LONGEST_TITLE = 240  # letters
LETTER, WIDE_LETTER = 0.075, 0.085  # inches of a letter of a label: most of them, nearly all
TITLE_LINE = 0.17  # inches of a line of a title
SIZE = 10.0  # points of the texts that figures are drawn with, before they are scaled
WIDTH = 7.5  # inches of a figure where no width is configured
PDF = ".pdf"
_settings = FigureSettings(pdf=False, width=None, font=None, size=SIZE)  # see `drawn_as`


@contextmanager
def drawn_as(settings: FigureSettings) -> Iterator[None]:
    """Draw and save figures as configured.

    Raises:
        ConfigError: a font is not installed.
    """
    global _settings
    families = [*plt.rcParams["font.family"]]
    if settings.font:
        require_font(settings.font)
        families.insert(0, settings.font)
    before, _settings = _settings, settings
    try:
        with plt.rc_context({"font.family": families}):
            yield
    finally:
        _settings = before


def _drawn_width() -> float:
    """Return the inches that a figure is drawn in; scaled to its width, its texts have its size."""
    return _settings.width * SIZE / _settings.size if _settings.width else WIDTH


def _scale(figure: Figure) -> None:
    """Give a figure its width and its texts their size, both by one factor.

    So texts of a figure that was drawn for another width than `_drawn_width` are smaller or larger
    than asked for, and none of them overlaps another one.
    """
    width, size = _settings.width, _settings.size
    factor = width / figure.get_figwidth() if width else size / SIZE
    if factor == 1:
        return
    texts: Any = figure.findobj(Text)
    for text in texts:
        text.set_fontsize(text.get_fontsize() * factor)
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            for label in axis.get_ticklabels()[:1]:
                # For ticks that are made when the figure is drawn.
                axis.set_tick_params(labelsize=label.get_fontsize())
    inches_wide, inches_high = figure.get_size_inches()
    figure.set_size_inches(inches_wide * factor, inches_high * factor)


def style(names: Sequence[str], name: str) -> dict[str, Any]:
    """Return colour and marker of one of several things."""
    # By the sorted names, so that the order of rows changes no colour.
    round_, place = divmod(sorted(names).index(name), len(PALETTE))
    # A colour that comes again has another marker.
    return {"color": PALETTE[place], "marker": SHAPES[(place + round_) % len(SHAPES)]}


def shorten_all(texts: Iterable[str], most: int = LONGEST_NAME) -> dict[str, str]:
    """Return the short form of each text; those that would look alike have numbers."""
    short = {text: shorten(text, most) for text in texts}
    numbers = {form: count(1) for form, times in Counter(short.values()).items() if times > 1}
    return {
        text: f"{form} #{next(numbers[form])}" if form in numbers else form
        for text, form in short.items()
    }


def name_labels(names: Iterable[str], blind: Collection[str] = ()) -> dict[str, str]:
    """Return how names stand in a figure: short, without underscores, and blind ones marked."""
    return {
        name: short.replace("_", " ") + " (blind)" * (name in blind)
        for name, short in shorten_all(names).items()
    }


def wrapped(title: str, inches: float, note: str = "") -> str:
    """Return a title in lines that a width holds, with a note at its end."""
    title = ", ".join(filter(None, [shorten(title, LONGEST_TITLE), note]))
    return "\n".join(wrap(title, max(20, int(inches / WIDE_LETTER))))


def fitting(
    things: Sequence[Item], kind: str, inches: Callable[[Item], float]
) -> tuple[Sequence[Item], str]:
    """Return the first things, as many as a figure holds, and a note where that is not all.

    Args:
        things: what has axes of its own, under or beside each other.
        kind: what they are, in the plural, for the note.
        inches: along that direction.
    """
    number = max(1, sum(total <= ROOM for total in accumulate(map(inches, things))))
    return things[:number], _left_out(number, len(things), kind)


def first_lines(
    names: Sequence[str], kind: str, most: int = MOST_LINES
) -> tuple[Sequence[str], str]:
    """Return the first names, such as one axes has lines for, and a note as `fitting` does."""
    return names[:most], _left_out(most, len(names), kind)


class Lines:
    """The lines of a figure, one a name, of which `names` are drawn.

    Args:
        every_name: in the order of the legend.
        kind: what they are, in the plural, for `note`.
    """

    def __init__(self, every_name: Sequence[str], kind: str) -> None:
        self.names, self.note = first_lines(every_name, kind)
        self._labels = name_labels(self.names)

    def look(self, name: str, **options: Any) -> dict[str, Any]:
        """Return label, colour and marker of a name that is drawn, and further options."""
        return {"label": self._labels[name], **style(self.names, name), **options}


def _left_out(shown: int, total: int, kind: str) -> str:
    return f"the first {shown} of {total:,} {kind}; the tables have all" if shown < total else ""


def stacked(
    width: float, heights: Sequence[float], above: float, ratios: Sequence[float] = ()
) -> tuple[Figure, Sequence[plt.Axes]]:
    """Return a figure whose axes stand under each other and share their x-axis.

    Args:
        width: in inches.
        heights: of the axes, in inches, with their titles.
        above: inches beside them.
        ratios: of the axes' heights without titles; those of `heights`, if not given.
    """
    figure, axes = plt.subplots(
        len(heights),
        1,
        figsize=(width, above + sum(heights)),
        squeeze=False,
        sharex=True,
        height_ratios=ratios or heights,
    )
    return figure, list(axes[:, 0])


def interval_figure(metric: Metric, panels: Sequence[Panel]) -> Figure | None:
    """Return the headline with its interval, one axes a panel; None where nothing has a number."""
    shown = [panel for panel in panels if panel.by_pivot(blind=True)]
    if not shown:
        return None
    distinction, column = distinguish(shown), metric.headline
    measured = {p for panel in shown for p in panel.by_pivot(blind=True)}
    pivots = sort_pivots(measured, shown[0].pivot_values)
    row = max(0.45, 0.12 * len(pivots))  # inches a line
    phrases = shorten_all(distinction.phrases, LONGEST_TITLE // 2)
    every_block = [
        (panel, phrases[phrase], *fitting(_best_names(panel, pivots), "rows", lambda _: row))
        for panel, phrase in zip(shown, distinction.phrases, strict=True)
    ]

    def inches(block: tuple[Panel, str, Sequence[str], str]) -> float:
        return 0.7 + row * len(block[2])

    blocks, note = fitting(every_block, "blocks", inches)
    heights, width = list(map(inches, blocks)), _drawn_width()
    figure, axes = stacked(width, heights, 1.4)
    labels = [
        _draw(ax, panel, pivots, names)
        for ax, (panel, _, names, _) in zip(axes, blocks, strict=True)
    ]
    # A column has little room beside the labels, so that titles begin above these.
    in_column = _settings.width is not None
    side: Literal["right", "center"] = "right" if in_column else "center"
    taken = 0.3 if in_column else WIDE_LETTER * max(map(cell_len, chain(*labels)))
    beside = width - taken  # inches of a title
    for ax, (panel, phrase, _, rows_note) in zip(axes, blocks, strict=True):
        # A figure may stand in a paper without the notes that its table has.
        generated = any(m.facts.generated for _, m in panel.measurements())
        title = ", ".join(filter(None, [phrase, *distinction.common]))
        title += " (generated data)" * generated
        ax.set_title(wrapped(title, beside, rows_note), fontsize=10, loc=side)
    which = {"lower": " (further left: better)", "higher": " (further right: better)"}
    scale = ", log scale" if column.log else ""
    label = f"{column.heading}{scale}{which.get(column.better or '', '')}"
    axes[-1].set_xlabel(wrapped(label, beside), loc=side)
    if in_column:
        further = max(ax.get_title(loc=side).count("\n") for ax in axes)
        figure.set_figheight(figure.get_figheight() + TITLE_LINE * further * len(blocks))
    several = len(pivots) > 1 or any(panel.references for panel, *_ in blocks)
    lay_out(figure, axes if several else (), note)
    return figure


def _best_names(panel: Panel, pivots: Sequence[str]) -> list[str]:
    """Return what has a number, the best first and blind ones last."""
    by_pivot = panel.by_pivot(blind=True)
    measured = sorted({name for by_name in by_pivot.values() for name in by_name})
    best = {
        name: min(rank for p in pivots if (rank := panel.rank(p, name)) is not None)
        for name in measured
    }
    blind = set(filter(panel.blind, measured))
    # From the worst and turned round, so that equal ones stand as before.
    names = sorted(measured, key=best.__getitem__, reverse=True)
    return sorted(names, key=blind.__contains__, reverse=True)[::-1]


def _draw(
    ax: plt.Axes, panel: Panel, pivots: Sequence[str], best_first: Sequence[str]
) -> Sequence[str]:
    """Draw names with their intervals, and return the labels of the axis."""
    column = panel.metric.headline
    by_pivot = panel.by_pivot(blind=True)
    # The y-axis goes up, so that the last one, the best, stands above.
    place = {name: number for number, name in enumerate(reversed(best_first))}
    for number, pivot in enumerate(pivots):
        offset = min(0.18, 0.8 / len(pivots)) * ((len(pivots) - 1) / 2 - number)
        look = style(pivots, pivot)
        for name in filter(place.__contains__, by_pivot.get(pivot, {})):
            for scored in panel.of(pivot, name):
                # What is derived is drawn already, as what it was chosen from.
                if (numbers := pooled(column, [scored])) and not scored.derived:
                    at = place[name] + offset
                    draw_interval(ax, "x", at, *numbers, label=panel.heading(pivot), **look)
    for number, (kind, rows) in enumerate(sorted(panel.references.items(), reverse=True)):
        if numbers := pooled(column, rows):
            ax.axvline(
                numbers[0],
                color="black",
                linewidth=0.9,
                linestyle=LINES[number % len(LINES)],
                label=kind,
            )
    if column.log:
        log_scale(ax, "x")
    else:
        ax.xaxis.set_major_formatter(lambda value, _: column.form(value))  # as the table has it
    blind = set(filter(panel.blind, place))
    if blind:
        ax.axhspan(-0.6, len(blind) - 0.5, color="black", alpha=0.06, linewidth=0)
    labels = [*name_labels(best_first, blind).values()][::-1]
    ax.set_yticks(range(len(place)), labels)
    ax.set_ylim(-0.6, len(place) - 0.4)
    ax.grid(axis="x", which="both", linewidth=0.3, alpha=0.6)
    return labels


def draw_interval(
    ax: plt.Axes, along: Literal["x", "y"], at: Any, value: Any, low: Any, high: Any, **look: Any
) -> None:
    """Draw points with their intervals along an axis, at their places on the other one."""
    # A skewed bootstrap may leave the number itself a hair outside its interval.
    error = np.maximum(0, [np.atleast_1d(value) - low, high - np.atleast_1d(value)])
    x, y = (value, at) if along == "x" else (at, value)
    points = {"linestyle": "none", "capsize": 2, "markersize": 5}
    ax.errorbar(x, y, **{f"{along}err": error, **points, **look})


def lay_out(figure: Figure, axes: Iterable[plt.Axes] = (), *notes: str) -> None:
    """Lay a figure out over one legend of all its axes, in lines that fit, and under notes."""
    drawn: dict[str, Any] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        drawn |= dict(zip(map(str, labels), handles, strict=True))
    entry = 0.7 + LETTER * max(map(cell_len, drawn), default=0)  # inches
    columns = max(1, min(len(drawn), int(figure.get_figwidth() / entry)))
    if drawn:
        # More lines than two of them make the figure higher, and no axes lower.
        lines = -(-len(drawn) // columns)
        figure.set_figheight(figure.get_figheight() + 0.24 * max(0, lines - 2))
        entries = list(drawn.values()), list(drawn)
        figure.legend(*entries, loc="outside lower center", ncol=columns, frameon=False)
    if any(notes):
        figure.suptitle("; ".join(filter(None, notes)), fontsize=8)
    # When it is drawn, since its fonts are chosen then. Widths of texts differ a little by format.
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.12)


def log_scale(ax: plt.Axes, which: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with enough numbers to read values from."""
    ax.set(**{f"{which}scale": "log"})
    axis: Axis = getattr(ax, f"{which}axis")
    axis.set_major_locator(RoomyLogLocator())
    axis.set_major_formatter("{x:,g}")
    axis.set_minor_locator(NullLocator())  # its labels would overlap those of 2 and 5


class RoomyLogLocator(LogLocator):
    """The finest of 1-2-5, decades, and every second, third, ... decade whose labels fit.

    A range that holds fewer than two of them, such as 3 to 4.5, has evenly spaced numbers.
    """

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the ticks: at least two; where no choice fits, the roomiest."""
        low, high = sorted((vmin, vmax))
        every = [ticks[(low <= ticks) & (ticks <= high)] for ticks in self._choices(low, high)]
        choices = [ticks for ticks in every if len(ticks) > 1]
        rooms = [self._room(np.log(ticks / low) / np.log(high / low), ticks) for ticks in choices]
        fitting = (ticks for ticks, room in zip(choices, rooms, strict=True) if room >= 0)
        return next(fitting, choices[np.argmax(rooms)])

    def _choices(self, low: float, high: float) -> Iterator[Any]:
        decades = 10 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
        yield np.outer(decades, (1, 2, 5)).ravel()
        decades = decades[(low <= decades) & (decades <= high)]
        for stride in range(1, len(decades)):
            yield decades[::stride]
        for parts in range(6, 0, -1):
            yield MaxNLocator(parts).tick_values(low, high)

    def _room(self, places: Any, ticks: Any) -> float:
        """Return the least room between two labels, in points, of ticks at places from 0 to 1."""
        axis: Any = self.axis  # matplotlib also allows for stand-ins without a figure
        along, box = axis.axis_name, axis.axes.bbox
        length = 72 / axis.figure.dpi * (box.width if along == "x" else box.height)
        size = axis.get_major_ticks(1)[0].label1.get_size()
        lengths = [1.0] * len(ticks)
        if along == "x":  # a digit is less than 0.65 of the font's size wide
            lengths = [0.65 * len(text) for text in axis.major.formatter.format_ticks(ticks)]
        needed = np.convolve(lengths, (0.5, 0.5), "valid") + 0.4  # and space between them
        return float(np.min(np.diff(places) * length - needed * size))


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as SVG, PNG and, where that is configured, PDF, and close it."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    *paths, pdf = _files(stem)
    if _settings.pdf:
        paths.append(pdf)
    else:
        pdf.unlink(missing_ok=True)  # that of an earlier run would show its numbers
    _scale(figure)
    if max(size := figure.get_size_inches()) > LARGEST:
        width, height = size
        problem = f"asks for {width:.0f} by {height:.0f} inches, more than {LARGEST:.0f}"
        log.warning("%s: the figure %s; it is squeezed", stem, problem)
        figure.set_size_inches(min(width, LARGEST), min(height, LARGEST))
    dpi = min(160, LONGEST_SIDE / max(figure.get_size_inches()))
    with fonts_for(figure):
        for path in paths:
            # Without its time, so that equal figures are equal bytes.
            metadata = {"CreationDate": None} if path.suffix == PDF else None
            figure.savefig(path, dpi=dpi, metadata=metadata)
            figure.set_layout_engine("none")  # it is laid out once for all
    plt.close(figure)
    return paths


def save_parts(figures: Iterable[Figure], stem: Path) -> list[Path]:
    """Write the parts of a figure, `stem`, `stem_2` and so on; drop those of an earlier run."""
    stems = (stem.with_name(stem.name + f"_{n}" * (n > 1)) for n in count(1))
    paths = [path for figure in figures for path in save_figure(figure, next(stems))]
    for part in stems:
        old_paths = [path for path in _files(part) if path.exists()]
        if not old_paths:
            break
        for path in old_paths:
            path.unlink()
    return paths


def _files(stem: Path) -> list[Path]:
    return [stem.with_name(stem.name + ending) for ending in (".svg", ".png", PDF)]
