"""The command that makes a row again, free of the paths of one machine."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from xnmt_bench.overrides import parse, quote, texts
from xnmt_bench.store import file_hash, fingerprint

# Options that decide where things lie and what is shown, but no number.
ELSEWHERE = (
    *("store", "results", "pooled", "bundle", "bundle_author"),
    *("logger", "launcher", "hydra", "repair", "dry_run"),
    "trainer.progress_bar",
)


def rerun_command(command: str, overrides: Sequence[str], written: Sequence[Path] = ()) -> str:
    """Return a command line such as `python train.py corpus.path=FILE1 # FILE1=sha256:0123...`.

    Args:
        command: `train` or `evaluate`.
        overrides: of the job, as on its command line.
        written: folders that the job itself writes, which belong to no digest.

    Returns:
        The overrides that decide numbers. A path is a placeholder, and the digest of what lay there
        stands behind the command.
    """
    names: dict[str, str] = {}
    # Two people's rows of one experiment have the same command.
    kept = [o for o in overrides if not _elsewhere(o.partition("=")[0])]
    arguments = [shlex.quote(_with_placeholders(override, names)) for override in kept]
    # Another machine has other paths; the digest says which file is meant.
    folders = frozenset(folder.absolute() for folder in written)
    digests = [f"{name}=sha256:{_digest(path, folders)}" for path, name in names.items()]
    behind = ["#", *digests] if digests else []
    return " ".join(["python", f"{command}.py", *arguments, *behind])


def _elsewhere(option: str) -> bool:
    """Return whether an option decides no number."""
    name = option.lstrip("+~")
    return any(name == other or name.startswith(f"{other}.") for other in ELSEWHERE)


def _with_placeholders(override: str, names: dict[str, str]) -> str:
    """Return an override with each path in its value replaced; `names` grows by new paths."""
    option, equals, value = override.partition("=")

    def placeholder_of(match: re.Match[str]) -> str:
        return placeholder(match.group())

    def placeholder(path: str) -> str:
        # A bare word is a choice, also where a file of this name happens to be.
        if os.sep not in path or not os.path.exists(path):  # noqa: PTH110 - `Path` fails at texts
            return path
        kind = "DIR" if Path(path).is_dir() else "FILE"
        # Numbered in the order of the command: the same for everyone who runs it.
        number = 1 + sum(name.startswith(kind) for name in names.values())
        return names.setdefault(path, f"{kind}{number}")

    # A path may itself hold quotes, commas and brackets.
    for text in texts(parse(override)):
        for form in (quote(text), f'"{text}"'):
            value = value.replace(form, quote(placeholder(text)))
    # Values may be lists, quoted or not: every run of other characters is looked at.
    return option + equals + re.sub(r"[^\[\],'\"]+", placeholder_of, value)


@lru_cache
def _digest(path: str, written: frozenset[Path]) -> str:
    """Return 16 digits of the digest of a file, or of all files of a folder by relative name."""
    there = Path(path).absolute()
    if there.is_file():
        return _file_hash(there)[:16]
    # An artefact inside of the store is meant whole.
    left_out = written - {there, *there.parents}
    files = sorted(f for f in there.rglob("*") if f.is_file() and not left_out & {*f.parents})
    return fingerprint({str(file.relative_to(there)): _file_hash(file) for file in files})


def _file_hash(file: Path) -> str:
    """Return SHA-256 of a file, or `unreadable`: a folder may hold more than the job reads."""
    try:
        return file_hash(file)
    except OSError:  # also of a file that is gone since it was listed
        return "unreadable"
