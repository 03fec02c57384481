"""What reads texts that a cell can make takes time linear in their length, whatever stands in them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.cluster.deaths import likely_cause, read_report
from jupyter_ddl.engine.capture import _STARTUP_LOG
from jupyter_ddl.engine.collective_mismatch import given
from jupyter_ddl.views.line import plain_lines

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_S = 1.5

READERS: dict[str, tuple[Callable[[str], object], int, list[str]]] = {
    "what Horovod refused": (
        lambda text: given(ValueError(), text),
        20_000,
        ["Mismatched ", "Mismatched one rank ", "one rank ", "Mismatched One rank another rank"],
    ),
    "mpiexec's report": (
        read_report,
        2_000_000,
        [
            "MPI_ABORT was invoked on rank 1 ",
            "process rank 1 with PID 1 on node a ",
            "Process name: [a, 1] ",
            "PID 1 RUNNING AT a = EXIT CODE: 1 ",
            "RANK 1 PID 1 RUNNING AT a\n=   ",
        ],
    ),
    "the likely cause": (lambda text: likely_cause(6, 0, [text]), 1_000_000, ["out of ", "CUDA_ERROR_OUT_OF", "F000 "]),
    "TensorFlow's log": (
        lambda text: _STARTUP_LOG.sub(b"", text.encode()),
        1 << 16,
        [
            "I0000 00:00:1.1 1 a:1] ",
            "2026-11-23 09:00:00.1: I a:1] ",
            "To enable the following instructions: ",
            "I0000 ",
            "External init callback must run in same thread as registerClient (1",
        ],
    ),
    "a terminal's text": (
        plain_lines,
        200_000,
        [
            "\x1b",
            "\x1b[",
            "\x1b[0",
            "\x1b]a",
            "\x1b[37m━",
            "\r[2026-11-23 09:00:00] a",
            "\x08a",
            "\x1b[9A",
            "\x1b[9C",
            "\n\x1b[A",
        ],
    ),
}
CASES = [(name, part) for name, (_, _, parts) in READERS.items() for part in parts]


@pytest.mark.parametrize(("name", "part"), CASES)
def test_it_is_linear(name: str, part: str) -> None:
    read, length, _ = READERS[name]
    text = part * (length // len(part))
    began_s = time.process_time()
    read(text)
    assert time.process_time() - began_s < MOST_S
