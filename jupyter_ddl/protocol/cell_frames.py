"""Defines the signal on which a rank writes its stacks, and recognises the file names of cells."""

from __future__ import annotations

import re
import signal

# Real-time signals have no fixed use. Batch systems send SIGUSR1 and SIGUSR2 before the walltime, mpiexec passes them
# on, and programs use them; the C library uses the first two real-time ones, debuggers the last.
SIGNAL = signal.SIGRTMIN + 11

# Source: ipykernel 7.4, ipykernel/compiler.py, get_file_name
_CELL = re.compile(r".*[/\\]ipykernel_\d+[/\\]\d+\.py", re.DOTALL)


def is_cell(file: str) -> bool:
    """Return whether code of this file name comes from a cell; there is no such file."""
    return _CELL.fullmatch(file) is not None
