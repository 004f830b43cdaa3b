"""The table of attention over coreference links as it is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xnmt_bench.report.coreference import COLUMNS, METRICS, SUBSETS
from xnmt_bench.report.summary import (
    GENERATED,
    Cell,
    Line,
    Row,
    Summary,
    common,
    quality_text,
    system_name,
    write_summary,
)

FORMS = {"corpus": "{}", "NMT": "{}", "side": "{} side", "links of": "{} links"}
HEADINGS = (
    "max-weight %",
    "non-zero %",
    "average",
    "naive %",
    "precision %",
    "dispersion",
    "links",
)
TITLE = "Attention over coreference links"
NOTE = (
    "Of links between a mention and one of its chain in a context sentence: the share with the "
    "greatest weight of that sentence, the share with a significant weight, the mean weight; with "
    "95 % bootstrap intervals over sentences; higher is better. Precision: of mentions with an "
    "antecedent in the context and any significant attention there, how many look at a right one. "
    "Dispersion: attended words a word, function words and punctuation behind the +. Context "
    "needed: as annotated; elsewhere a heuristic, the current sentence names no antecedent. Hard: "
    "a content word of the mention is none of the antecedent's."
)


def summarise(rows: Sequence[Row]) -> Summary:
    """One line an explainer, side and kind of link; the best explainer first."""
    subsets = list(SUBSETS)
    shown = [row for row in rows if row["links"] != 0]
    ordered = sorted(
        shown, key=lambda r: (*_system(r), r["side"], subsets.index(r["links_of"]), -_number(r))
    )
    texts = [
        {
            "corpus": f"{row['corpus']} {row['lang_pair']}",
            "NMT": system_name(row["nmt"], row["model"], rows),
            "side": row["side"],
            "links of": row["links_of"],
        }
        for row in ordered
    ]
    varying, said = common(texts, FORMS)
    lines = [
        Line(
            (*_system(row), row["side"], row["links_of"]),
            [Cell(text[name]) for name in varying] + [Cell(_explainer(row)), *_cells(row)],
        )
        for row, text in zip(ordered, texts, strict=True)
    ]
    notes = [NOTE] + [GENERATED] * any(row["corpus"] == "toy" for row in rows)
    notes += dict.fromkeys(_of_system(row, rows) for row in ordered if row.get("quality"))
    return Summary(", ".join([TITLE, *said]), [*varying, "explainer", *HEADINGS], lines, notes)


def _system(row: Row) -> tuple[Any, ...]:
    return tuple(row[c] for c in ("corpus", "lang_pair", "nmt", "model"))


def _of_system(row: Row, rows: Sequence[Row]) -> str:
    name = system_name(row["nmt"], row["model"], rows)
    share = 100 * row["match_rate"]
    return (
        f"{row['corpus']} {row['lang_pair']} {name}: {quality_text(row['quality'])}. Its "
        f"translations have {share:.1f} % of the words of the reference's mentions."
    )


def _number(row: Row) -> float:
    return -1.0 if row["nonzero"] == "" else row["nonzero"]


def _explainer(row: Row) -> str:
    return row["explainer"] + (f" (seed {row['seed']})" if row["seed"] != "" else "")


def _cells(row: Row) -> list[Cell]:
    if row["nonzero"] == "":
        return [Cell(row["status"].split(":")[0]), *[Cell("")] * (len(HEADINGS) - 1)]
    shares = [_interval(row, metric, 100, 1) for metric in METRICS[:2]]
    dispersion = ""
    if row["dispersion"] != "":
        dispersion = f"{row['dispersion']:.2f} + {row['dispersion_function']:.2f}"
    precision = "" if row["precision"] == "" else f"{100 * row['precision']:.1f}"
    return [
        *shares,
        _interval(row, "average", 1, 3),
        Cell(f"{100 * row['naive']:.1f}"),
        Cell(precision),
        Cell(dispersion),
        Cell(f"{row['links']:,}"),
    ]


def _interval(row: Row, metric: str, scale: int, digits: int) -> Cell:
    value, low, high = (scale * row[f"{metric}{end}"] for end in ("", "_low", "_high"))
    return Cell(f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]")


def write_tables(rows: Sequence[Row], results: Path) -> Summary:
    """Writes `coref_attention.csv`, `.txt`, `.md` and `.tex`; gives the summary back."""
    summary = summarise(rows)
    write_summary("coref_attention", rows, COLUMNS, summary, results)
    return summary
