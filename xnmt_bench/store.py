"""The store: every result once, under the fingerprint of what made it.

An artefact is a folder `<stage>/<fingerprint>/`. It is made in `<fingerprint>.partial/`, where a
killed stage finds its work again, and is renamed when whole. `meta.json` holds the recipe that made
it and the SHA-256 of each of its files, which are verified when the artefact is opened.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import logging
import os
import platform
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Self
from uuid import uuid4

from filelock import LeaseCompromise, SoftFileLease, Timeout

from xnmt_bench import progress
from xnmt_bench.errors import TRAIN_FIRST, MissingError, StoreError
from xnmt_bench.lazy import Lazy

log = logging.getLogger(__name__)
META = "meta.json"
MODEL_FILES = ("model.json", "model.safetensors")  # of an NMT system
CURE = "`train.py repair=true` drops what is damaged, and train.py makes it again"
LIBRARIES = ("torch", "captum")  # their arithmetic decides digits, and no recipe holds them
os.umask(UMASK := os.umask(0o077))  # it can be read only by setting it
MODE = 0o666 & ~UMASK  # of a file, as other programs make one
PARTIAL = ".partial"  # ending of a folder that is not finished
# A folder next to what makes the artefact. Work finds it again, and it is removed when the artefact
# is whole: a training that is killed after its last epoch is not begun anew. It holds Adam's
# state too, and is many times larger than the weights.
CHECKPOINTS = "checkpoints"
FINGERPRINT = re.compile(r"[0-9a-f]{16}")  # the name of a finished one
# Seconds after which another process takes over from a holder that gives no sign of life. All
# processes need the same number, or filelock refuses. On the holder's own host a dead one is seen
# at once.
LEASE = 30.0
HOST = platform.node().replace(".", "-") or "host"


def fingerprint(recipe: Mapping[str, Any]) -> str:
    """Return 16 hexadecimal digits that change whenever the recipe does."""
    # Sorted keys: the order in which a recipe was written decides nothing.
    canonical = json.dumps(recipe, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def file_hash(path: Path) -> str:
    """Return SHA-256 of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an error of the disk say where it was, since a write that fails names no file.

    Raises:
        OSError: the same, with a file's name.
    """
    try:
        yield
    except Exception as error:
        match = re.search(r"\(os error (\d+)\)", str(error))  # how safetensors says it
        number = error.errno if isinstance(error, OSError) else match and int(match[1])
        if number is None or getattr(error, "filename", None):
            raise
        raise OSError(number, os.strerror(number), str(path)) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` when it is whole, and is removed if it fails.

    Raises:
        OSError: the disk did not take it; `path` is named.
    """
    # Two jobs may write the same file at once, on two hosts too.
    temporary = path.with_name(f"{path.name}.{HOST}.{os.getpid()}.{uuid4().hex[:8]}.tmp")
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            temporary.replace(path)  # atomic on one file system
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def seal(path: Path) -> None:
    """Write the digest of a file of unfinished work next to it; see `is_sealed`."""
    write_atomically(_seal_of(path), file_hash(path))


def is_sealed(path: Path) -> bool:
    """Return whether a file of unfinished work is there, and is as it was when it was sealed."""
    digest_file = _seal_of(path)
    if not (path.exists() and digest_file.exists()):
        return False
    if file_hash(path) == digest_file.read_bytes().decode(errors="replace"):
        return True
    log.warning("%s: altered since it was written, and ignored", path)
    return False


def unlink_sealed(path: Path) -> None:
    """Remove a file of unfinished work and its digest."""
    path.unlink(missing_ok=True)
    _seal_of(path).unlink(missing_ok=True)


def _seal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old content or the new, never a part."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Work:
    """How much there is to do for an artefact, from which its time follows.

    Attributes:
        kind: work of one kind takes as long for each step, such as `attention on transformer`.
        steps: how many there are at most, such as sentences or epochs.
        unit: what a step is, in the plural.
    """

    kind: str
    steps: int
    unit: str


