"""What others made, and the doors it comes in by: `X.path X.format X.name`, alike for every X."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig

from xnmt_bench.corpora.text import decode_line, lines, present
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.registry import unknown
from xnmt_bench.rules.table import SentenceRelevance, relevance
from xnmt_bench.store import META, Artefact, file_hash, fingerprint, verified


def _texts(path: Path) -> Iterator[str]:
    """One a line; an empty translation is a translation too."""
    return (decode_line(line, path, number) for number, line in enumerate(lines(path), start=1))


def _numbers(path: Path) -> np.ndarray:
    numbers = []
    for number, text in enumerate(map(str.strip, _texts(path)), start=1):
        try:
            numbers.append(float(text))
        except ValueError:
            raise DataError(path, number, f"{text!r} is no number") from None
        if not np.isfinite(numbers[-1]):
            raise DataError(path, number, f"{text} is no finite number")
    return np.asarray(numbers)


def _relevance(path: Path) -> list[SentenceRelevance]:
    """This project's Parquet shards, as `store/rules/<fingerprint>` holds them."""
    for shard in sorted((path / "test").glob("*.parquet")):
        verified(shard)  # all before the first is read: nothing of a damaged set is used
    return list(relevance(path, "test"))


# By door and format, what reads it.
READERS: dict[str, dict[str, Callable[[Path], Any]]] = {
    "outputs": {"text": lambda path: list(_texts(path))},
    "scores": {"text": _numbers},
    "relevance": {"rules": _relevance},
}


@dataclass(frozen=True)
class Door:
    """One thing that others made.

    Attributes:
        kind: `outputs` (translations), `scores` (of given targets) or `relevance`.
        path: a file or a folder.
        format: how it is written.
        name: what it is called in results.
    """

    kind: str
    path: Path
    format: str
    name: str

    @classmethod
    def configured(cls, kind: str, config: DictConfig) -> Door | None:
        """The door of a kind, if something stands before it; a format nobody reads is an error."""
        given = config[kind]
        if given.path is None:
            return None
        if given.format not in READERS[kind]:
            raise XnmtError(f"{kind}.format: {unknown('format', given.format, READERS[kind])}")
        path = Path(given.path)
        return cls(kind, path, given.format, given.name or path.name.removesuffix(".gz"))

    @property
    def fingerprint(self) -> str:
        """Of its bytes, or of the artefact that it is; a DataError where there is nothing."""
        if (self.path / META).exists():
            return Artefact.open(self.path).fingerprint
        # Names are relative to the path, so that the same bytes elsewhere are the same thing.
        files = sorted(f for f in self.path.rglob("*") if f.is_file()) or [present(self.path)]
        return fingerprint({str(f.relative_to(self.path)): file_hash(f) for f in files})

    def read(self) -> Any:
        """What is behind it; a DataError with file and line where that is not readable."""
        return READERS[self.kind][self.format](self.path)

    def counted(self, count: int, wanted: int, what: str) -> None:
        """Raises a DataError unless it says as much as it should."""
        if count != wanted:
            raise DataError(self.path, None, f"{count} lines, but there are {wanted} {what}")
