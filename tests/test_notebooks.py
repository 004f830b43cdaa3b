"""The notebooks of docs/notebooks: they run from an empty folder, and say what their text says.

`make docs` runs them too, for the site. The one that trains systems takes minutes.
"""

from __future__ import annotations

import re
import sys

import pytest

from support.paths import ROOT

SITE = ROOT / "docs" / "site"
NOTEBOOKS = ROOT / "docs" / "notebooks"
MINUTES = ("which_explanation",)
for needed in ("jupytext", "nbclient", "nbconvert", "ipykernel"):
    pytest.importorskip(needed, reason="needs the extra `docs`")
sys.path.insert(0, str(SITE))

import jupytext  # noqa: E402
import notebooks as builder  # noqa: E402


def outputs(name):
    """What came out of each cell of a notebook, as text and as HTML or SVG."""
    notebook = jupytext.read(NOTEBOOKS / f"{name}.md")
    builder.run(notebook)
    cells = []
    for cell in notebook.cells:
        parts = [o.get("text") or "".join(map(str, o.get("data", {}).values()))
                 for o in cell.get("outputs", [])]  # fmt: skip
        cells.append((cell.source, "\n".join(parts)))
    return cells


def of_cell(cells, words):
    """What came out of the cell that holds some words."""
    [output] = [output for source, output in cells if words in source and output]
    return output


def marked(path):
    mark = pytest.mark.slow if path.stem in MINUTES else pytest.mark.long
    return pytest.param(path.stem, marks=mark)


@pytest.mark.parametrize("name", map(marked, sorted(NOTEBOOKS.glob("*.md"))))
def test_notebooks_run(name):
    cells = outputs(name)
    everything = "\n".join(output for _, output in cells)
    # Neither a path of this machine nor a warning belongs into a page.
    assert "site-packages" not in everything and "Warning" not in everything
    checks = {"five_minutes": check_five_minutes, "which_explanation": check_which_explanation}
    checks[name](cells)


def check_five_minutes(cells):
    assert "dog" in of_cell(cells, "xnmt_bench.translate")
    assert "schläft" in of_cell(cells, "print(explanations[1])")
    # One picture, and three side by side.
    assert of_cell(cells, "= explainer(model").count("<svg") == 1
    assert "GradientNorm(" in of_cell(cells, '"saliency"')
    assert of_cell(cells, "xnmt_bench.compare").count("<svg") == 3
    table = of_cell(cells, "xnmt_bench.benchmark")
    assert all(name in table for name in ("attention", "prediction_difference", "random (blind)"))
    assert "By Base" in table and "<table" in table
    assert "ppl_low" in of_cell(cells, "to_frame()[")
    assert of_cell(cells, "load_explanations").strip().endswith("True")


def check_which_explanation(cells):
    verdict = of_cell(cells, "advantage_l")
    assert re.search(r"\bbase\b", verdict) and re.search(r"\bsa\b", verdict)
    assert "<svg" in of_cell(cells, "SVG(")
    assert "sa" in of_cell(cells, "fidelity_trial_judges")


def test_notebooks_are_text_without_outputs():
    """What came out belongs to the site, which is built anew."""
    paths = sorted(NOTEBOOKS.iterdir())
    assert {path.stem for path in paths} >= {"five_minutes", "which_explanation"}
    assert {path.suffix for path in paths} <= set(builder.FORMS)
    assert not [path for path in paths if "<svg" in path.read_text(encoding="utf-8")]


def test_a_cell_that_fails_is_an_error():
    from nbclient.exceptions import CellExecutionError

    with pytest.raises(CellExecutionError, match="no_such_name"):
        builder.run(jupytext.reads("```python\nno_such_name\n```\n", "md"))
