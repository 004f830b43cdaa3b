"""Runs the notebooks, which are text in git, and makes pages of them with what came out."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import jupytext
from nbclient import NotebookClient
from nbconvert import MarkdownExporter
from nbformat import NotebookNode

FORMS = (".md", ".py")  # of jupytext
MINUTES = 20  # most that a cell may take


def run(notebook: NotebookNode) -> None:
    """Run a notebook in an empty folder of its own, where `xnmt` is that of this Python.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
    """
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        # A page needs no bars of progress, nor a warning with a path of the machine in it.
        "PYTHONWARNINGS": "ignore:IProgress not found",
    }
    with TemporaryDirectory() as place:
        client = NotebookClient(
            notebook,
            timeout=60 * MINUTES,
            kernel_name="python3",
            resources={"metadata": {"path": place}},
        )
        client.execute(env=environment)


def write(source: Path, folder: Path) -> list[str]:
    """Run every notebook of a folder in an empty folder of its own, and write its page.

    Args:
        source: holds notebooks as text.
        folder: of the pages.

    Returns:
        The names of the pages in the site.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
    """
    names = []
    for path in sorted(p for p in source.glob("*") if p.suffix in FORMS):
        notebook = jupytext.read(path)
        run(notebook)
        # Pictures are files beside the page, named by it.
        resources = {"output_files_dir": f"{path.stem}_files", "unique_key": path.stem}
        text, resources = MarkdownExporter().from_notebook_node(notebook, resources)
        for name, content in resources["outputs"].items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{path.stem}.md").write_text(text, encoding="utf-8")
        names.append(f"{folder.name}/{path.stem}.md")
    return names
