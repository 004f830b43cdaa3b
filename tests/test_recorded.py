"""Tables and verdicts of the pages are printed anew from the rows in `docs/recorded/demo.zip`."""

import re
from zipfile import ZipFile

import pytest

from support.forked_commands import must_run
from support.paths import ROOT

DEMO = ROOT / "docs" / "recorded" / "demo.zip"
PAGES = {"README.md": ROOT / "README.md", "demo.md": ROOT / "docs" / "recorded" / "demo.md"}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """What the command prints of the recorded rows, and the table that it writes."""
    folder = tmp_path_factory.mktemp("recorded")
    ZipFile(DEMO).extractall(folder / "results" / "measurements")
    done = must_run("evaluate.py", "metric=[fidelity]", cwd=folder)
    table = (folder / "results" / "fidelity.md").read_text(encoding="utf-8")
    return re.sub(r"\s+", " ", done.stdout), rows_of(table)


def rows_of(page):
    """The rows of a page's Markdown tables: by system, if there is one, and explainer."""
    rows, headings = {}, []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line[:1] == "|" else []
        if not cells:
            headings = []
        elif not headings:
            headings = cells
        elif set(line) - set("|- ") and "explainer" in headings and "Base" in headings:
            row = dict(zip(headings, cells, strict=True))
            rows[row.get("NMT", "transformer_128"), row["explainer"]] = row
    return rows


@pytest.mark.parametrize("name", PAGES)
def test_a_table_has_the_recorded_numbers_and_marks(report, name):
    _, recorded = report
    page = PAGES[name].read_text(encoding="utf-8").partition("## Every explainer")[0]
    rows = rows_of(page)
    assert rows
    for key, row in rows.items():
        assert row.items() <= recorded[key].items()


@pytest.mark.parametrize("name", PAGES)
def test_a_verdict_is_printed_anew(report, name):
    printed, _ = report
    page = PAGES[name].read_text(encoding="utf-8").partition("## Every explainer")[0]
    verdicts = re.findall(r"(?m)^    (By [^\n]+(?:\n    [^\n]+)*)", page)
    assert verdicts
    for sentence in re.split(r"(?<=\.) (?=By )", re.sub(r"\s+", " ", " ".join(verdicts))):
        assert sentence in printed