StageWork = Callable[[Path], dict[str, Any] | None]  # fills a folder, and returns facts


@dataclass(frozen=True)
class Artefact:
    """One finished result on disk.

    Attributes:
        path: its folder.
        recipe: everything that decided it.
        facts: what is worth keeping (counts, scores) and decided nothing.
        files: the SHA-256 of each of its files, by name.
        versions: of the libraries that made it, by name.
        kind: of the work that it took, as `Work` has it; empty where none was measured.
        seconds: what making it took; None where that was not measured, as after a kill.
    """

    path: Path
    recipe: dict[str, Any]
    facts: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    kind: str = ""
    seconds: float | None = None

    @property
    def fingerprint(self) -> str:
        """Of the recipe. In a store the folder has this name; a copy elsewhere may have any."""
        return fingerprint(self.recipe)

    def check_place(self) -> None:
        """Raise a StoreError where a store's folder holds the artefact of another recipe."""
        if self.path.name != self.fingerprint:
            problem = f"the folder holds another artefact, {self.fingerprint}"
            raise StoreError(f"{self.path}: {problem}; {CURE}")

    @classmethod
    def open(cls, path: Path) -> Artefact:
        """Open an artefact and verify its files, once a process unless they were touched since.

        Raises:
            StoreError: no artefact is there, or a file is missing, truncated or altered.
        """
        artefact = cls.unverified(path)
        state = artefact._state()
        # Hashing the same weights for each of fifty rows would waste minutes.
        if _verified.get(path.resolve()) != state:
            for name, digest in artefact.files.items():
                _verify(path / name, digest)
            _verified[path.resolve()] = state  # by real path: a store may be reached by links
        return artefact

    @classmethod
    def unverified(cls, path: Path) -> Artefact:
        """Read what describes an artefact, and none of its files.

        Raises:
            StoreError: no artefact is there, or its description is damaged.
        """
        meta = _read_meta(path)
        took = meta.get("took", {})
        described = meta["recipe"], meta["facts"], meta["files"], meta["versions"]
        return cls(path, *described, took.get("kind", ""), took.get("seconds"))

    def _state(self) -> tuple[tuple[str, int, int], ...]:
        """Return what changes with every write to a file: digest, size and time."""
        # A missing file changes the state too.
        stats = ((d, self.path / n) for n, d in self.files.items() if (self.path / n).exists())
        return tuple((d, p.stat().st_size, p.stat().st_mtime_ns) for d, p in stats)


_verified: dict[Path, tuple[tuple[str, int, int], ...]] = {}


def verified(path: Path) -> Path:
    """Return a file's own path, once the artefact that it lies in, if any, has been verified.

    Raises:
        StoreError: a file of the artefact is missing, truncated or altered.
    """
    for folder in (path.parent, path.parent.parent):
        if (folder / META).exists():
            Artefact.open(folder)
            break
    return path


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        meta = json.loads((path / META).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{path}: no finished artefact is here") from None
    except ValueError as error:
        raise StoreError(f"{path / META}: not readable: {error}") from None
    if not isinstance(meta, dict) or meta.pop("digest", None) != fingerprint(meta):
        raise StoreError(f"{path / META}: truncated or altered since it was written; {CURE}")
    return meta


def _verify(path: Path, digest: str) -> None:
    if not path.exists():
        raise StoreError(f"{path}: the file is missing from its artefact; {CURE}")
    if file_hash(path) != digest:
        raise StoreError(f"{path}: truncated or altered since it was written; {CURE}")


class _LeaseLostError(Exception):
    """Another process took the lease, since this one gave no sign of life for a while."""


@contextmanager
def _leased(path: Path) -> Iterator[None]:
    """Hold the lease of one artefact, a file that the holder's own thread keeps fresh.

    A lock of the operating system does nothing on some network file systems, is missing on others,
    and one that is held by a dead host blocks for ever. A lease works on all of them. Two processes
    may hold it at once, after one of them stood still; artefacts are deterministic and renamed
    whole, so that this does no harm.

    Raises:
        _LeaseLostError: another process took the lease; raised inside the `with` block.
    """
    maker, guard, held, stopped = threading.get_ident(), threading.Lock(), True, False

    def raise_in_maker(error: type[Exception] | None) -> None:
        thread = ctypes.c_ulong(maker)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, error and ctypes.py_object(error))

    def stop_maker(_: LeaseCompromise) -> None:  # called by the thread that keeps the lease fresh
        nonlocal stopped
        with guard:
            if held:
                stopped = True
                raise_in_maker(_LeaseLostError)

    # Beside the folder, which is renamed when the artefact is whole. A name of its own, since older
    # stores hold locks of another kind.
    file = path.parent / f".{path.name}.lease"
    lease = SoftFileLease(file, lease_duration=LEASE, on_compromise=stop_maker, mode=MODE)
    try:
        # At once first, so that a wait can be reported.
        lease.acquire(timeout=0)
    except Timeout:
        log.info("waiting for another job that is making %s %s", path.parent.name, path.name)
        lease.acquire(poll_interval=0.25)
    try:
        yield
    finally:
        with guard:
            held = False
            # One that was not raised yet must not reach other work. Without need it is not called:
            # Python 3.11 hangs after it under a debugger, a profiler or coverage.
            if stopped:
                raise_in_maker(None)
        lease.release()


