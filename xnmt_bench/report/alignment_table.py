"""The table of alignment error rates as it is read, beside fidelity where that is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xnmt_bench.report.agreement import Agreement
from xnmt_bench.report.alignment import COLUMNS
from xnmt_bench.report.summary import (
    GENERATED,
    Cell,
    Line,
    Row,
    Summary,
    common,
    system_name,
    write_summary,
)

KEY = ("corpus", "lang_pair", "nmt", "model")
FORMS = {"corpus": "{}", "NMT": "{}", "alignment": "{} links"}
TITLE = "Alignment error rate"
NOTE = (
    "AER against the gold alignment in %, with its 95 % bootstrap interval over sentence pairs; "
    "lower is closer to human annotators, which says nothing of the model."
)


def summarise(rows: Sequence[Row], agreements: Sequence[Agreement]) -> Summary:
    """One line an explainer and direction, from the least AER of a system to the greatest.

    Where the fidelity of the same explainers is known, its rank stands beside AER's, as in Table 7
    of Li et al. (2020).
    """
    ordered = sorted(rows, key=lambda r: (*_system(r), _number(r["aer"])))
    texts = [
        {
            "corpus": f"{row['corpus']} {row['lang_pair']}",
            "NMT": system_name(row["nmt"], row["model"], rows) if row["nmt"] else "",
            "alignment": row["alignment"],
        }
        for row in ordered
    ]
    varying, said = common(texts, FORMS)
    ranks = {(a.system, name): place for a in agreements for name, place in a.places.items()}
    lines = []
    for row, text in zip(ordered, texts, strict=True):
        cells = [Cell(text[name]) for name in varying] + [Cell(_explainer(row))]
        if agreements:
            forward = row["alignment"] == "forward"
            place = ranks.get((_system(row), row["explainer"])) if forward else None
            cells += [Cell(x) for x in (place.texts() if place else ("", "", ""))]
        lines.append(Line(_system(row), cells + _cells(row)))
    fidelity = ["SA PPL", "by PPL", "by AER"] if agreements else []
    headings = [*varying, "explainer", *fidelity, "AER %", "precision", "recall", "links"]
    return Summary(", ".join([TITLE, *said]), headings, lines, _notes(rows, agreements))


def _system(row: Row) -> tuple[Any, ...]:
    return tuple(row[c] for c in KEY)


def _number(value: Any) -> float:
    return float("inf") if value == "" else value


def _explainer(row: Row) -> str:
    return row["explainer"] + (f" (seed {row['seed']})" if row["seed"] != "" else "")


def _cells(row: Row) -> list[Cell]:
    if row["aer"] == "":
        return [Cell(row["status"].split(":")[0]), Cell(""), Cell(""), Cell("")]
    interval = f"{100 * row['aer']:.1f} [{100 * row['aer_low']:.1f}, {100 * row['aer_high']:.1f}]"
    shares = [Cell(f"{100 * row[c]:.1f} %") for c in ("precision", "recall")]
    return [Cell(interval, row["aer"]), *shares, Cell(f"{row['links']:,}")]


def _notes(rows: Sequence[Row], agreements: Sequence[Agreement]) -> list[str]:
    notes = [NOTE]
    if any(row["corpus"] == "toy" for row in rows):
        notes.append(GENERATED)
    said = {
        f"{r['corpus']} {r['lang_pair']}: {100 * r['no_link']:.1f} % of the target words have no "
        f"gold link and {100 * r['no_sure_link']:.1f} % no sure one; AER cannot judge them, "
        f"fidelity can."
        for r in rows
        if r["no_link"] != ""
    }
    return [*notes, *sorted(said), *(str(a) for a in agreements)]


def write_tables(rows: Sequence[Row], agreements: Sequence[Agreement], results: Path) -> Summary:
    """Writes `aer.csv`, `.txt`, `.md` and `.tex`; gives the summary back."""
    summary = summarise(rows, agreements)
    write_summary("aer", rows, COLUMNS, summary, results)
    return summary
