"""Where tensors are computed: one choice for a whole run, which is part of no recipe."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import torch
from pydantic import AfterValidator
from torch import nn

from xnmt_bench.errors import ConfigError

log = logging.getLogger(__name__)
Precision = Literal[32, "tf32", "bf16"]
Result = TypeVar("Result")
Moved = TypeVar("Moved", bound=nn.Module)
CPU = torch.device("cpu")
KINDS = ["cuda", "mps"]  # of devices besides the CPU
# Of memory for each position that a decoder reads, roughly: enough at base size.
READ_BYTES = 2**16
FEWEST = 64  # positions; memory that cannot hold these cannot hold a sentence
# What MPS, cuBLAS and cuDNN, and a processor say where torch has no error of its own.
SHORT = ("out of memory", "STATUS_ALLOC_FAILED", "DefaultCPUAllocator")


def _named(name: str) -> str:
    if not re.fullmatch(rf"auto|cpu|({'|'.join(KINDS)})(:\d+)?", name):
        raise ValueError("auto, cpu, cuda, cuda:1 or mps")
    return name


Device = Annotated[str, AfterValidator(_named)]


def find_device(name: Device) -> torch.device:
    """Return the device of a name: `auto` (a GPU if there is one), `cpu`, `cuda`, `cuda:1`, `mps`.

    Raises:
        ConfigError: this machine has no such device.
    """
    if name == "auto":
        name = next((kind for kind in KINDS if _count(kind)), "cpu")  # CUDA first
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(
            [f"device={name}: no such device; choose auto, cpu, cuda, cuda:1 or mps"]
        ) from None
    if device.type == "cuda":
        # By default LSTMs are computed in tf32, and by the environment all products may be.
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    if (device.index or 0) >= (there := _count(device.type)):
        raise ConfigError([f"device={name}: torch finds {there or 'no'} {device.type} device here"])
    return device


def _count(kind: str) -> int:
    """Return how many devices of a kind there are."""
    return 1 if kind == "cpu" else torch.get_device_module(kind).device_count()


def device_of(module: nn.Module) -> torch.device:
    """Return where a module's weights are."""
    return next(module.parameters()).device


def move(model: Moved, device: torch.device) -> Moved:
    """Move a model to a device, and return it.

    Weights that two modules share stay shared: some devices are given a copy for each.
    """
    names: dict[int, str] = {}
    shared: dict[str, str] = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        first = names.setdefault(id(weight), name)
        if first != name:
            shared[name] = first
    model.to(device)
    for name, first in shared.items():
        module, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(module), attribute, model.get_parameter(first))
    return model


def exact(device: torch.device) -> torch.dtype:
    """Return the widest floating point that a device has."""
    return torch.float32 if device.type == "mps" else torch.float64


@contextmanager
def arithmetic(precision: Precision, device: torch.device) -> Iterator[None]:
    """Compute products in a precision: float32 throughout, or with shorter factors.

    `tf32` has 10 bits of a factor's mantissa, `bf16` 7 and sums them in float32; everything but a
    product stays float32.
    """
    rooms: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    # Global settings of torch: they are put back, also when the work raises.
    before = [room.allow_tf32 for room in rooms]
    for room in rooms:
        room.allow_tf32 = precision == "tf32"
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            yield
    finally:
        for room, allowed in zip(rooms, before, strict=True):
            room.allow_tf32 = allowed


def check_precision(precision: Precision, device: torch.device) -> None:
    """Refuse a precision whose products a device does not have.

    Raises:
        ConfigError: the device has no such arithmetic.
    """
    if precision == "tf32" and device.type != "cuda":
        raise ConfigError(
            [f"rules.precision=tf32: tf32 needs a GPU; this job runs on {device.type}"]
        )


MEMINFO = Path("/proc/meminfo")
LIMITS = tuple(
    Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory/memory.limit_in_bytes")
)
_agreed: int | None = None  # bytes of memory that several processes take as free on their devices


def agree_on_memory(free: int | None) -> None:
    """Let this process take so many bytes as free on its device, as others do; None to measure.

    How much is computed at once then is the same in all of them, and with it the last digits. On a
    CPU it gives the sizes of a GPU.
    """
    global _agreed
    _agreed = free


def free_memory(device: torch.device) -> int | None:
    """Return how many bytes a tensor may take on a device; None where it is not CUDA."""
    if device.type != "cuda" or _agreed is not None:
        return _agreed
    free, _ = torch.cuda.mem_get_info(device)
    # What torch keeps for later tensors is free too.
    return int(free) + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def available_memory(device: torch.device) -> int | None:
    """Return how many bytes are free for weights and gradients; None where it is unknown."""
    if device.type == "cuda":
        return free_memory(device)
    if device.type != "cpu" or not MEMINFO.exists():
        return None
    lines = (line.split() for line in MEMINFO.read_text(encoding="ascii").splitlines())
    # It includes memory that the system uses for caches of files.
    free = [int(line[1]) * 1024 for line in lines if line[0] == "MemAvailable:"]
    # A container may have less than its machine.
    texts = [path.read_text(encoding="ascii").strip() for path in LIMITS if path.exists()]
    return min([*free, *(int(text) for text in texts if text.isdecimal())], default=None)


def keeps_in_cache(device: torch.device) -> bool:
    """Return whether a device computes fastest in parts that its cache holds: a processor does."""
    return device.type == "cpu" and _agreed is None


class Room:
    """How much is computed at once: what was asked for, or what a device has room for.

    On the CPU that is a fixed number, since another one changes last digits, and a result that was
    made in two runs is to be equal to one that was made in one. On CUDA it is what free memory
    holds. Where memory runs out it is halved, for good.

    Args:
        configured: the user's number, if any.
        cpu: on the CPU, and at least this many elsewhere.
        each: bytes of memory that one of them takes on CUDA, roughly.
    """

    def __init__(self, configured: int | None, cpu: int, each: int) -> None:
        self._given, self._cpu, self._each = configured, cpu, each
        # By device, since each has memory of its own.
        self._sizes: dict[torch.device, int] = {}

    def on(self, device: torch.device) -> int:
        """Return how much."""
        if device not in self._sizes:
            self._sizes[device] = self._given or self._room(device)
        return self._sizes[device]

    def _room(self, device: torch.device) -> int:
        free = free_memory(device)
        return self._cpu if free is None else max(self._cpu, free // self._each)

    def tried(self, device: torch.device, work: Callable[[int], Result]) -> Result:
        """Return what `work` gives for a size, the greatest that fits into memory.

        Raises:
            RuntimeError: it is not enough for a few either.
        """
        first = self.on(device)
        while True:
            size = self.on(device)
            try:
                return work(size)
            except RuntimeError as error:
                if not _of_memory(error):
                    raise
                if size <= FEWEST:
                    self._sizes[device] = first  # the next call may need less
                    raise
            self._sizes[device] = fewer = size // 2
            log.warning("out of memory with %d positions at once: %d from now on", size, fewer)
            torch.cuda.empty_cache()  # what was kept for tensors of other sizes


def _of_memory(error: RuntimeError) -> bool:
    """Return whether memory ran out, by the errors of torch, CUDA, cuBLAS and MPS."""
    return isinstance(error, torch.OutOfMemoryError) or any(
        phrase in str(error) for phrase in SHORT
    )
