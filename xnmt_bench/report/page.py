"""One self-contained HTML page: every table, figure and section of a report."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from omegaconf import DictConfig, OmegaConf

from xnmt_bench.report.summary import Shown, to_html
from xnmt_bench.store import write_atomically

PAGE = "report.html"


def write_page(
    shown: Sequence[Shown], signatures: Sequence[str], config: DictConfig, results: Path
) -> Path:
    """Writes `report.html`: it needs no network and no other file.

    Args:
        shown: tables and figures, in reading order.
        signatures: of every number.
        config: the report's own configuration.
        results: the folder where the page goes.
    """
    environment = Environment(loader=PackageLoader("xnmt_bench.report", "."), autoescape=True)
    page = environment.get_template("page.html.jinja").render(
        tables=[
            {"name": s.name, "table": Markup(to_html(s.summary)), "figure": _embedded(s.figure)}
            for s in shown
        ],
        sections=[
            {"name": section.name, "title": section.title, "html": Markup(section.html)}
            for s in shown
            for section in s.sections
        ],
        config=OmegaConf.to_yaml(config, resolve=True),
        signatures=signatures,
    )
    write_atomically(results / PAGE, page)
    return results / PAGE


def _embedded(figure: Path | None) -> str | None:
    """A figure as a data URL, so that its identifiers cannot collide with another's."""
    if figure is None:
        return None
    return "data:image/svg+xml;base64," + base64.b64encode(figure.read_bytes()).decode()
