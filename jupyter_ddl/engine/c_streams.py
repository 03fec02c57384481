"""Has what C and C++ code prints leave its buffer: a rank's standard output is a pipe, for which C keeps 4 KB back.

Runs on: rank.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Any

# Source: glibc, stdio.h
_LINE_BUFFERED = 1


class CStdout:
    """C's standard output, which prints each line when it ends from here on, as in a terminal."""

    def __init__(self) -> None:
        self._library: Any = None
        # Another C library may have no such names: then lines come when its buffer is full.
        with suppress(AttributeError, ValueError):
            library = ctypes.CDLL(None)
            self._stream = ctypes.c_void_p.in_dll(library, "stdout")
            library.setvbuf(self._stream, None, _LINE_BUFFERED, ctypes.c_size_t(0))
            self._library = library

    def flush(self) -> None:
        """Write what C has of a line that has not ended."""
        if self._library is not None:
            self._library.fflush(self._stream)
