"""Makes the sheet of a command line, and its page: one file that needs no network."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader

from xnmt_bench.pipeline.settings import SheetSettings
from xnmt_bench.registry import instantiate
from xnmt_bench.sheets.files import COMMENT, Sheet, write_sheet
from xnmt_bench.sheets.sheet import Heatmap, Item, Question, SheetKind

log = logging.getLogger(__name__)
FOLDER = "sheets"  # of the results


def make_sheet(settings: SheetSettings, results: Path) -> list[Path]:
    """Draw a sheet from results, and write its page, its CSV and its key.

    Args:
        settings: the section, with a chosen sheet.
        results: the folder of results, from which the items are drawn.

    Returns:
        The files.
    """
    kind: SheetKind = instantiate("sheet", settings.node)
    sheet = Sheet(kind, kind.draw(results, settings.items, settings.seed))
    name = settings.name or kind.name
    paths = write_sheet(sheet, sheet_page(sheet, name), results / FOLDER, name)
    log.info("%d items to be answered: %s, or %s", len(sheet.items), paths[0], paths[1])
    log.info("where they are from, not for those who answer: %s", paths[2])
    command = "python evaluate.py metric=[annotation] sheet.path=[...]"
    log.info("to read the answers: %s sheet.key=%s", command, paths[2])
    return paths


def sheet_page(sheet: Sheet, name: str) -> str:
    """Return the page, which holds nothing of the key.

    Args:
        sheet: the questions and items.
        name: of the CSV that the page saves.
    """
    data = {
        "sheet": sheet.identifier,
        "file": f"{name}.csv",
        "header": sheet.header,
        "comment": COMMENT,
        "questions": [_question(question) for question in sheet.kind.questions],
        "rows": sheet.rows(),
        "items": [_item(item) for item in sheet.items],
    }
    # A text may hold `</script>` or `<!--`.
    escaped = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    environment = Environment(
        loader=PackageLoader("xnmt_bench.sheets", "."), autoescape=True, keep_trailing_newline=True
    )
    return environment.get_template("page.html.jinja").render(
        data=escaped, title=sheet.kind.title, instruction=sheet.kind.instruction
    )


def _question(question: Question) -> dict[str, Any]:
    return {
        "name": question.name,
        "text": question.text,
        "choices": list(question.choices.items()),
        "keys": question.keys,
        "words_of": question.words_of,
        "only_if": question.only_if and [question.only_if[0], list(question.only_if[1])],
    }


def _item(item: Item) -> dict[str, Any]:
    # Neither the key nor the cause: the page's source must not tell where an item is from.
    texts = [
        {"heading": text.heading, "words": list(text.words), "marked": list(text.marked)}
        for text in item.texts
    ]
    return {"texts": texts, "heatmap": item.heatmap and _heatmap(item.heatmap)}


def _heatmap(heatmap: Heatmap) -> dict[str, Any]:
    return {
        "rows": list(heatmap.rows),
        "columns": list(heatmap.columns),
        # Enough for a shade; full digits would make most of the file.
        "weights": heatmap.weights_RC.round(3).tolist(),
        "framed": [list(cell) for cell in heatmap.framed],
    }
