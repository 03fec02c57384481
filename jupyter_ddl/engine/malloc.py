"""Has glibc's malloc keep what a step of JAX's frees for the next step.

JAX's compiled functions allocate their temporary memory at each call and free it at its end. glibc gives that back to
Linux, or not, by thresholds that it learns from what the process has freed: with a small network most ranks fetched
50 MB again in each step, page by page, and spent a third of their time on it (docs/performance.md). Its own learning
ends at the thresholds that are set here.

Of TensorFlow and PyTorch none does that, and theirs were 2 to 3 % slower with these thresholds.

Source: mallopt(3), M_MMAP_THRESHOLD; glibc, malloc/malloc.c, DEFAULT_MMAP_THRESHOLD_MAX.

Runs on: every rank.
"""

from __future__ import annotations

import ctypes
import os

MMAP_THRESHOLD = 32 * 2**20
TRIM_THRESHOLD = 2 * MMAP_THRESHOLD
# mallopt's numbers of the two, from malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_OF_THE_USER = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_")


def keep_freed_memory() -> bool:
    """Set the thresholds, unless the user has set one; return whether they are set. Other C libraries have none."""
    if any(name in os.environ for name in _OF_THE_USER) or "_threshold" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return False
    return bool(libc.mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD) and libc.mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD))
