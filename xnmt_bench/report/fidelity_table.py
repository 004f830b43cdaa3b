"""The fidelity table as it is read: one line an explainer and k, one column an instantiation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from xnmt_bench.report.fidelity import COLUMNS, FAMILY, scenario_text, unusual
from xnmt_bench.report.summary import (
    GENERATED,
    Cell,
    Line,
    Row,
    Summary,
    common,
    digits,
    quality_text,
    system_name,
    write_summary,
)

SHOWN = ("base", "fn", "rn", "sa", "comb")
HEADINGS = {"base": "Base", "fn": "FN", "rn": "RN", "sa": "SA", "comb": "Comb"}
REFERENCES = ("unigram", "nmt")
KEY = (
    *("corpus", "lang_pair", "nmt", "model"),
    *("scenario", "learned_from", "train_sentences", "k", "explainer"),
)
# What distinguishes lines, and how it is said in the title where it does not.
FORMS = {
    "corpus": "{}",
    "NMT": "{}",
    "scenario": "{}",
    "sentences": "{} training sentences",
    "k": "k = {}",
}
TITLE = "Fidelity: perplexity of proxies"
KL_TITLE = "Disagreement: KL divergence of proxies"
KL_NOTE = (
    "KL divergence in nats of the proxy's distribution from the NMT model's, over the NMT model's "
    "top words and the rest as one, with its 95 % bootstrap interval over sentences; lower is more "
    "faithful. Several seeds: their mean, and the union of their intervals."
)
NOTE = (
    "PPL of the proxies on held-out decisions, with its 95 % bootstrap interval over sentences; "
    "lower is more faithful. Several seeds: their mean, and the union of their intervals."
)


def summarise(rows: Sequence[Row]) -> Summary:
    """Pivots the rows; the lines of a system go from the most faithful explainer to the least."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["instantiation"] not in (*REFERENCES, "comb_valid"):
            groups.setdefault(tuple(row[c] for c in KEY), []).append(row)
    keys = sorted(groups, key=lambda key: (*map(str, key[:-3]), *key[-3:-1], best(groups[key])))
    named: set[str] = {row["instantiation"] for row in rows} - {*REFERENCES, "comb_valid"}
    present = [i for i in SHOWN if i in named] + sorted(named - set(SHOWN))
    hits = any(row["hit_at_k"] != "" for row in rows)
    texts = {key: _key_texts(key, rows) for key in keys}
    varying, said = common(list(texts.values()), FORMS)
    if "scenario" in varying:
        for key, text in texts.items():
            text["scenario"] = scenario_text(dict(zip(KEY, key, strict=True)))
    lines = []
    for key in keys:
        cells = [Cell(texts[key][name]) for name in (*varying, "explainer")]
        cells += [_cell(groups[key], i) for i in present]
        lines.append(Line(key[:-1], cells + ([_hit(groups[key])] if hits else [])))
    headings = [*varying, "explainer", *(HEADINGS.get(i, i) for i in present)]
    return Summary(", ".join([TITLE, *said]), headings + ["hit@k"] * hits, lines, _notes(rows))


def _key_texts(key: tuple[Any, ...], rows: Sequence[Row]) -> dict[str, str]:
    row = dict(zip(KEY, key, strict=True))
    return {
        "corpus": f"{row['corpus']} {row['lang_pair']}",
        "NMT": system_name(row["nmt"], row["model"], rows),
        "scenario": unusual(row),
        "sentences": f"{row['train_sentences']:,}",
        "k": str(row["k"]),
        "explainer": row["explainer"],
    }


def best(group: Sequence[Row]) -> float:
    """The least perplexity of an explainer's trained proxies; Base's where there is none."""
    trained = [r["ppl"] for r in group if r["ppl"] != "" and r["instantiation"] in FAMILY]
    return min(trained or [r["ppl"] for r in group if r["ppl"] != ""] or [float("inf")])


def _cell(group: Sequence[Row], instantiation: str) -> Cell:
    rows = [r for r in group if r["instantiation"] == instantiation]
    numbers = [r for r in rows if r["ppl"] != ""]
    if not numbers:
        # What is n/a for one instantiation is n/a for all: it is the explainer that says nothing.
        without = [r for r in group if r["status"] == "n/a"]
        return Cell(next((r["status"].split(":")[0] for r in [*rows, *without]), ""))
    value = mean(r["ppl"] for r in numbers)
    low, high = min(r["ppl_low"] for r in numbers), max(r["ppl_high"] for r in numbers)
    return Cell(f"{digits(value)} [{digits(low)}, {digits(high)}]", value)


def _hit(rows: Sequence[Row]) -> Cell:
    values = [r["hit_at_k"] for r in rows if r["hit_at_k"] != ""]
    return Cell(f"{100 * mean(values):.1f} %" if values else "")


def _notes(rows: Sequence[Row]) -> list[str]:
    notes = [NOTE]
    if any(row["corpus"] == "toy" for row in rows):
        notes.append(GENERATED)
    said = {
        "unigram": "the labels' own distribution, which no rule can help",
        "nmt": "the NMT model's own, with its whole context",
    }
    for row in rows:
        if row["instantiation"] in REFERENCES and row["ppl"] != "":
            name = system_name(row["nmt"], row["model"], rows)
            system = f"{row['corpus']} {row['lang_pair']} {name}"
            name = row["instantiation"]
            of = f" of {row['train_sentences']:,} sentences" if name == "unigram" else ""
            of += f" ({scenario})" if (scenario := unusual(row)) else ""
            notes.append(f"{system}: PPL {digits(row['ppl'])} for {name}{of}, {said[name]}.")
        if facts := row.get("quality"):
            notes[-1] += f" Its translations: {quality_text(facts)}."
    return notes


def summarise_kl(rows: Sequence[Row]) -> Summary | None:
    """The same pivot of KL divergences, where there are any."""
    measured = [
        row | {f"ppl{end}": row[f"kl{end}"] for end in ("", "_low", "_high")}
        for row in rows
        if row["kl"] != "" and not row["instantiation"].startswith("comb")
    ]
    if not measured:
        return None
    pivoted = summarise(measured)
    title = pivoted.title.replace(TITLE, KL_TITLE)
    generated = [GENERATED] * any(row["corpus"] == "toy" for row in measured)
    return replace(pivoted, title=title, notes=[KL_NOTE, *generated])


def write_tables(rows: Sequence[Row], results: Path) -> Summary:
    """Writes `fidelity.csv`, `.txt`, `.md` and `.tex`; gives the summary back.

    Where KL divergences are measured, `kl.*` too.
    """
    summary = summarise(rows)
    write_summary("fidelity", rows, COLUMNS, summary, results)
    if kl := summarise_kl(rows):
        write_summary("kl", rows, COLUMNS, kl, results)
    return summary
