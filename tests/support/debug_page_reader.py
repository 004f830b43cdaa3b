"""Reads back what `debug.html` holds, as its format is described, without the page's own script."""

import base64
import gzip
import json
import re
import struct
from pathlib import Path

import numpy as np


def read_listings(page: Path) -> list[dict]:
    """The listings: texts and columns by name, and of each entry its tokens, levels and scores."""
    text = re.search(
        r'<script id="data" type="application/octet-stream">(.*?)</script>',
        page.read_text(encoding="utf-8"), re.DOTALL,
    )[1]  # fmt: skip
    content = gzip.decompress(base64.b64decode(text))
    [size] = struct.unpack("<I", content[:4])
    head = json.loads(content[4 : 4 + size])
    at = 4 + size
    for listing in head["listings"]:
        count = len(listing["numbers"])
        listing["values"] = {}
        for name in listing["columns"]:
            listing["values"][name] = np.frombuffer(content, "<f8", count, at)
            at += 8 * count
    for listing in head["listings"]:
        listing["texts"] = {
            name: [head["pool"][place] for place in places]
            for name, places in listing["texts"].items()
        }
        listing["shown"] = []
        for matrix in listing.get("matrices", []):
            rows, row_words = head["pool"][matrix["rows"]]
            columns, column_words = head["pool"][matrix["columns"]]
            shape = (len(rows), len(columns))
            shown = matrix | {"rows": rows, "columns": columns, "row_words": row_words}
            shown["levels"] = np.frombuffer(content, np.uint8, len(rows) * len(columns), at)
            shown["levels"] = shown["levels"].reshape(shape)
            at += len(rows) * len(columns)
            sizes = [("pieces", *shape)]
            if listing["words"]:
                words = [
                    len(lengths) + (sum(lengths) < len(tokens))
                    for tokens, lengths in ((rows, row_words), (columns, column_words))
                ]
                sizes.append(("words", *words))
            for unit, height, width in sizes:
                shown[unit] = {}
                for names, length in (
                    (listing["rowScores"], height),
                    (listing["columnScores"], width),
                ):
                    for name in names:
                        shown[unit][name] = np.frombuffer(content, np.uint8, length, at)
                        at += length
            listing["shown"].append(shown)
    assert at == len(content)
    return head["listings"]
