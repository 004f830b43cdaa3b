"""One sentence's relevance as a heatmap in the terminal, and the figure of a matrix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from matplotlib.figure import Figure
from rich.cells import cell_len
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from xnmt_bench.explanation import Explanation
from xnmt_bench.explanation.figure import MOST_WORDS, Part, draw_parts, left_out, scaled
from xnmt_bench.measuring.listing import Matrix
from xnmt_bench.pictures import shorten
from xnmt_bench.words import Weighed

SHADES = " ░▒▓█"
TERMINAL = 80  # characters, beyond which a matrix folds
WIDTH = 5  # characters of a step's column at least
HELPS, HURTS, HURT = "blue", "red", "−"  # styles of the signs; what negative shades begin with


def terminal_heatmaps(
    name: str, explanation: Explanation, width: int, scale: bool = True
) -> Iterator[Group]:
    """Yield one column a step, headed by its label; one row a word, the source's first, shaded.

    As many steps go under each title as fit into `width`, the characters of the terminal; a word
    that is longer than half of it goes on in the next line. Shades are of the step's greatest
    number or, without `scale`, of 1. Probabilities that are NaN are left out.
    """
    words = explanation.readable([*explanation.source_tokens, *explanation.target_tokens])
    longest = min(max(map(cell_len, words)), width // 2)
    room = width - longest - 1
    for start, stop in _folds(explanation.readable(explanation.labels), room):
        part = explanation.take(slice(start, stop))
        title = name.replace("_", " ") + f", from step {start + 1}" * (start > 0)
        # A table's own title would wrap to its width, which is small where few steps are left.
        yield Group(Text(title, style="table.title"), _terminal_heatmap(part, longest, room, scale))


def legend(explanations: Iterable[Explanation]) -> Text:
    """Return what the shades mean, with the colours and the sign where something hurts."""
    weights = (w for e in explanations for w in (e.source_TS, e.prefix_TT) if w is not None)
    signed = any(bool((w < 0).any()) for w in weights)
    words = Text(f"{SHADES.strip()}: from little to the step's greatest; ")
    if signed:
        words.append("blue: the word helps, ", HELPS)
        words.append(f"red and {HURT}: it hurts; ", HURTS)
    return words.append("×: the step cannot see it")


def _folds(labels: Sequence[str], room: int) -> Iterator[tuple[int, int]]:
    """Yield the first step and the one behind the last of as many columns as there is room for."""
    start, used = 0, 0
    for step, label in enumerate(labels):
        width = _column_width(label, room) + 1
        if step > start and used + width > room:
            yield start, step
            start, used = step, 0
        used += width
    yield start, len(labels)


def _column_width(label: str, room: int) -> int:
    """Return the characters of a step's column: its label's, if there is room."""
    return min(max(cell_len(label), WIDTH), max(WIDTH, room - 1))


def as_explanation(sentence: Weighed) -> Explanation:
    """Return a sentence with its weights as an explanation; unknown probabilities are NaN."""
    log_p, target = sentence.log_probability_T, list(sentence.target.pieces)
    unknown = torch.full((len(target),), torch.nan)
    probabilities = unknown if log_p is None else torch.from_numpy(log_p).exp()
    weights_TS = torch.from_numpy(sentence.weights_TS)
    return Explanation(
        list(sentence.source.pieces), target, target, probabilities, weights_TS, None
    )


def print_weighed(caption: str, sentence: Weighed) -> None:
    """Print the weights of a sentence: source left, target above, shaded by their share."""
    console = Console()
    console.print(caption, markup=False, highlight=False)
    explanation = as_explanation(sentence)
    for table in terminal_heatmaps(
        "weights", explanation, min(console.width, TERMINAL), scale=False
    ):
        console.print(table, "")


def _terminal_heatmap(explanation: Explanation, longest: int, room: int, scale: bool) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("", width=longest, overflow="fold")
    for label in explanation.readable(explanation.labels):
        width = _column_width(label, room)
        table.add_column(Text(label), justify="center", width=width, overflow="fold")
    if not explanation.probabilities.isnan().all():
        table.add_row("P", *(f"{p:.2f}" for p in explanation.probabilities.tolist()), style="dim")
    sides = [("", explanation.source_tokens, explanation.source_TS)]
    if explanation.prefix_TT is not None:  # no step sees the last target word
        sides.append(("italic", explanation.target_tokens[:-1], explanation.prefix_TT))
    for style, tokens, relevance_TX in sides:
        values_XT = (scaled(relevance_TX) if scale else relevance_TX).T.tolist()
        for token, values_T in zip(explanation.readable(tokens), values_XT, strict=False):
            table.add_row(Text(token, style=style), *map(_cell, values_T))
        table.add_section()
    return table


def _seen(token: str) -> str:
    """Return a piece as shown; a blank that is a piece of its own would look like an empty cell."""
    return "␣" if token in ("▁", " ", "") else token


def _cell(value: float) -> Text:
    """Colour words that help blue and words that hurt red, which have a sign too."""
    if value != value:  # NaN: the step cannot see this word
        return Text("×", style="dim")
    shade = SHADES[round(abs(value) * (len(SHADES) - 1))]
    if value >= 0 or shade == " ":
        return Text(shade * WIDTH, style=HELPS)
    return Text(HURT + shade * (WIDTH - 1), style=HURTS)


def matrix_figure(title: str, matrix: Matrix) -> Figure:
    """Return a figure of weights, with framed cells; of more words the first `MOST_WORDS`."""
    rows, columns = (list(map(_label, side.pieces)) for side in (matrix.rows, matrix.columns))
    weights = torch.from_numpy(matrix.weights_RC)[:MOST_WORDS, :MOST_WORDS]
    title += left_out(len(rows), "rows") + left_out(len(columns), "columns")
    framed = [cell for cell in matrix.framed if max(cell) < MOST_WORDS]
    part = Part(title, rows[:MOST_WORDS], columns[:MOST_WORDS], weights, framed, 0)
    return draw_parts([(part, None)], "weight")


def _label(token: str) -> str:
    """Return a piece as a figure has it: a long one without its middle."""
    return shorten(_seen(token))
