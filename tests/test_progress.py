"""A line of progress says what is done, at which pace, and how long the rest takes."""

import logging
import time
from os import terminal_size

import numpy as np
import pytest

from proxies.base import Vocabulary
from proxies.data import batch_decisions, pack
from proxies.fn import FN
from proxies.lessons import Lessons, ProxyTrainingOptions
from proxies.training import ProxyTraining
from xnmt_bench import progress
from xnmt_bench.fitting import fit
from xnmt_bench.progress import Stage, inside, track
from xnmt_bench.trainer import TrainerOptions


@pytest.fixture(autouse=True)
def logged(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "xnmt_bench.progress")
    monkeypatch.setattr(progress, "shared_terminal", True)


class Clock:
    """A clock that the test moves."""

    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_the_time_left_is_that_of_what_is_left(clock, caplog):
    with Stage("N", 10, "epochs") as stage:
        for tenth in range(1, 21):  # 40 s a tenth of an epoch
            clock.now += 40
            stage.step(tenth / 10)
    assert caplog.messages[0] == "N: 0.1 of 10 epochs, 400.0 s each, at most 66 min left"
    assert caplog.messages[9] == "N: 1.0 of 10 epochs, 400.0 s each, at most 60 min left"
    assert caplog.messages[18] == "N: 1.9 of 10 epochs, 400.0 s each, at most 54 min left"
    assert caplog.messages[-1] == "N: done in 13 min"


def test_what_an_earlier_run_has_done_says_nothing_of_the_pace(clock, caplog):
    with Stage("N", 10, "epochs", done=8) as stage:
        clock.now += 100
        stage.step(8.5, "validation loss 3.0")
    assert caplog.messages[0] == (
        "N: 8.5 of 10 epochs, 200.0 s each, at most 5 min left, validation loss 3.0"
    )


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (77, "N: 8.5 of 10 epochs, 200.0 s each, at most 5 min left, validation loss 3.0"),
        (74, "N: 8.5 of 10 epochs, 200.0 s each, at most 5 min left"),
        (30, "N: 8.5 of 10 epochs"),
        (11, "N: 8.5 of "),
    ],
)
def test_a_terminals_line_ends_with_a_whole_part(monkeypatch, capsys, clock, columns, line):
    monkeypatch.setattr(progress, "shared_terminal", False)
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(
        progress.shutil, "get_terminal_size", lambda *_, **__: terminal_size((columns, 24))
    )
    stage = Stage("N", 10, "epochs", done=8)
    clock.now += 100
    stage.step(8.5, "validation loss 3.0")
    assert capsys.readouterr().err == f"\r\x1b[2K{line}"


def test_items_are_counted_whole_and_told_every_so_often(clock, caplog):
    for _ in track(range(100), "rules", 100, "pairs"):
        clock.now += 0.4
    assert caplog.messages == [
        "rules: 63 of 100 pairs, 2.5 a second, at most 15 s left",
        "rules: done in 40 s",
    ]


def wait_for_lines(caplog, count):
    """Wait, for a minute at most, until so many lines are logged; steps themselves log none."""
    until = time.monotonic() + 60
    while len(caplog.messages) < count:
        assert time.monotonic() < until, caplog.messages
        time.sleep(0.01)


def test_a_log_has_lines_also_while_a_step_takes_long(monkeypatch, caplog):
    monkeypatch.setattr(progress, "EVERY", 0.05)
    monkeypatch.setattr(progress, "TICK", 0.01)
    with Stage("outer", None):
        wait_for_lines(caplog, 1)
        with Stage("inner", 3, "steps") as stage:
            stage.step(1.5)
            caplog.clear()
            wait_for_lines(caplog, 2)
            # The innermost stage knows more than those around it.
            assert all(line.startswith("inner: 1.5 of 3 steps") for line in caplog.messages)
        caplog.clear()
        wait_for_lines(caplog, 1)
        assert caplog.messages[-1].startswith("outer: ") and "so far" in caplog.messages[-1]


def test_short_stages_inside_another_are_not_silent_together(clock, caplog):
    with Stage("outer", 4, "shards"):
        for _ in range(4):
            with Stage("inner", 1, "steps") as stage:
                clock.now += 15
                stage.step(1)
    assert [line.split(",")[0] for line in caplog.messages] == [
        "inner: 1 of 1 steps", "inner: 1 of 1 steps", "outer: done in 60 s"
    ]  # fmt: skip


def test_an_error_leaves_no_stage_that_goes_on_talking():
    with pytest.raises(ValueError), Stage("outer", 1, "steps"):
        Stage("inner", 1, "steps").__enter__()
        raise ValueError
    assert not progress._under_way


def test_parts_of_a_step_are_counted_from_the_step_that_a_stage_is_at(monkeypatch, caplog):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    for _ in track(range(2), "limits", 3, "shards", done=1):
        for _ in inside(range(2), lambda part: 1, 2):
            pass
    lines = [line.split(" of 3")[0] for line in caplog.messages if " of 3" in line]
    assert lines == [f"limits: {done}" for done in (1.5, 2.0, 2.0, 2.5, 3.0, 3.0)]


def test_a_training_tells_parts_of_its_epochs(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    rng = np.random.default_rng(0)
    words_NK, label_N = rng.integers(4, 20, (80, 2)), rng.integers(4, 20, 80)
    decisions = pack(label_N, words_NK, np.zeros_like(words_NK))

    def build():
        proxy = FN(Vocabulary(20, 20, 1), dimension=8, hidden=8)
        lessons = Lessons(
            lambda epoch: batch_decisions(decisions[:64], 16, 0, epoch),
            lambda: batch_decisions(decisions[64:], 16),
        )
        return ProxyTraining(proxy, lessons, ProxyTrainingOptions(batch_size=16, max_epochs=2), 20)

    fit(build, tmp_path, 0, 2, 2, TrainerOptions(), "fn")
    parts = [line.split(" of 2 epochs")[0] for line in caplog.messages if " of 2 epochs" in line]
    assert parts == [f"fn: {epochs:.1f}" for epochs in np.arange(0.25, 2.25, 0.25)]
    assert sum(line.startswith("fn: done in") for line in caplog.messages) == 1
