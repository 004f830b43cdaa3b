"""What other tools made: `X.path X.format X.name`, alike for every X."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.code_hash import code_hash
from xnmt_bench.corpora.formats.annotated import read_annotated
from xnmt_bench.corpora.formats.pecore import read_cues, read_sensitivity
from xnmt_bench.corpora.sentence import SIDES
from xnmt_bench.corpora.text import present, text_lines
from xnmt_bench.dumps import Dump
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.parsing import parse_json, parse_number
from xnmt_bench.pipeline.settings import InputSettings, Settings
from xnmt_bench.registry import entries, load, unknown
from xnmt_bench.rules.table import SentenceRelevance, relevance
from xnmt_bench.store import META, Artefact, file_hash, fingerprint, verified


def _texts(path: Path) -> Iterator[str]:
    """Yield one text a line; an empty translation is a translation too."""
    return (text for _, text in text_lines(path))


def _numbers(path: Path) -> np.ndarray:
    numbers = []
    for number, text in enumerate(map(str.strip, _texts(path)), start=1):
        try:
            numbers.append(parse_number(text))
        except ValueError:
            raise DataError(path, number, f"{text!r} is not a number") from None
        # Infinite scores would compare, and hide a system that fails.
        if not np.isfinite(numbers[-1]):
            raise DataError(path, number, f"{text} is not a finite number")
    return np.asarray(numbers)


def _relevance(path: Path) -> list[SentenceRelevance]:
    """Return this project's Parquet shards, as `store/rules/<fingerprint>` holds them."""
    for shard in sorted((path / "test").glob("*.parquet")):
        verified(shard)  # all before the first is read: nothing of a damaged set is used
    return list(relevance(path, "test"))


RULES, ANNOTATED, PECORE = "rules", "annotated", "pecore"
# By input_file and format, what reads it.
READERS: dict[str, dict[str, Callable[[Path], Any]]] = {
    "outputs": {
        "text": lambda path: list(_texts(path)),
        ANNOTATED: lambda path: [row.translation for row in read_annotated(path)],
    },
    "scores": {"text": _numbers, PECORE: read_sensitivity},
    "relevance": {RULES: _relevance, PECORE: read_cues},
}


@dataclass(frozen=True)
class InputFile:
    """One thing that others made.

    Attributes:
        kind: `outputs` (translations), `scores` (of given targets) or `relevance`.
        path: a file or a folder.
        format: how it is written.
        name: what it is called in results.
        beside: further files of a dump's, by what they hold (`source`, `target`).
        reading: further options that decide what is read; they hold files by their bytes.
    """

    kind: str
    path: Path
    format: str
    name: str
    beside: Mapping[str, Path] = field(default_factory=dict)
    reading: Mapping[str, Any] = field(default_factory=dict)

    @property
    def scenario(self) -> str | None:
        """Which contexts and labels the relevance of an artefact is of; None where unknown."""
        try:
            recipe = parse_json((self.path / META).read_text(encoding="utf-8"))["recipe"]
            return str(recipe["scenario"])
        except (OSError, ValueError, LookupError, TypeError):  # not one of this project's
            return None

    @classmethod
    def configured(cls, kind: str, settings: Settings) -> InputFile | None:
        """Return the file of a kind, if its path is given; an unknown format is an error."""
        node: InputSettings = getattr(settings, kind)
        if node.path is None:
            return None
        formats = [*READERS[kind], *(entries("dumps") if kind == "relevance" else ())]
        if node.format not in formats:
            raise XnmtError(f"{kind}.format: {unknown('format', node.format, formats)}")
        path = Path(node.path)
        values = vars(node)
        beside = {side: Path(values[side]) for side in SIDES if values.get(side) is not None}
        reading = {n: v for n, v in values.items() if n not in ("path", "format", "name", *SIDES)}
        # A packed file is the same result as a plain one.
        name = node.name or path.name.removesuffix(".gz")
        return cls(kind, path, node.format, name, beside, reading)

    @property
    def fingerprint(self) -> str:
        """Of its bytes and of how they are read; a DataError where there is nothing.

        An artefact has the fingerprint of its own.
        """
        if (self.path / META).exists():
            return Artefact.open(self.path).fingerprint
        # Names are relative to the path, so that the same bytes elsewhere are the same thing.
        # A folder's bytes in the order of names, which file systems list differently.
        files = sorted(f for f in self.path.rglob("*") if f.is_file()) or [present(self.path)]
        read: dict[str, Any] = {str(f.relative_to(self.path)): file_hash(f) for f in files}
        # Tokens decide which word a weight is of.
        read |= {side: file_hash(present(f)) for side, f in self.beside.items()}
        read["options"] = {"format": self.format, **self.reading}
        if reference := self.reading.get("reference"):
            read["options"]["reference"] = file_hash(present(Path(reference)))
        if self.format not in READERS[self.kind]:
            # A reader that was mended reads the same bytes otherwise.
            read["code"] = code_hash(load("dumps", self.format))
        return fingerprint(read)

    def read(self) -> Any:
        """Read what is behind it; a DataError with file and line where that is not readable."""
        return READERS[self.kind][self.format](self.path)

    @property
    def dump(self) -> Dump[Any] | None:
        """What reads another tool's dump; None for every other file.

        Raises:
            XnmtError: a further file is missing, or one too many.
        """
        if self.format in READERS[self.kind]:
            return None
        return load("dumps", self.format)(self.path, **self.beside)

    @property
    def explainer(self) -> str:
        """What relevance is called in results: its name, behind the method where it says one."""
        method = self.dump.method if self.dump else ""
        return f"{method} of {self.name}" if method else self.name

    def counted(self, count: int, expected: int, noun: str) -> None:
        """Raise a DataError unless it says as much as it should."""
        if count != expected:
            raise DataError(self.path, None, f"{count} lines, but there are {expected} {noun}")
