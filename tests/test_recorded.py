"""Tables and verdicts of pages are printed anew from the recorded rows in `docs/recorded`."""

import re
from zipfile import ZipFile

import pytest

from support.forked_commands import must_run
from support.paths import ROOT

RECORDED = ROOT / "docs" / "recorded"
# A page, and what holds its rows: a bundle, or a folder of measurements.
PAGES = {
    "README.md": (ROOT / "README.md", "tatoeba.zip"),
    "demo.md": (RECORDED / "demo.md", "demo.zip"),
}


@pytest.fixture(scope="module", params=PAGES)
def recorded_page(request, tmp_path_factory):
    """A page, what the command prints of its rows, and the table that it writes."""
    page, rows = PAGES[request.param]
    folder, results = tmp_path_factory.mktemp("recorded"), []
    if "card.md" in ZipFile(RECORDED / rows).namelist():
        results = [f"results={RECORDED / rows}", "pooled=results"]
    else:
        ZipFile(RECORDED / rows).extractall(folder / "results" / "measurements")
    done = must_run("evaluate.py", "metric=[fidelity]", *results, cwd=folder)
    table = (folder / "results" / "fidelity.md").read_text(encoding="utf-8")
    text = page.read_text(encoding="utf-8").partition("## Every explainer")[0]
    return text, re.sub(r"\s+", " ", done.stdout), rows_of(table)


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


def test_a_table_has_the_recorded_numbers_and_marks(recorded_page):
    page, _, recorded = recorded_page
    rows = rows_of(page)
    assert rows
    for key, row in rows.items():
        assert row.items() <= recorded[key].items()


def test_a_verdict_is_printed_anew(recorded_page):
    page, printed, _ = recorded_page
    verdicts = re.findall(r"(?m)^    (By [^\n]+(?:\n    [^\n]+)*)", page)
    assert verdicts
    for sentence in re.split(r"(?<=\.) (?=By )", re.sub(r"\s+", " ", " ".join(verdicts))):
        assert sentence in printed
