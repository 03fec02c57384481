"""What ranks and kernels agree on about stacks: the signal on which a rank writes its own, and the files of cells."""

from __future__ import annotations

import re
import signal

# Real-time signals are nobody's. SIGUSR1 and SIGUSR2 are what batch systems send before the walltime, what mpiexec
# passes on, and what programs take for themselves; the C library has the first two real-time ones, debuggers the last.
SIGNAL = signal.SIGRTMIN + 11

# Source: ipykernel 7.4, ipykernel/compiler.py, get_file_name
_CELL = re.compile(r".*[/\\]ipykernel_\d+[/\\]\d+\.py", re.DOTALL)


def is_cell(file: str) -> bool:
    """Return whether code of this file name comes from a cell; there is no such file."""
    return _CELL.fullmatch(file) is not None
