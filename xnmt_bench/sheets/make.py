"""Makes the sheet of a command line."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from xnmt_bench.registry import instantiate
from xnmt_bench.sheets.files import Sheet, write_sheet
from xnmt_bench.sheets.page import sheet_page
from xnmt_bench.sheets.sheet import SheetKind

log = logging.getLogger(__name__)
FOLDER = "sheets"  # of the results
# What stands beside a kind's own options.
COMMON = ("items", "seed", "name", "path", "key", "format")


def make_sheet(config: DictConfig, results: Path) -> list[Path]:
    """Draw a sheet from results, and write its page, its CSV and its key.

    Args:
        config: the whole configuration, with a chosen sheet.
        results: the folder of results, from which the items are drawn.

    Returns:
        The files.
    """
    node: dict[str, Any] = OmegaConf.to_container(config.sheet, resolve=True)  # type: ignore[assignment]
    options = {name: value for name, value in node.items() if name not in COMMON}
    kind: SheetKind = instantiate("sheet", options)
    sheet = Sheet(kind, kind.draw(results, config.sheet["items"], config.sheet.seed))
    name = config.sheet.name or kind.name
    paths = write_sheet(sheet, sheet_page(sheet, name), results / FOLDER, name)
    log.info("%d items to be answered: %s, or %s", len(sheet.items), paths[0], paths[1])
    log.info("where they are from, not for those who answer: %s", paths[2])
    log.info(
        "to read the answers: python evaluate.py metric=[annotation] sheet.path=[...] sheet.key=%s",
        paths[2],
    )
    return paths