class Store:
    """A folder of artefacts, shared by any number of jobs at once.

    Args:
        root: the folder.
        may_make: False for a reader, to which a missing artefact is an error.
        makes_cheap: whether such a reader makes what takes no model and no training.

    Attributes:
        versions: of the libraries that made the artefacts opened so far, by name.
    """

    def __init__(self, root: Path | str, may_make: bool = True, makes_cheap: bool = True) -> None:
        self.root, self.may_make, self.makes_cheap = Path(root), may_make, makes_cheap
        self.versions: dict[str, set[str]] = {}

    def all(self, stage: str) -> list[Artefact]:
        """Return every finished artefact of a stage, in the order of their names."""
        folders = sorted(meta.parent for meta in (self.root / stage).glob(f"*/{META}"))
        return [Artefact.open(folder) for folder in folders if folder.suffix != PARTIAL]

    def stage(
        self,
        name: str,
        work: StageWork,
        *,
        version: int,
        cheap: bool = False,
        amount: Work | None = None,
        **made_from: Any,
    ) -> Stage:
        """Return a stage of this store; nothing is made.

        Args:
            name: the kind of artefact: `nmt`, `rules`, `proxy`...
            work: fills the folder it is given; what a killed run left there is still in it. It
                returns facts worth keeping (counts, scores) that did not decide the result. What
                it leaves in `checkpoints` is removed.
            version: of the code of `work`. Raise it when that code gives another result from the
                same recipe; artefacts made from this one follow.
            cheap: it takes no model and no training, so that a job that only reads makes it too.
            amount: how much work it is; it decides nothing.
            made_from: everything else that decides the result: plain values, and things with a
                `fingerprint` (stages, models, subwords), so that recipes chain.
        """
        return Stage(self, name, work, version, made_from, cheap, amount)

    def make(self, stage: Stage) -> Artefact:
        """Open the artefact of a stage, making it first if it is missing.

        Raises:
            MissingError: it is missing, and this store makes none.
        """
        path, work, amount = stage.folder, stage.work, stage.amount
        recipe = stage.plain_recipe
        finished = path / META
        # Before the lock: a reader may look at a store that it cannot write to.
        if not (self.may_make or (stage.cheap and self.makes_cheap) or finished.exists()):
            raise MissingError(f"{path}: no finished artefact is here; {TRAIN_FIRST}", stage)
        while not finished.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with _leased(path):
                    if path.exists() and not finished.exists():  # its meta.json was lost
                        shutil.rmtree(path)
                    if not path.exists():  # another job may have made it while this one waited
                        _make(path, recipe, work, amount)
            except _LeaseLostError:
                log.warning("%s: this process paused too long, so another one goes on", path)
            except Exception:
                if not finished.exists():
                    raise
                # Another process took over and finished first: its artefact has the same bytes.
                shutil.rmtree(path.with_suffix(PARTIAL), ignore_errors=True)
        if self.may_make:  # a run may have been killed before it had removed them
            shutil.rmtree(path / CHECKPOINTS, ignore_errors=True)
        artefact = Artefact.open(path)
        artefact.check_place()
        for library, number in artefact.versions.items():
            self.versions.setdefault(library, set()).add(number)
        return artefact

    def seconds_a_step(self, stage: str, kind: str) -> float | None:
        """Return what a step of some work took on average; None where none of it was measured."""
        seconds = steps = 0.0
        for meta in (self.root / stage).glob(f"*/{META}"):
            try:
                took = _read_meta(meta.parent).get("took")
            except StoreError:  # a damaged artefact is an error where it is used, not here
                continue
            if took and took["kind"] == kind:
                seconds, steps = seconds + took["seconds"], steps + took["steps"]
        return seconds / steps if steps else None


