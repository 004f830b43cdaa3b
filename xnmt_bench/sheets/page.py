"""The page of a sheet: one file that needs no network, and holds nothing of the key."""

from __future__ import annotations

import json
from typing import Any

from jinja2 import Environment, PackageLoader

from xnmt_bench.sheets.files import COMMENT, Sheet
from xnmt_bench.sheets.sheet import Heatmap, Item, Question


def sheet_page(sheet: Sheet, name: str) -> str:
    """Return the page.

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
