"""A run that a kill or a full disk stops, in any stage, ends with the same table at last."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from filelock import FileLock

from support.interruptions import NO_SPACE, Full, Kill, Signal, Trap, run, table


class Untouched(NamedTuple):
    """A run that nothing stopped.

    Attributes:
        folder: where it ran.
        rows: its table.
    """

    folder: Path
    rows: list[dict]


@pytest.fixture(scope="module")
def untouched(workplace):
    """A run that nothing stopped, which one worker makes for all."""
    folder = workplace / "untouched"
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            folder.mkdir()
            status, message = run(folder)
            assert status == 0, message
    return Untouched(folder, table(folder))


@pytest.fixture
def here(tmp_path):
    """A folder where temporary files are too."""
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


@pytest.fixture
def elsewhere():
    """A folder on another file system, where what is written elsewhere cannot be moved to."""
    disk = Path("/dev/shm")
    there = disk.is_dir() and os.access(disk, os.W_OK)
    if not there or disk.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip("there is no second file system at /dev/shm")
    folder = Path(tempfile.mkdtemp(dir=disk))
    (folder / "run").mkdir()
    yield folder / "run"
    shutil.rmtree(folder)


def check_progress(trap: Trap) -> None:
    """Fails where names differ from run to run, so that no run would be the last."""
    assert len(trap.met) < (100 if trap.once else 5000), trap.met[-5:]


def killed(trap: Kill) -> int:
    """Runs until nothing new is met; gives how many of the runs were killed."""
    kills = 0
    while (outcome := run(trap.folder, trap))[0] == -signal.SIGKILL:
        kills += 1
        check_progress(trap)
    assert outcome[0] == 0, outcome[1]
    assert kills == len(trap.met)
    print(f"{kills} kills")
    return kills


def filled(trap: Full) -> int:
    """The same for a disk that is full; each run has to name the full disk and the place."""
    places = 0
    while True:
        status, message = run(trap.folder, trap)
        trap.empty()
        if len(trap.met) == places:
            break
        places += 1
        assert len(trap.met) == places
        check_progress(trap)
        no_space(status, message, trap.folder)
    assert status == 0, message
    print(f"{places} places")
    return places


def no_space(status: int, message: str, folder: Path) -> None:
    """Checks that a run ended with status 1 and one line that names the path and the full disk."""
    assert status == 1
    [line] = message.splitlines()
    where, _, why = line.removeprefix("error: ").partition(": ")
    assert (folder / where).is_relative_to(folder)
    assert why.startswith(NO_SPACE)


def give_other_stages(folder: Path, untouched: Untouched, chosen: tuple[str, ...]) -> None:
    """Copy what a run makes in other stages than those in which it will be stopped."""
    if chosen:
        leave_out = shutil.ignore_patterns(*chosen)
        shutil.copytree(untouched.folder / "store", folder / "store", ignore=leave_out)


def whole(folder: Path, untouched: Untouched) -> None:
    """Whether a run ended as if nothing had stopped it."""
    assert table(folder) == untouched.rows
    assert not [path for path in (folder / "store").rglob("*") if ".partial" in str(path)]
    assert not list((folder / "store").rglob("*.tmp"))
    artefacts = {path.parent.parent.name for path in folder.glob("store/*/*/meta.json")}
    assert {path.name for path in (folder / "store").iterdir() if path.is_dir()} == artefacts


STAGES = {
    "alignment", "browsed", "confidence", "contrastive_groups", "coreference", "density", "doubts",
    "encoded", "facets", "hits", "judged", "kl", "labels", "nmt", "proxy", "rules", "sample",
    "scores", "subwords", "translation", "tuned",
}  # fmt: skip
# One of each way to write: arrays, a checkpoint, a file for each shard, one table.
SOME = ("encoded", "nmt", "rules", "judged")
SOME_OR_ALL = pytest.mark.parametrize(
    ("chosen", "expected"),
    [(SOME, {*SOME}), pytest.param((), STAGES, marks=pytest.mark.long)],
    ids=["some stages", "each stage"],
)


def stages(trap: Trap) -> set[str]:
    """The stages in which a run was stopped."""
    paths = (name.partition(" ")[2].split("/") for name in trap.met)
    return {path[1] for path in paths if path[0] == "store" and len(path) > 1}


@SOME_OR_ALL
def test_killed_with_a_file_half_written(untouched, elsewhere, chosen, expected):
    give_other_stages(elsewhere, untouched, chosen)
    trap = Kill(elsewhere, once=("half",), stages=chosen)
    killed(trap)
    assert stages(trap) >= expected
    whole(elsewhere, untouched)


def signalled(trap: Signal) -> int:
    """Run until nothing new is met; each run has to end with the signal's status and one line."""
    ends = {signal.SIGTERM: "terminated", signal.SIGINT: "interrupted"}
    count = 0
    while (outcome := run(trap.folder, trap))[0]:
        count += 1
        check_progress(trap)
        line = f"{ends[trap.number]}; the same command goes on where it stood"
        assert outcome == (128 + trap.number, line + "\n")
    assert count == len(trap.met)
    print(f"{count} signals")
    return count


@pytest.mark.parametrize(
    ("number", "trainings"),
    [
        (signal.SIGTERM, ("nmt", "proxy", "tuned")),
        (signal.SIGINT, ("nmt",)),
        pytest.param(signal.SIGINT, ("proxy", "tuned"), marks=pytest.mark.long),
    ],
)
def test_a_signal_ends_a_training_with_its_status_and_one_line(untouched, here, number, trainings):
    """Lightning would end with status 0 or 1, without a message."""
    give_other_stages(here, untouched, trainings)
    trap = Signal(here, once=("write",), number=number, stages=trainings)
    assert signalled(trap) == len(trainings)
    whole(here, untouched)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_each_stage(untouched, here, number):
    trap = Signal(here, once=("write",), number=number)
    signalled(trap)
    assert stages(trap) >= STAGES
    whole(here, untouched)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("disk", ["here", "elsewhere"])
def test_killed_at_every_change(untouched, disk, request):
    trap = Kill(request.getfixturevalue(disk))
    killed(trap)
    assert stages(trap) >= STAGES
    whole(trap.folder, untouched)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@SOME_OR_ALL
def test_no_space(untouched, here, chosen, expected):
    give_other_stages(here, untouched, chosen)
    trap = Full(here, once=("write",), stages=chosen)
    filled(trap)
    assert stages(trap) >= expected
    whole(here, untouched)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_no_space_for_each_file(untouched, here):
    trap = Full(here)
    filled(trap)
    assert stages(trap) >= STAGES
    whole(here, untouched)


@pytest.mark.slow
def test_a_disk_that_is_too_small(untouched, here):
    """It grows by a fifth, from 16 KiB, until everything has its place."""
    disk, size = here / "store", 16
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", disk]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small file system")
    try:
        while (outcome := run(here))[0]:
            no_space(*outcome, here)
            size = size * 6 // 5
            subprocess.run(["mount", "-o", f"remount,size={size}k", disk], check=True)
        print(f"it fits into {size} KiB")
        whole(here, untouched)
    finally:
        subprocess.run(["umount", disk], check=True)
