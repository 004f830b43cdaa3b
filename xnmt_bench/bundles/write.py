"""Writes a bundle of what a report shows: rows with their units, tables, configuration, records."""

from __future__ import annotations

import json
import logging
import os
import platform
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import hydra
import yaml
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from xnmt_bench.bundles.archive import write_archive
from xnmt_bench.bundles.card import card
from xnmt_bench.bundles.records import records
from xnmt_bench.bundles.rows import check_row
from xnmt_bench.measuring.measurement import FILES, FOLDER, ScoredRow, described_rows
from xnmt_bench.measuring.metric import Metric
from xnmt_bench.rerun import ELSEWHERE

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Report:
    """What a bundle is made of.

    Attributes:
        scored: metrics with their rows, by name.
        results: the folder that they were read from.
        tables: the files of tables that the report wrote.
        verdicts: what the rows say, a sentence each.
        samples: how often intervals were bootstrapped.
        command: the one that reports.
        author: who publishes the bundle.
    """

    scored: Mapping[str, tuple[Metric, Sequence[ScoredRow]]]
    results: Path
    tables: Sequence[Path]
    verdicts: Sequence[str]
    samples: int
    command: str = ""
    author: str | None = None


def write_bundle(report: Report, path: Path) -> str:
    """Write a bundle; it holds no path of this machine, unless the error of a failed row names one.

    Args:
        report: what it is made of.
        path: of the zip file.

    Returns:
        The SHA-256 of the file.

    Raises:
        StoreError: a row would be refused where the bundle is read.
    """
    rows = [row for _, rows in report.scored.values() for row in rows]
    members: dict[str, bytes | Path] = dict(_measured(report))
    members |= {f"tables/{table.name}": table for table in report.tables}
    commands = sorted({report.command, *(row.measurement.rerun for row in rows)} - {""})
    texts = {
        "card.md": card(report.scored, report.verdicts, report.author),
        "signatures.txt": _lines(sorted({row.signature for row in rows})),
        "commands.txt": _lines(commands),
        "versions.json": json.dumps(_versions(rows), indent=1),
        **_configurations(commands),
    }
    # As other tools do, so that the same rows can give the same bytes.
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    for name, record in records(report.scored, report.author, report.samples, seconds).items():
        text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
        texts[f"every_eval_ever/{name}.json"] = text
    members |= {name: text.encode() for name, text in texts.items()}
    return write_archive(path, members, report.author or "")


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _measured(report: Report) -> Iterable[tuple[str, Path]]:
    """Yield the files of every row of the reported metrics, by their names in the bundle.

    Raises:
        StoreError: a row is damaged or impossible.
    """
    for name, (metric, _) in report.scored.items():
        folder = report.results / FOLDER / name
        for file, row in described_rows(folder, metric.identity):
            check_row(metric, file, row, str(file))
            files = [folder / FILES / kept for kept in row.files.values()]
            for part in (file, *([row.path] if row.path else []), *files):
                yield f"{FOLDER}/{part.relative_to(report.results / FOLDER).as_posix()}", part


def _versions(rows: Iterable[ScoredRow]) -> dict[str, object]:
    """Return the versions that wrote the bundle, and those that made what is behind its rows."""
    libraries: dict[str, set[str]] = {}
    for row in rows:
        for library, numbers in row.measurement.facts.versions.items():
            libraries.setdefault(library, set()).update(numbers)
    return {
        "xnmt_bench": version("xnmt_bench"),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "rows were made by": {name: sorted(numbers) for name, numbers in sorted(libraries.items())},
    }


def _configurations(commands: Sequence[str]) -> dict[str, str]:
    """Return the whole configuration of each command, as this version composes it."""
    if not GlobalHydra.instance().is_initialized():
        return {}
    texts = {}
    for number, command in enumerate(commands, 1):
        try:
            # Behind `python train.py`; an override may delete, as `~judge.evalx` does.
            overrides = shlex.split(command, comments=True)[2:]
            config = hydra.compose("config", overrides)
        # Of another version, or of a plug-in that is not installed here.
        except Exception as error:
            log.warning("no configuration of `%s` in the bundle: %s", command, error)
            continue
        values = OmegaConf.to_container(config)
        assert isinstance(values, dict)
        kept = {name: value for name, value in values.items() if name not in ELSEWHERE}
        text = yaml.safe_dump(kept, allow_unicode=True, sort_keys=False)
        texts[f"configuration/{number:03}.yaml"] = f"# {command}\n{text}"
    return texts
