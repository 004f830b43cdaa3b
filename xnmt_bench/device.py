"""Where tensors are computed: one choice for a whole run, which is part of no recipe."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Literal, TypeVar

import torch
from pydantic import AfterValidator

from xnmt_bench.errors import ConfigError, XnmtError

log = logging.getLogger(__name__)
Precision = Literal["32", "tf32", "bf16"]
Result = TypeVar("Result")
CPU = torch.device("cpu")
FEWEST = 64  # positions; who has no memory for these has none for a sentence


def _named(name: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?|mps", name):
        raise ValueError("auto, cpu, cuda, cuda:1 or mps")
    return name


Device = Annotated[str, AfterValidator(_named)]


def find_device(name: Device) -> torch.device:
    """The device of a name: `auto` (a GPU where there is one), `cpu`, `cuda`, `cuda:1`, `mps`.

    Raises:
        ConfigError: this machine has none such.
    """
    if name == "auto":
        name = next((kind for kind in ("cuda", "mps") if _count(kind)), "cpu")
    device = torch.device(name)
    if (device.index or 0) >= (there := _count(device.type)):
        raise ConfigError([f"device={name}: torch finds {there or 'no'} {device.type} device here"])
    return device


def _count(kind: str) -> int:
    """How many devices of a kind there are."""
    if kind == "cuda":
        return torch.cuda.device_count()
    return int(kind == "cpu" or torch.backends.mps.is_available())


def exact(device: torch.device) -> torch.dtype:
    """The widest floating point that a device has."""
    return torch.float32 if device.type == "mps" else torch.float64


@contextmanager
def arithmetic(precision: Precision, device: torch.device) -> Iterator[None]:
    """Computes products in a precision: float32 throughout, or with shorter factors.

    `tf32` has 10 bits of a factor's mantissa, `bf16` 7 and sums them in float32; all that is no
    product stays float32.

    Raises:
        XnmtError: the device has no such products.
    """
    if precision == "tf32" and device.type != "cuda":
        raise XnmtError(f"rules.precision=tf32: {device.type} has no such products, a GPU has")
    products = torch.backends.cuda.matmul
    before, products.allow_tf32 = products.allow_tf32, precision == "tf32"
    short = torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
    try:
        with torch.backends.cudnn.flags(allow_tf32=precision == "tf32"), short:
            yield
    finally:
        products.allow_tf32 = before


class Room:
    """How much is computed at once: what was asked for, or what a device has room for.

    On the CPU that is a fixed number, since another one changes last digits, and a result that was
    made in two runs is to be equal to one that was made in one. Elsewhere it is what free memory
    holds. Where memory runs out it is halved, for good.

    Args:
        given: the user's number, if any.
        cpu: on the CPU.
        each: bytes of memory that one of them takes elsewhere, roughly.
    """

    def __init__(self, given: int | None, cpu: int, each: int) -> None:
        self._size, self._cpu, self._each = given, cpu, each

    def on(self, device: torch.device) -> int:
        """How much."""
        if self._size is None:
            self._size = self._cpu
            if device.type == "cuda":
                free, _ = torch.cuda.mem_get_info(device)
                self._size = max(self._cpu, free // self._each)
        return self._size

    def tried(self, device: torch.device, work: Callable[[int], Result]) -> Result:
        """What `work` gives of a size, the greatest that memory is enough for.

        Raises:
            torch.OutOfMemoryError: it is not enough for a few either.
        """
        while True:
            size = self.on(device)
            try:
                return work(size)
            except torch.OutOfMemoryError:
                if size <= FEWEST:
                    raise
            self._size = fewer = size // 2
            log.warning("out of memory with %d positions at once: %d from now on", size, fewer)
            torch.cuda.empty_cache()  # what was kept for tensors of other sizes
