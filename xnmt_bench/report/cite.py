"""What a report has to cite: versions, and the papers behind its rows as BibTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from xnmt_bench.errors import ConfigError, MissingError, XnmtError
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import Metric
from xnmt_bench.registry import KINDS, entries, load
from xnmt_bench.report.report import collect
from xnmt_bench.report.selection import Selection

REFERENCES = Path(__file__).parents[1] / "references.bib"
ENTRY = re.compile(r"@\w+\{\s*([^\s,]+)\s*,.*?^\}", re.MULTILINE | re.DOTALL)
OWN = """\
@misc{{xnmt_bench,
  author = {{{{The xnmt\\_bench maintainers}}}},
  title = {{xnmt\\_bench: a benchmark of explanation methods for neural machine translation}},
  note = {{Version {}}},
}}"""


def cite(metrics: Iterable[Metric], results: Path, selection: Selection) -> str:
    """Return versions and BibTeX entries for the rows that a report shows.

    All lines beside the entries begin with `%`, so that the text can be saved as a `.bib` file.

    Args:
        metrics: of the report; those without rows are left out.
        results: the folder of results.
        selection: which rows are shown.

    Raises:
        MissingError: nothing was measured.
        ConfigError: the selection names what no row has.
        XnmtError: a class names a paper that is not known.
    """
    measured: list[tuple[Metric, Sequence[Measurement]]] = []
    missing: list[MissingError] = []
    for metric in metrics:
        try:
            # With the rows that follow from others, such as Comb, which a selection may name.
            rows = collect(metric, results, Draws(1, 0))
            measured.append((metric, [scored.measurement for scored in rows]))
        except MissingError as error:
            missing.append(error)
    if not measured:
        raise missing[0] if missing else ConfigError(["metric=[]: choose a metric"])
    selection.check(measured)
    shown = [(metric, [m for m in rows if selection.fits(metric, m)]) for metric, rows in measured]
    used = dict(_used(shown))
    texts, users = _entries(used)
    parts = [_versions(m for _, rows in shown for m in rows)]
    if nameless := [name for name, papers in used.items() if not papers]:
        parts.append(f"% Without a paper: {', '.join(nameless)}.")
    parts += [f"% {', '.join(users[key])}\n{texts[key]}" for key in sorted(texts)]
    parts.append(OWN.format(version("xnmt_bench")))
    return "\n\n".join(parts)


def _versions(rows: Iterable[Measurement]) -> str:
    """Return the versions of this package and of the libraries that made what is behind rows."""
    numbers: dict[str, set[str]] = {}
    for measurement in rows:
        for library, versions in measurement.facts.versions.items():
            numbers.setdefault(library, set()).update(versions)
    named = [f"{library} {' and '.join(sorted(numbers[library]))}" for library in sorted(numbers)]
    made_with = f"; rows made with {', '.join(named)}" if named else ""
    return f"% xnmt_bench {version('xnmt_bench')}{made_with}."


def _used(
    shown: Sequence[tuple[Metric, Sequence[Measurement]]],
) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each metric, judge and explainer of rows, such as `judge base`, with its papers."""
    for metric, rows in shown:
        if not rows:
            continue
        yield f"metric {metric.name}", metric.papers
        judges = {m.facts.judge for m in rows}
        explainers = {str(m.identity.get("explainer", "")) for m in rows}
        # The name of a row may have options behind it, such as `attention[layer=0]`.
        explainers = {re.match(r"\w*", name)[0] for name in explainers}  # type: ignore[index]
        for kind, names in {"judges": judges, "explainers": explainers}.items():
            # Other names are of files, or of packages that are not installed.
            for name in sorted(names & entries(kind).keys()):
                yield f"{KINDS[kind].noun} {name}", load(kind, name).papers


def _entries(used: Mapping[str, Sequence[str]]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the text of each BibTeX entry by its key, and what names it.

    Raises:
        XnmtError: a paper is neither a key of `references.bib` nor an entry, or two entries of one
            key differ.
    """
    shipped = references()
    texts: dict[str, str] = {}
    users: dict[str, list[str]] = {}
    for name, papers in used.items():
        for paper in papers:
            entry = ENTRY.fullmatch(shipped.get(paper, paper.strip()))
            if entry is None:
                problem = "is no key of references.bib and no BibTeX entry"
                raise XnmtError(f"{name}: papers: {paper.splitlines()[0]!r} {problem}")
            key, text = entry[1], entry[0]
            if texts.setdefault(key, text) != text:
                raise XnmtError(f"{name}: papers: another entry has the key {key!r}")
            users.setdefault(key, []).append(name)
    return texts, users


def references() -> dict[str, str]:
    """Return the entries of `references.bib` by their keys."""
    return {match[1]: match[0] for match in ENTRY.finditer(REFERENCES.read_text(encoding="utf-8"))}
