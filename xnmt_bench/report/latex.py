"""A table for a paper: LaTeX with booktabs, and its notes in a file of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from textwrap import wrap

from rich.cells import cell_len

from xnmt_bench.report.summary import Line, Summary, best_cells

COLUMN = 56  # letters of small type that a paper's column holds
BESIDE = 2.0  # letters that the space between two columns takes
SMALLER = 0.85  # of an interval's letters, which are smaller
LONG_HEADING = 9  # letters, beyond which a heading is broken into two lines
MARKS = {"†": r"\dagger", "‡": r"\ddagger", "≈": r"\approx"}  # that stand behind a number
ESCAPED = str.maketrans(
    {c: f"\\{c}" for c in "_%&#${}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    # In LaTeX's oldest font encoding, its default, these three are other signs.
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    | {"†": r"\dag{}", "‡": r"\ddag{}", "≈": r"$\approx$"}
)


def to_latex(summary: Summary, name: str = "") -> str:
    """Return the summary as a LaTeX table for a column of a paper; needs booktabs.

    What tells blocks apart heads them, intervals stand under their numbers, and a rule parts the
    blocks, such as blind rows from the others. A table too wide for a column takes both.

    Args:
        summary: the table.
        name: of its files; its label is `tab:` and the name.
    """
    folded = _folded(summary)
    widths = [_width(summary, column) for column in range(folded, len(summary.headings))]
    letters = sum(widths) + BESIDE * (len(widths) - 1)
    # Numbers to the right, where digits of one weight stand above each other.
    columns = "".join(
        "l" if n < summary.words else "r" for n in range(folded, folded + len(widths))
    )
    headings = [
        _heading(text, n < summary.words) for n, text in enumerate(summary.headings) if n >= folded
    ]
    environment = "table" if letters <= COLUMN else "table*"
    caption = ", ".join(filter(None, [summary.title, summary.size]))
    lines = [
        r"% Needs \usepackage{booktabs}.",
        rf"\begin{{{environment}}}[t]",
        r"\centering",
        r"\footnotesize",
        r"\setlength{\tabcolsep}{4pt}",
        rf"\begin{{tabular}}{{@{{}}{columns}}}",
        r"\toprule",
        _row(headings),
        *_body(summary, folded, max(COLUMN if environment == "table" else 0, int(letters))),
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{escape('; '.join([caption, *summary.legend]))}.}}",
        *([rf"\label{{tab:{name}}}"] if name else []),
        rf"\end{{{environment}}}",
        "",
    ]
    return "\n".join(lines)


def to_latex_notes(summary: Summary, name: str) -> str:
    r"""Return the notes under a table as paragraphs, for `\input` in an appendix."""
    start = rf"Notes on Table~\ref{{tab:{name}}}."
    return "\n\n".join([start, *map(escape, summary.notes)]) + "\n"


def escape(text: str) -> str:
    """Return a text as LaTeX shows it, in one line."""
    # An empty line ends a paragraph, which a caption may not hold.
    escaped = " ".join(text.split()).translate(ESCAPED)
    # At the start of a line a bracket would be an argument of the line end before it.
    return f"{{}}{escaped}" if escaped.startswith("[") else escaped


def _folded(summary: Summary) -> int:
    """Return how many columns from the left tell blocks of lines apart, and can head them.

    What is compared stands in the last column of words, which is always shown.
    """
    for number in range(summary.words - 1, 0, -1):
        if 2 * len(_blocks(summary, number)) <= len(summary.lines):
            return number
    return 0


def _blocks(summary: Summary, folded: int) -> list[tuple[tuple[str, ...], list[int]]]:
    """Return the numbers of the lines that share their first columns, behind these texts."""

    def texts(number: int) -> tuple[str, ...]:
        return tuple(cell.text for cell in summary.lines[number].cells[:folded])

    return [(key, [*block]) for key, block in groupby(range(len(summary.lines)), texts)]


def _body(summary: Summary, folded: int, letters: int) -> list[str]:
    """Return the lines of the table between its headings and its end."""
    best, body = best_cells(summary), []
    columns = len(summary.headings) - folded
    for texts, numbers in _blocks(summary, folded):
        body.append(r"\midrule")
        named = [f"{h}: {t}" for h, t in zip(summary.headings, texts, strict=False) if t]
        for part in wrap(", ".join(named), letters):
            body.append(rf"\multicolumn{{{columns}}}{{@{{}}l}}{{\textit{{{escape(part)}}}}} \\")
        if named:
            body.append(r"\addlinespace[2pt]")
        for place, number in enumerate(numbers):
            line = summary.lines[number]
            # Within one block the best is marked, so that a rule stands between two.
            if place and summary.lines[numbers[place - 1]].block != line.block:
                body.append(r"\midrule")
            elif place:
                body.append(r"\addlinespace[2pt]")
            body += _lines(line, best[number], folded, summary.words)
    return body


def _lines(line: Line, best: Sequence[bool], folded: int, words: int) -> list[str]:
    """Return the numbers of a line, and under them their intervals if there are any."""
    above, under = [], []
    for column in range(folded, len(line.cells)):
        text, interval = line.cells[column].text, ""
        if column >= words:
            text, interval = _parted(text)
        above.append(_number(text, best[column]) if column >= words else escape(text))
        under.append(rf"{{\scriptsize {escape(interval)}}}" if interval else "")
    return [_row(above), _row(under)] if any(under) else [_row(above)]


def _parted(text: str) -> tuple[str, str]:
    """Return a number with its marks, and its interval with what stands behind that."""
    number, blank, interval = text.partition(" [")
    return number, f"[{interval}" if blank else ""


def _number(text: str, is_best: bool) -> str:
    """Return a number; its marks take no room, so that digits stay above each other."""
    words = text.split(" ")
    marks = "".join(MARKS[word] for word in words if word in MARKS)
    number = escape(" ".join(word for word in words if word not in MARKS))
    number = rf"\textbf{{{number}}}" if is_best else number
    return number + (rf"\rlap{{$^{{{marks}}}$}}" if marks else "")


def _heading(text: str, is_words: bool) -> str:
    """Return a column's heading, a long one of numbers in two lines."""
    words = text.split()
    if is_words or len(text) <= LONG_HEADING or len(words) == 1:
        return escape(text)
    # Where the longer of the two lines is shortest.
    parts = ((" ".join(words[:n]), " ".join(words[n:])) for n in range(1, len(words)))
    first, second = min(parts, key=lambda pair: max(map(len, pair)))
    return rf"\shortstack[r]{{{escape(first)}\\{escape(second)}}}"


def _width(summary: Summary, column: int) -> float:
    """Return the letters that a column takes."""
    widths = [float(max(map(cell_len, summary.headings[column].split() or [""])))]
    for line in summary.lines:
        text, interval = line.cells[column].text, ""
        if column >= summary.words:
            text, interval = _parted(text)
        widths += [cell_len(text), SMALLER * cell_len(interval)]
    return max(widths)


def _row(cells: Sequence[str]) -> str:
    return re.sub(r" +", " ", " & ".join(cells)).rstrip() + r" \\"
