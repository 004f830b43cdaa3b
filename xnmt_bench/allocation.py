"""How the C library keeps memory that was freed."""

from __future__ import annotations

import ctypes

# Parameters of glibc's `mallopt`.
TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4
MOST = 2**31 - 1  # bytes; the greatest number that it takes
PAD = 2**26  # bytes that the heap grows by at once


def keep_freed_memory() -> None:
    """Let freed memory be used again rather than given back to the system, where glibc is there.

    The logits of a training step are so large that glibc takes them from the system and gives them
    back at each step. The system clears every page of them anew, which took a third of a training's
    time on a CPU.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library
        return
    for parameter, value in ((MMAP_MAX, 0), (TRIM_THRESHOLD, MOST), (TOP_PAD, PAD)):
        mallopt(parameter, value)
