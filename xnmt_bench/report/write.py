"""The files of a table: text, Markdown and LaTeX for readers, CSV with every number."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xnmt_bench.measuring.metric import TableRow
from xnmt_bench.report.latex import to_latex, to_latex_notes
from xnmt_bench.report.summary import Summary, to_csv, to_markdown, to_text
from xnmt_bench.store import write_atomically


def write_summary(name: str, summary: Summary, results: Path) -> None:
    """Write a table as text, Markdown and LaTeX, and its notes as LaTeX."""
    texts = {
        f"{name}.txt": to_text(summary),
        f"{name}.md": to_markdown(summary),
        f"{name}.tex": to_latex(summary, name),
        f"{name}_notes.tex": to_latex_notes(summary, name),
    }
    for file_name, text in texts.items():
        write_atomically(results / file_name, text)


def write_rows(
    name: str,
    rows: Sequence[TableRow],
    columns: Sequence[str],
    results: Path,
    read_back: bool = False,
) -> None:
    """Write every number as `<name>.csv`; `read_back` as in `to_csv`."""
    write_atomically(results / f"{name}.csv", to_csv(rows, columns, read_back))
