"""A paper with a table, its notes, a figure and a bibliography, compiled with TeX Live."""

import re
import shutil
import subprocess
from zipfile import ZipFile

import pytest

from support.forked_commands import must_run
from support.paths import ROOT
from xnmt_bench.report.cite import REFERENCES, references

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed"),
]
PAPER = r"""
\documentclass[11pt,twocolumn]{article}
\usepackage[a4paper,margin=2.5cm,columnsep=0.6cm]{geometry}
\usepackage{times}
\usepackage{booktabs}
\usepackage{graphicx}
\begin{document}
Table~\ref{tab:fidelity} and Figure~\ref{fig:fidelity} \cite{xnmt_bench}.\nocite{*}
\input{results/fidelity}
\begin{figure}\centering\includegraphics{results/fidelity.pdf}
\caption{Two judges.}\label{fig:fidelity}\end{figure}
\bibliographystyle{plain}
\bibliography{papers}
\appendix
\input{results/fidelity_notes}
\end{document}
"""
ONE_COLUMN = "rows=nmt=transformer_128 judge=base"
FIGURES = ("figures.pdf=true", "figures.width=3.0", "figures.font=STIXGeneral", "figures.size=8")


def compile_paper(folder):
    """Compile `paper.tex`, and return the messages of LaTeX's last run and of BibTeX."""
    latex = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper"]
    for command in (latex, ["bibtex", "paper"], latex, latex):
        done = subprocess.run(command, cwd=folder, capture_output=True)
        assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-3000:]
    logs = (folder / "paper.log", folder / "paper.blg")
    return "".join(log.read_text(encoding="utf-8", errors="replace") for log in logs)


@pytest.mark.parametrize("rows", [ONE_COLUMN, None])
def test_a_paper_holds_table_figure_and_references(tmp_path, rows):
    ZipFile(ROOT / "docs/recorded/demo.zip").extractall(tmp_path / "results" / "measurements")
    chosen = ["metric=[fidelity]", *([rows] if rows else [])]
    must_run("evaluate.py", *chosen, *FIGURES, cwd=tmp_path)
    bib = must_run("evaluate.py", "cite", *chosen, cwd=tmp_path).stdout
    (tmp_path / "papers.bib").write_text(bib, encoding="utf-8")
    (tmp_path / "paper.tex").write_text(PAPER, encoding="utf-8")
    messages = compile_paper(tmp_path)
    assert not re.search(r"undefined|Overfull|^Warning--(?!.*xnmt_bench)", messages, re.MULTILINE)
    table = (tmp_path / "results" / "fidelity.tex").read_text(encoding="utf-8")
    assert (r"\begin{table}" in table) == bool(rows)
    text = (tmp_path / "paper.bbl").read_text(encoding="utf-8")
    assert text.count(r"\bibitem") == bib.count("@")


def test_bibtex_reads_every_reference(tmp_path):
    shutil.copy(REFERENCES, tmp_path / "papers.bib")
    (tmp_path / "paper.tex").write_text(
        "\\documentclass{article}\\begin{document}\\nocite{*}\\bibliographystyle{plain}"
        "\\bibliography{papers}\\end{document}",
        encoding="utf-8",
    )
    messages = compile_paper(tmp_path)
    assert "Warning" not in messages.partition("This is BibTeX")[2]
    text = (tmp_path / "paper.bbl").read_text(encoding="utf-8")
    assert text.count(r"\bibitem") == len(references())
