"""The picture of the first page: one sentence's heatmap, and its methods under two judges.

    python docs/site/picture.py      # seconds: writes docs/recorded/figures/tatoeba.svg

The heatmap is made by the system that comes with the package. The bars are the rows in
`docs/recorded/tatoeba.zip`, which docs/recorded/tatoeba.md describes.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from zipfile import ZipFile

import xnmt_bench
from xnmt_bench.explanation.drawing import SVG_STYLE, draw_panel

RECORDED = Path(__file__).resolve().parents[1] / "recorded"
SENTENCE = "Meine Schwester hat ein rotes Auto gekauft."
EXPLAINER = "prediction_difference"
JUDGES = {"base": "judge: Base", "evalx_sa": "judge: EVAL-X"}
BLIND = ("lexicon", "nearest", "random")
WIDTH, HEIGHT, HEATMAP = 1000, 352, 470  # pixels of the picture, and of the heatmap's share
NAMES, ROW, TOP = 165, 26, 78  # pixels: names of methods, a line, and what stands above the lines


@dataclass(frozen=True)
class Bar:
    """A method's perplexity under a judge, with its 95 % interval."""

    name: str
    ppl: float
    low: float
    high: float


def read_bars(bundle: Path, judge: str) -> list[Bar]:
    """Return the bars of a judge, the best method first and blind ones behind."""
    with ZipFile(bundle) as archive:
        [table] = [name for name in archive.namelist() if Path(name).name == "fidelity.csv"]
        rows = [*csv.DictReader(io.StringIO(archive.read(table).decode("utf-8")))]
    bars = [
        Bar(row["explainer"], *(float(row[f"ppl{end}"]) for end in ("", "_low", "_high")))
        for row in rows
        if row["instantiation"] == judge and row["explainer"]
    ]
    return sorted(bars, key=lambda bar: (bar.name in BLIND, bar.ppl))


def text(x: float, y: float, content: str, attributes: str = "") -> str:
    """Return a text element."""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="var(--ink)" {attributes}>{escape(content)}</text>'


def draw_bars(bars: Sequence[Bar], heading: str, start: float, width: float) -> Iterator[str]:
    """Yield the elements of a judge's bars, on a logarithmic scale from 1."""
    most = max(math.log(bar.high) for bar in bars)
    yield text(start, TOP - 14, heading, 'font-weight="600"')
    best_blind = min(bar.ppl for bar in bars if bar.name in BLIND)
    for number, bar in enumerate(bars):
        y, share = TOP + ROW * number, math.log(bar.ppl) / most
        colour = "quiet" if bar.name in BLIND else "helps" if bar.ppl < best_blind else "hurts"
        size = f'width="{width * share:.1f}" height="{ROW - 8}"'
        yield f'<rect x="{start:.1f}" y="{y}" {size} rx="2" fill="var(--{colour})"/>'
        low, high = (start + width * math.log(end) / most for end in (bar.low, bar.high))
        interval = f'd="M{low:.1f} {y + 9}H{high:.1f}" stroke="var(--ink)" stroke-width="1.5"'
        yield f"<path {interval}/>"
        yield text(max(high, start + width * share) + 6, y + 14, f"{bar.ppl:.3g}")
    x, bottom = start + width * math.log(best_blind) / most, TOP + ROW * len(bars) - 4
    yield f'<path d="M{x:.1f} {TOP - 6}V{bottom}" stroke="var(--ink)" stroke-dasharray="3 3"/>'


def draw_picture(bundle: Path) -> str:
    """Return the picture as an SVG."""
    model = xnmt_bench.load("tatoeba_de_en", device="cpu")
    [explanation] = xnmt_bench.load_explainer(EXPLAINER)(model, [SENTENCE])
    title = f"{EXPLAINER.replace('_', ' ')}: which words mattered for each step"
    parts = [f'<svg x="16" y="26">{draw_panel(explanation.in_words().panel(title))}</svg>']
    by_judge = {judge: read_bars(bundle, judge) for judge in JUDGES}
    # Both judges in the order of the first.
    names = [bar.name for bar in by_judge["base"]]
    bars_start = HEATMAP + NAMES
    parts.append(text(HEATMAP, 39, "Held-out perplexity of each method: lower is better", BOLD))
    for number, name in enumerate(names):
        label = name.replace("_", " ") + " (blind)" * (name in BLIND)
        parts.append(text(bars_start - 8, TOP + ROW * number + 14, label, 'text-anchor="end"'))
    width = (WIDTH - bars_start) / len(JUDGES)
    for number, (judge, heading) in enumerate(JUDGES.items()):
        bars = {bar.name: bar for bar in by_judge[judge]}
        place = bars_start + width * number
        parts += draw_bars([bars[name] for name in names], heading, place, width - 70)
    bottom = TOP + ROW * len(names) + 14
    x = float(HEATMAP)
    for colour, meaning in COLOURS.items():
        size = f'y="{bottom - 10}" width="12" height="12" rx="2"'
        parts.append(f'<rect x="{x}" {size} fill="var(--{colour})"/>')
        parts.append(text(x + 18, bottom, meaning, SMALL))
        x += 40 + 6.6 * len(meaning)
    for number, line in enumerate(NOTES, start=1):
        parts.append(text(HEATMAP, bottom + 18 * number, line, SMALL))
    for number, line in enumerate(OF_HEATMAP, start=2):
        parts.append(text(18, bottom + 18 * number, line, SMALL))
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">'
    page = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="var(--page)"/>'
    return "\n".join([opening, SVG_STYLE, page, *parts, "</svg>", ""])


BOLD, SMALL = 'font-weight="600"', 'font-size="12"'
OF_HEATMAP = (
    "Shade: share of the step's greatest number.",
    "A dash: the word speaks against the step.",
)
COLOURS = {"helps": "better than the best blind row", "hurts": "worse", "quiet": "blind"}
NOTES = (
    "Dashed: the best blind row. Blind rows never ask the model.",
    "Base is the model itself, which sees the named words only.",
    "EVAL-X is a small model that learnt from words drawn at random.",
)


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=Path, default=RECORDED / "tatoeba.zip")
    parser.add_argument("--out", type=Path, default=RECORDED / "figures" / "tatoeba.svg")
    arguments = parser.parse_args()
    arguments.out.write_text(draw_picture(arguments.bundle), encoding="utf-8")
    print(f"written: {arguments.out}")


if __name__ == "__main__":
    main()
