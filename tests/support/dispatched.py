"""Counts what a GPU would wait for: operations that Python dispatches, and waits for their results.

Each operation costs Python some microseconds before a GPU sees it, however small it is; and a
number that the host asks for costs a wait until all work before it is done. Both are counted on
any machine, under the sizes that a GPU's memory gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from xnmt_bench import device

GPU_BYTES = 80 * 10**9  # of memory: an H100
# Methods that return a number, an array or a choice to Python. Not `numpy`, which tensors of a GPU
# lack: `cpu` comes before it.
ON_HOST = {
    *("item", "tolist", "cpu", "nonzero", "unique", "masked_select"),
    *("__bool__", "__int__", "__float__", "__index__", "__array__", "__contains__"),
}
UNMARKED_VIEWS = ("_unsafe_view", "detach", "lift_fresh")  # which torch does not mark as views


@dataclass
class Count:
    """What some work dispatched.

    Attributes:
        operations: by name, views too, which Python dispatches like any other.
        views: how many of them are views, for which a device has nothing to do.
        waits: by name, the waits of the host. What is copied right behind another copy, with no
            operation between, does not wait again.
    """

    operations: Counter[str] = field(default_factory=Counter)
    views: int = 0
    waits: Counter[str] = field(default_factory=Counter)
    idle: bool = True  # nothing was dispatched since the last wait
    on_host: bool = False  # what is dispatched now is of a tensor that is never on a GPU

    def wait(self, name: str) -> None:
        """Count a wait, unless all work is done."""
        if not self.idle:
            self.waits[name] += 1
            self.idle = True


class _Operations(TorchDispatchMode):
    def __init__(self, count: Count) -> None:
        super().__init__()
        self._count = count

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        generator = (kwargs or {}).get("generator")
        # Draws that a seed decides are made on the CPU, wherever the model is.
        if self._count.on_host or (generator is not None and generator.device.type == "cpu"):
            return function(*args, **(kwargs or {}))
        name = function._schema.name.removeprefix("aten::")
        by_mask = name in ("index", "index_put", "index_put_") and any(
            x is not None and x.dtype in (torch.bool, torch.uint8) for x in args[1]
        )
        if by_mask:  # its size is known only once the mask is
            self._count.wait("boolean mask")
        result = function(*args, **(kwargs or {}))
        self._count.operations[name] += 1
        self._count.views += function.is_view or name in UNMARKED_VIEWS
        # Views of what is there start nothing that could be waited for.
        if not function.is_view:
            self._count.idle = False
        return result


class _Waits(TorchFunctionMode):
    def __init__(self, count: Count) -> None:
        super().__init__()
        self._count = count

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in ON_HOST:
            self._count.wait(name)
        self._count.on_host = name == "numpy"
        try:
            return function(*args, **(kwargs or {}))
        finally:
            self._count.on_host = False


@contextmanager
def sizes_of_gpu(memory: int = GPU_BYTES) -> Iterator[None]:
    """Compute as much at once as so many bytes hold, on the CPU too."""
    device.agree_on_memory(memory)
    try:
        yield
    finally:
        device.agree_on_memory(None)


def count(work: Callable[[], object]) -> Count:
    """Return what some work dispatches under the sizes of a GPU."""
    counted = Count()
    with sizes_of_gpu(), _Operations(counted), _Waits(counted):
        work()
    return counted
