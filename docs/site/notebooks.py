"""Runs the notebooks, which are text in git, and makes pages of them with what came out."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import jupytext
from nbclient import NotebookClient
from nbconvert import MarkdownExporter

FORMS = (".md", ".py")  # of jupytext


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
        with TemporaryDirectory() as place:
            NotebookClient(
                notebook, kernel_name="python3", resources={"metadata": {"path": place}}
            ).execute()
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
