"""Has what C and C++ code prints leave its buffer: a rank's standard output is a pipe, for which C keeps 4 KB back.

Runs on: rank.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

# Source: glibc, stdio.h
_LINE_BUFFERED = 1


def buffer_by_lines() -> None:
    """Have C print each line when it ends, as in a terminal."""
    with suppress(AttributeError, ValueError):
        # Another C library may have no such names: then lines come when its buffer is full.
        library = ctypes.CDLL(None)
        library.setvbuf(ctypes.c_void_p.in_dll(library, "stdout"), None, _LINE_BUFFERED, ctypes.c_size_t(0))


def flush() -> None:
    """Write what C has of a line that has not ended."""
    with suppress(AttributeError, ValueError):
        library = ctypes.CDLL(None)
        library.fflush(ctypes.c_void_p.in_dll(library, "stdout"))
