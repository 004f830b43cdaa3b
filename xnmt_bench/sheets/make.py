"""Makes the sheet of a command line."""

from __future__ import annotations

import logging
from pathlib import Path

from xnmt_bench.pipeline.settings import SheetSettings
from xnmt_bench.registry import instantiate
from xnmt_bench.sheets.files import Sheet, write_sheet
from xnmt_bench.sheets.page import sheet_page
from xnmt_bench.sheets.sheet import SheetKind

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
    log.info(
        "to read the answers: python evaluate.py metric=[annotation] sheet.path=[...] sheet.key=%s",
        paths[2],
    )
    return paths
