"""Progress in one line a stage: how much is done, how fast, how long it may still take.

In a terminal the line is written over. In a file, or where jobs of a sweep run at once, a line is
logged at least every 25 seconds, also while a single step takes longer.
"""

from __future__ import annotations

import logging
import math
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

log = logging.getLogger(__name__)
shared_terminal = False  # jobs that run at once would write over each other's line
EVERY = 25.0  # seconds between lines of a log
REFRESH = 0.2  # seconds between changes of a terminal's line
TICK = 1.0  # seconds at least between two looks at a stage that takes long
BAR_AFTER = 2.0  # seconds of work from Python, before which no bar shows
Item = TypeVar("Item")
_under_way: list[Stage] = []  # the innermost stage last


class Stage:
    """One stage under way.

    Args:
        description: what is being done.
        total: how many steps there are at most; None where work has no steps.
        unit: what a step is, in the plural.
        shown: say anything at all.
        done: steps of an earlier run, which do not count for this run's pace.
    """

    def __init__(
        self,
        description: str,
        total: int | None,
        unit: str = "",
        shown: bool = True,
        done: float = 0,
    ) -> None:
        self._description, self._total, self._unit, self._shown = description, total, unit, shown
        # Errors and progress share stderr; results on stdout can be piped.
        self._terminal = sys.stderr.isatty() and not shared_terminal
        self._began = self._said = time.monotonic()
        if _under_way and total is not None:
            # What counts is the silence of the log, also over several short stages.
            self._said = _under_way[-1]._said
        self._before = self._done = done
        self._note = ""
        self._ended = threading.Event()

    @property
    def done(self) -> float:
        """How many steps are done, parts of one included."""
        return self._done

    def step(self, done: float, note: str = "") -> None:
        """Say how many steps are done, parts of one included, unless it has only just said so."""
        # A step may end after parts of the next one are done, since writing it takes time.
        self._done, self._note = max(self._done, done), note
        self._say_if_due()

    def _say_if_due(self) -> None:
        now = time.monotonic()
        if self._shown and now - self._said >= (REFRESH if self._terminal else EVERY):
            self._said = now
            self._say()

    def _keep_saying(self) -> None:
        """Say where a step stands that takes long, until the stage has ended."""
        while not self._ended.wait(max(TICK, self._said + EVERY - time.monotonic())):
            if self not in _under_way:  # an error left it open
                return
            # A stage inside this one says more.
            if _under_way[-1] is self:
                self._say_if_due()

    def _say(self) -> None:
        # Monotonic: a change of the clock must not turn the pace negative.
        elapsed = max(1e-9, time.monotonic() - self._began)
        if self._total is None:
            log.info("%s: %s so far", self._description, duration(elapsed))
            return
        rate = max(0.0, self._done - self._before) / elapsed
        seconds_left = (self._total - self._done) / rate if rate else float("inf")
        pace = f"{rate:.1f} a second" if rate >= 1 else f"{1 / rate:.1f} s each" if rate else ""
        done = self._done if isinstance(self._done, int) else f"{self._done:.1f}"
        due = f"at most {duration(seconds_left)} left" if rate and self._done < self._total else ""
        counted = f"{self._description}: {done} of {self._total} {self._unit}"
        parts = [counted, pace, due, self._note]
        parts = [part for part in parts if part]
        if self._terminal:
            line = _fitting(parts, shutil.get_terminal_size().columns - 1)
            print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)
        else:
            log.info("%s", ", ".join(parts))

    def __enter__(self) -> Self:
        _under_way.append(self)
        if self._shown and not self._terminal:
            threading.Thread(target=self._keep_saying, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        # Those inside it end with it, also where an error left them open.
        if self in _under_way:
            del _under_way[_under_way.index(self) :]
        if _under_way:
            _under_way[-1]._said = max(_under_way[-1]._said, self._said)
        if self._shown and self._terminal:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)  # leaves no half line behind
        elapsed = time.monotonic() - self._began
        if self._shown and self._total is not None and kind is None and elapsed >= EVERY:
            log.info("%s: done in %s", self._description, duration(elapsed))


def _fitting(parts: list[str], width: int) -> str:
    """Return the first parts, as many as a line holds whole."""
    while len(line := ", ".join(parts)) > width and len(parts) > 1:
        parts = parts[:-1]
    return line[:width]


def duration(seconds: float) -> str:
    """Return a time in words, such as `45 s`, `12 min` or `2.0 h`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def inside(
    items: Iterable[Item], size: Callable[[Item], int], total: int, step: int | None = None
) -> Iterator[Item]:
    """Yield the parts of one step again, and let the stage under way say how many are done.

    Args:
        items: the parts, such as the batches of a shard.
        size: of a part, such as its number of sentences.
        total: the sum of all sizes.
        step: the number of the step, from 0; the one that the stage is at, if not given.
    """
    stage, done = _under_way[-1] if _under_way else None, 0
    number = math.floor(stage.done) if stage and step is None else step or 0
    for item in items:
        yield item
        done += size(item)
        if stage:
            stage.step(number + done / total)


def track(
    items: Iterable[Item],
    description: str,
    total: int,
    unit: str,
    shown: bool = True,
    done: int = 0,
    note: str = "",
) -> Iterator[Item]:
    """Yield the items again, saying how many are done.

    Args:
        items: what is worked on.
        description: what is being done.
        total: how many there are.
        unit: what an item is, in the plural.
        shown: say anything at all.
        done: the first so many were done by an earlier run; they do not count for the pace, and are
            none of the items.
        note: stands behind the time.
    """
    with Stage(description, total, unit, shown, done) as stage:
        for number, item in enumerate(items, start=done + 1):
            yield item
            stage.step(number, note)


def in_notebook() -> bool:
    """Return whether a notebook runs the code, which shows pictures and bars of its own."""
    # A notebook has imported IPython already; elsewhere it may be missing.
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and hasattr(shell, "kernel")


def bar(total: int, description: str, unit: str) -> Any:
    """Return a bar for work from Python, to be updated with what is done.

    It shows in a terminal and in a notebook, from two seconds on, and goes when the work is done.

    Args:
        total: how much there is.
        description: what is being done.
        unit: what is counted, in the plural.
    """
    with warnings.catch_warnings():
        # tqdm warns where a notebook has no widgets, and then shows its bar as text.
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm
    shown = sys.stderr.isatty() or in_notebook()
    return tqdm(
        total=total,
        desc=description,
        unit=f" {unit}",
        delay=BAR_AFTER,
        leave=False,
        disable=not shown,
    )
