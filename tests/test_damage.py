"""One flipped byte in each kind of file of a store and of results: named, or without effect."""

import logging
import random
import re
import shutil
from pathlib import Path

import pytest

from support.forked_commands import command
from support.interruptions import JOB, StopBefore, run, table
from xnmt_bench.store import repair

PLACES = ("store=", "results=", "hydra.run.dir=", "metric=", "metric.")
# A file that a training run is about to write, and so has not: what is there then is its own.
MOMENTS = {
    "nmt": r"store/nmt/.*partial/model.json",
    "labels": r"store/labels/.*partial/train/00001",
    "rules": r"store/rules/.*partial/train/00001",
    "proxy": r"store/proxy/.*partial/proxy.safetensors",
    "tuned": r"store/tuned/.*partial/tuned.safetensors",
    "translation": r"store/translation/.*partial/test.(txt|ids|ends)",
    "encoded": r"store/encoded/.*partial/train.number",
}


@pytest.fixture(scope="module")
def undamaged(tmp_path_factory):
    """The folder of a run, and its reports."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    folder.mkdir()
    status, stderr = run(folder)
    assert status == 0, stderr
    done = evaluate(folder)
    assert done.returncode == 0, done.stderr
    return folder


def evaluate(folder):
    return command("evaluate.py", *(a for a in JOB if a.startswith(PLACES)), cwd=folder)


def kinds(folder: Path, place: str) -> dict[str, Path]:
    """Returns a file of each kind: files whose names differ in digits or a fingerprint are one."""
    files = [path for path in sorted((folder / place).rglob("*")) if path.is_file()]
    names = {path: str(path.relative_to(folder)) for path in files if path.stat().st_size}
    plain = {
        p: re.sub(r"\d+", "0", re.sub(r"[0-9a-f]{16}", "#", name)) for p, name in names.items()
    }
    return {kind: path for path, kind in reversed(plain.items())}


def flip(path: Path) -> None:
    """Flips a bit of a byte, the same one each time."""
    dice, content = random.Random(path.name), bytearray(path.read_bytes())
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    path.write_bytes(content)


def copy(undamaged: Path, folder: Path) -> Path:
    """Returns a copy that may be damaged."""
    shutil.rmtree(folder, ignore_errors=True)
    return shutil.copytree(undamaged, folder)


def reports(folder: Path) -> dict[str, str]:
    """Returns every number of a report, by file."""
    return {p.name: p.read_text(encoding="utf-8") for p in (folder / "results").glob("*.csv")}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_byte_of_each_kind_of_file_of_a_store(undamaged, tmp_path, caplog):
    """train.py names the file or does not read it, and repair drops what it is in."""
    caplog.set_level(logging.WARNING)
    untouched, outcomes = table(undamaged), {"named": 0, "not read": 0}
    for kind, path in kinds(undamaged, "store").items():
        folder = copy(undamaged, tmp_path / "run")
        damaged = folder / path.relative_to(undamaged)
        flip(damaged)
        status, stderr = run(folder)
        assert (status, "Traceback" in stderr) in ((0, False), (1, False)), (kind, stderr)
        if status:
            assert str(damaged.relative_to(folder)) in stderr.splitlines()[-1], (kind, stderr)
        else:
            assert table(folder) == untouched, kind
        outcomes["named" if status else "not read"] += 1
        caplog.clear()
        repair(folder / "store")
        artefact = next(p for p in damaged.parents if p.parent.parent == folder / "store")
        assert not artefact.exists(), kind
        assert f"damaged: {artefact}" in caplog.text, kind
    print(f"{sum(outcomes.values())} kinds of files in a store: {outcomes}")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_byte_of_each_kind_of_file_of_results(undamaged, tmp_path):
    """evaluate.py names the file, or writes the same numbers."""
    expected, outcomes = reports(undamaged), {"named": 0, "without effect": 0}
    measurements = undamaged / "results" / "measurements"
    by_kind = kinds(undamaged, "results")
    reported = [path for path in by_kind.values() if not path.is_relative_to(measurements)]
    folder = copy(undamaged, tmp_path / "run")
    for path in reported:  # all at once, since they are written anew
        flip(folder / path.relative_to(undamaged))
    assert evaluate(folder).returncode == 0
    assert reports(folder) == expected
    outcomes["without effect"] += len(reported)
    for kind, path in by_kind.items():
        if path in reported:
            continue
        folder = copy(undamaged, tmp_path / "run")
        damaged = folder / path.relative_to(undamaged)
        flip(damaged)
        done = evaluate(folder)
        assert "Traceback" not in done.stderr, (kind, done.stderr)
        named = str(damaged.relative_to(folder)) in done.stderr + done.stdout
        assert named or reports(folder) == expected, (kind, done.stderr)
        outcomes["named" if named else "without effect"] += 1
    print(f"{sum(outcomes.values())} kinds of files in results: {outcomes}")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_byte_of_each_kind_of_file_of_unfinished_work(undamaged, tmp_path):
    """What a kill left is named, left out, or without effect on any number."""
    untouched, outcomes = table(undamaged), {"named": 0, "without effect": 0}
    for stage, pattern in MOMENTS.items():
        killed = tmp_path / stage / "run"
        killed.mkdir(parents=True)
        assert run(killed, StopBefore(killed, pattern=pattern))[0] < 0, stage
        by_kind = kinds(killed, "store")
        for kind, path in by_kind.items():
            if ".partial" not in kind:
                continue
            folder = copy(killed, tmp_path / "run")
            damaged = folder / path.relative_to(killed)
            flip(damaged)
            status, stderr = run(folder)
            assert status in (0, 1) and "Traceback" not in stderr, (kind, stderr)
            named = str(damaged.relative_to(folder)) in stderr
            assert (status == 1 and named) or table(folder) == untouched, (kind, stderr)
            outcomes["named" if status else "without effect"] += 1
    print(f"{sum(outcomes.values())} kinds of files of unfinished work: {outcomes}")
