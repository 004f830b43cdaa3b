"""The store: every result once, under the fingerprint of what made it.

An artefact is a folder `<stage>/<fingerprint>/`. It is made in `<fingerprint>.partial/`, where a
killed stage finds its work again, and is renamed when whole. `meta.json` holds the recipe that made
it and the SHA-256 of each of its files, which are verified when the artefact is opened.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from xnmt_bench.errors import MissingError, StoreError

log = logging.getLogger(__name__)
META = "meta.json"
PARTIAL = ".partial"  # ending of a folder that is not finished


def fingerprint(recipe: Mapping[str, Any]) -> str:
    """16 hexadecimal digits that change whenever the recipe does."""
    canonical = json.dumps(recipe, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def file_hash(path: Path) -> str:
    """SHA-256 of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, text: str) -> None:
    """Writes a text file so that a reader sees the old content or the new, never a part."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


@dataclass(frozen=True)
class Artefact:
    """One finished result on disk."""

    path: Path
    recipe: dict[str, Any]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The fingerprint, which is also the folder's name."""
        return self.path.name

    @classmethod
    def open(cls, path: Path) -> Artefact:
        """Opens an artefact and verifies its files.

        Raises:
            StoreError: no artefact is there, or a file is missing, truncated or altered.
        """
        meta = _read_meta(path)
        for name, digest in meta["files"].items():
            _verify(path / name, digest)
        return cls(path, meta["recipe"], meta["facts"])


def verified(path: Path) -> Path:
    """A file's own path, once the artefact that it lies in, if any, has been verified.

    Raises:
        StoreError: a file of the artefact is missing, truncated or altered.
    """
    if (path.parent / META).exists():
        Artefact.open(path.parent)
    return path


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        meta = json.loads((path / META).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{path}: no finished artefact is here") from None
    except ValueError as error:
        raise StoreError(f"{path / META}: not readable: {error}") from None
    if not isinstance(meta, dict) or meta.pop("digest", None) != fingerprint(meta):
        raise StoreError(f"{path / META}: truncated or altered since it was written")
    return meta


def _verify(path: Path, digest: str) -> None:
    if not path.exists():
        raise StoreError(f"{path}: the file is missing from its artefact")
    if file_hash(path) != digest:
        raise StoreError(
            f"{path}: truncated or altered since it was written; "
            f"delete {path.parent} to make it again"
        )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds the lock of one artefact; the system frees it when a job is killed."""
    lock = FileLock(path.parent / f".{path.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        log.info("waiting for another job that is making %s %s", path.parent.name, path.name)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


class Store:
    """A folder of artefacts, shared by any number of jobs at once.

    Args:
        root: the folder.
        may_make: False for who only reads: then what is missing is an error.
    """

    def __init__(self, root: Path | str, may_make: bool = True) -> None:
        self.root, self.may_make = Path(root), may_make
        self._opened: dict[Path, Artefact] = {}

    def find(self, stage: str, recipe: Mapping[str, Any]) -> Artefact | None:
        """The finished artefact of a recipe, or None."""
        path = self.root / stage / fingerprint(recipe)
        return self._open(path) if path.exists() else None

    def all(self, stage: str) -> list[Artefact]:
        """Every finished artefact of a stage, in the order of their names."""
        folders = sorted(meta.parent for meta in (self.root / stage).glob(f"*/{META}"))
        return [self._open(folder) for folder in folders if folder.suffix != PARTIAL]

    def make(
        self,
        stage: str,
        recipe: Mapping[str, Any],
        work: Callable[[Path], dict[str, Any] | None],
    ) -> Artefact:
        """Opens the artefact of a recipe, making it first if nobody has.

        Args:
            stage: the kind of artefact: `nmt`, `rules`, `proxy`...
            recipe: everything that decides the result, as plain JSON values.
            work: fills the folder it is given; what a killed run left there is still in it. It
                returns facts worth keeping (counts, scores) that did not decide the result.
        """
        path = self.root / stage / fingerprint(recipe)
        if not self.may_make and not path.exists():
            raise MissingError(f"{path}: no finished artefact is here; run train.py first")
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            if not path.exists():
                self._make(path, dict(recipe), work)
        return self._open(path)

    def _make(
        self,
        path: Path,
        recipe: dict[str, Any],
        work: Callable[[Path], dict[str, Any] | None],
    ) -> None:
        partial = path.with_suffix(PARTIAL)
        log.info(
            "%s %s %s", "resuming" if partial.exists() else "making", path.parent.name, path.name
        )
        partial.mkdir(exist_ok=True)
        facts = work(partial) or {}
        files = {
            file.relative_to(partial).as_posix(): file_hash(file)
            for file in sorted(partial.rglob("*"))
            if file.is_file() and file.name != META
        }
        meta: dict[str, Any] = {"recipe": recipe, "facts": facts, "files": files}
        meta["digest"] = fingerprint(meta)
        write_atomically(partial / META, json.dumps(meta, indent=1, ensure_ascii=False))
        partial.rename(path)

    def _open(self, path: Path) -> Artefact:
        # Verified once a process: hashing the same weights for each of fifty rows helps nobody.
        if path not in self._opened:
            self._opened[path] = Artefact.open(path)
        return self._opened[path]
