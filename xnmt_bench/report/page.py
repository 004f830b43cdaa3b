"""One self-contained HTML page: every table and figure of a report."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from xnmt_bench.report.overview import Overview
from xnmt_bench.report.summary import ShownTable, to_html
from xnmt_bench.store import write_atomically

PAGE = "report.html"


def write_page(
    about: Overview,
    verdicts: Sequence[str],
    definitions: Mapping[str, str],
    shown: Sequence[ShownTable],
    signatures: Sequence[str],
    reruns: Sequence[str],
    results: Path,
    debug: Path | None = None,
) -> Path:
    """Write `report.html`, which needs no network and no other file.

    Args:
        about: the systems, the test sets, and the words of the tables.
        verdicts: what the rows say, a sentence each.
        definitions: what each column of the tables is, by its heading.
        shown: tables and figures, in reading order.
        signatures: of every number.
        reruns: the commands that make the rows again.
        results: where the page goes.
        debug: the page beside it on which sentences are read, if there is one.
    """
    tables: list[dict[str, str | None]] = []
    for shown_table in shown:
        figure = None
        if shown_table.figure:
            # As a data URL, so that its identifiers cannot collide with another's.
            svg = base64.b64encode(shown_table.figure.read_bytes()).decode()
            figure = f"data:image/svg+xml;base64,{svg}"
        table = Markup(to_html(shown_table.summary))  # escaped already
        tables.append({"name": shown_table.name, "table": table, "figure": figure})
    environment = Environment(loader=PackageLoader("xnmt_bench.report", "."), autoescape=True)
    page = environment.get_template("page.html.jinja").render(
        about=about,
        verdicts=verdicts,
        definitions=definitions,
        tables=tables,
        reruns=reruns,
        signatures=signatures,
        debug=debug and debug.name,
    )
    write_atomically(results / PAGE, page)
    return results / PAGE