@dataclass(frozen=True, eq=False)
class Stage(Lazy):
    """A result that is made once: its name, what decides it, and the work that makes it.

    It is made where its `path` or its facts are read first, and can be pickled for another process.

    Attributes:
        store: where it lies.
        name, work, version, cheap, amount: as `Store.stage` has them.
        recipe: what decides it besides its version.
    """

    store: Store
    name: str
    work: StageWork
    version: int
    recipe: Mapping[str, Any]
    cheap: bool = False
    amount: Work | None = None

    @cached_property
    def plain_recipe(self) -> dict[str, Any]:
        """The recipe in plain values, each stage, model or vocabulary as its fingerprint."""
        recipe = {**self.recipe, "version": self.version}  # last, so that no input replaces it
        plain: dict[str, Any] = json.loads(
            json.dumps(recipe, default=lambda input_: input_.fingerprint)
        )
        return plain

    @cached_property
    def fingerprint(self) -> str:
        """Of the recipe."""
        return fingerprint(self.plain_recipe)

    @property
    def folder(self) -> Path:
        """Where its artefact lies, or will lie."""
        return self.store.root / self.name / self.fingerprint

    @property
    def is_made(self) -> bool:
        """Whether its artefact is in the store."""
        return (self.folder / META).exists()

    @property
    def needs(self) -> Iterator[Stage]:
        """The stages whose results it reads."""
        sources = (getattr(value, "source", value) for value in self.recipe.values())
        return (source for source in sources if isinstance(source, Stage))

    @cached_property
    def artefact(self) -> Artefact:
        """Its result, which is made first if it is missing."""
        return self.store.make(self)

    @property
    def path(self) -> Path:
        """The folder of its result, which is made first if it is missing."""
        return self.artefact.path

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of its result, which is made first if it is missing."""
        return self.artefact.facts


@cache
def _library_versions() -> dict[str, str]:
    return {name: version(name) for name in LIBRARIES}


class _Stopwatch:
    """Measures the seconds of a stage's own work, without stages that are made within it.

    Attributes:
        seconds: of its own; 0 until it has stopped.
    """

    _running: ClassVar[ContextVar[_Stopwatch | None]] = ContextVar("running", default=None)

    def __init__(self) -> None:
        self.seconds, self._within = 0.0, 0.0

    def __enter__(self) -> Self:
        self._outer = self._running.get()
        self._running.set(self)
        self._began = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        whole = time.monotonic() - self._began
        self.seconds = whole - self._within
        if self._outer is not None:
            self._outer._within += whole
        self._running.set(self._outer)


def _make(
    path: Path,
    recipe: dict[str, Any],
    work: StageWork,
    amount: Work | None,
) -> None:
    partial = path.with_suffix(PARTIAL)
    resumed = partial.exists()
    log.info("%s %s %s", "resuming" if resumed else "making", path.parent.name, path.name)
    # A killed run's folder is used again: stages find their finished shards in it.
    partial.mkdir(exist_ok=True)
    clock = time.time()
    with (
        naming(partial),
        progress.Stage(f"making {path.parent.name} {path.name}", None),
        _Stopwatch() as watch,
    ):
        facts = work(partial) or {}
    for leftover in _temporary(partial):
        if _is_abandoned(leftover, clock):
            leftover.unlink(missing_ok=True)
    files, unfinished = {}, set(_temporary(partial))
    kept = (p for p in partial.rglob("*") if partial / CHECKPOINTS not in p.parents)
    for file in sorted(kept):
        if file.is_file() and file.name != META and file not in unfinished:
            file.chmod(MODE)  # safetensors lets only the owner read a file
            files[file.relative_to(partial).as_posix()] = file_hash(file)
    meta: dict[str, Any] = {"recipe": recipe, "facts": facts, "files": files}
    meta["versions"] = _library_versions()
    if amount and not resumed:  # a part's time is not that of the whole
        # Training may stop before its cap.
        steps = facts.get(amount.unit, amount.steps)
        meta["took"] = {"kind": amount.kind, "seconds": round(watch.seconds, 3), "steps": steps}
    # Without a digest an edited recipe would go unnoticed, and with it every check below.
    meta["digest"] = fingerprint(meta)
    write_atomically(partial / META, json.dumps(meta, indent=1, ensure_ascii=False))
    # The rename is atomic: readers see a whole artefact or none.
    partial.rename(path)
    shutil.rmtree(path / CHECKPOINTS, ignore_errors=True)


def _temporary(folder: Path) -> list[Path]:
    """Return files that were begun and not finished: ours, and safetensors'."""
    return [*folder.rglob("*.tmp"), *folder.rglob(".tmp*")]


