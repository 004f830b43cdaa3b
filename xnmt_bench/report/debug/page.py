"""Writes `debug.html`, which needs no network and no other file.

Order of the page: listings stand as `metric=[...]` names the metrics, and within a metric as its
`listings` yields them; entries stand by their number until the reader sorts them (`list.js`).
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader

from xnmt_bench.measuring.listing import Listing
from xnmt_bench.report.debug.pack import packed
from xnmt_bench.store import write_atomically

log = logging.getLogger(__name__)
DEBUG = "debug.html"
LARGE = 50_000_000  # characters of a page that a browser takes its time for


def write_debug_page(listings: Sequence[Listing], results: Path) -> Path | None:
    """Write the page of all listings; without any, remove an older page.

    Args:
        listings: in the order in which they can be chosen.
        results: where the page goes.

    Returns:
        The page; None where there is nothing to be read.
    """
    if not listings:
        # An older page would show sentences of other results.
        (results / DEBUG).unlink(missing_ok=True)
        return None
    environment = Environment(loader=PackageLoader("xnmt_bench.report.debug", "."))
    # Inside the page, which is then one file that needs no server.
    data = base64.b64encode(packed(listings)).decode()
    page = environment.get_template("page.html.jinja").render(data=data)
    if len(page) > LARGE:
        log.warning(
            "%s has %d MB; metrics by themselves make smaller pages", DEBUG, len(page) // 10**6
        )
    write_atomically(results / DEBUG, page)
    return results / DEBUG
