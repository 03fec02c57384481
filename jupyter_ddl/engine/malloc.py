"""Has glibc's malloc keep what a step of JAX's frees for the next step, or give back what PyTorch's models free.

JAX's compiled functions allocate their temporary memory at each call and free it at its end. glibc gives that back to
Linux, or not, by thresholds that it learns from what the process has freed: with a small network most ranks fetched
50 MB again in each step, page by page, and spent a third of their time on it (docs/performance.md). Its own learning
ends at the thresholds that are set here.

Of TensorFlow and PyTorch none does that, and theirs were 2 to 3 % slower with these thresholds.

PyTorch takes each tensor from malloc, and glibc learns to keep blocks of up to 32 MB on a heap that it cannot give back
while something above them is in use. A training that computes its activations again had the peak of one that keeps them
all (docs/memory.md): where memory is short, blocks from 1 MB on are Linux's again when they are freed.

Source: mallopt(3), M_MMAP_THRESHOLD; glibc, malloc/malloc.c, DEFAULT_MMAP_THRESHOLD_MAX.

Runs on: every rank.
"""

from __future__ import annotations

import ctypes
import os

MMAP_THRESHOLD = 32 * 2**20
TRIM_THRESHOLD = 2 * MMAP_THRESHOLD
GIVEN_BACK = 2**20
# mallopt's numbers of the two, from malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# With one of these of the user's own, in either spelling, glibc learns no more. Source: mallopt(3); its tunables.
_CHOICES = ("mmap_threshold", "trim_threshold", "top_pad", "mmap_max")


def keep_freed_memory() -> bool:
    """Set the thresholds, unless the user has set one; return whether they are set. Other C libraries have none."""
    return _set(MMAP_THRESHOLD, TRIM_THRESHOLD)


def give_freed_memory_back() -> bool:
    """Have large blocks given back when they are freed; likewise."""
    return _set(GIVEN_BACK, GIVEN_BACK)


def _set(mmap_threshold: int, trim_threshold: int) -> bool:
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    if any(f"MALLOC_{choice.upper()}_" in os.environ or f"glibc.malloc.{choice}=" in tunables for choice in _CHOICES):
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return False
    return bool(libc.mallopt(_M_MMAP_THRESHOLD, mmap_threshold) and libc.mallopt(_M_TRIM_THRESHOLD, trim_threshold))