def _is_abandoned(temporary: Path, began: float) -> bool:
    """Return whether a run that was killed left an unfinished file behind.

    Another process that makes the same artefact may still be writing it.

    Args:
        temporary: the file.
        began: when this process began its work, in seconds since the epoch.
    """
    writer = re.search(r"[.]([^.]+)[.](\d+)[.]\w{8}[.]tmp$", temporary.name)
    if writer and writer[1] == HOST:
        return not _lives(int(writer[2])) or int(writer[2]) == os.getpid()
    try:
        return temporary.stat().st_mtime < began
    except FileNotFoundError:  # its writer has finished it
        return False


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


def repair(root: Path) -> None:
    """Verify every artefact of a store; drop damaged ones and all that was made from them.

    Args:
        root: the folder of the store.
    """
    recipes: dict[Path, str] = {}
    dropped: list[Path] = []
    # A mistyped `store` may name a folder that holds other things.
    folders = (p for p in root.glob("*/*") if p.is_dir() and FINGERPRINT.fullmatch(p.name))
    for folder in sorted(folders):
        try:
            artefact = Artefact.open(folder)
            artefact.check_place()
            recipes[folder] = json.dumps(artefact.recipe)
        except StoreError as error:
            log.warning("damaged: %s", error)
            dropped.append(folder)
    for damaged in dropped:  # it grows while it is walked: what hangs on what hangs on it goes too
        try:
            digests = json.loads((damaged / META).read_text(encoding="utf-8"))["files"]
            names = [damaged.name, *(digest[:16] for digest in digests.values())]
            # What is made from a system names it in this way (nmt.loading.system_id).
            of_model = {name: digests[name] for name in MODEL_FILES if name in digests}
            names += [fingerprint(of_model)] * bool(of_model)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            names = [damaged.name]
        hanging = (f for f, recipe in recipes.items() if any(name in recipe for name in names))
        dropped += [folder for folder in hanging if folder not in dropped]
    for folder in dropped:
        log.warning("dropped: %s", folder)
        shutil.rmtree(folder)
    kept = len(set(recipes) - set(dropped))
    log.info(
        "%d artefacts are intact, %d were dropped; train.py makes these again", kept, len(dropped)
    )
