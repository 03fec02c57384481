"""A profiler of torch's ends when gloo's threads have noted all that it records."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("gloo_profiles.py")


def recorded(how: str, environment: dict[str, str]) -> tuple[int, bool]:
    """Return how often the program recorded, and whether gloo had something to note as a profiler ended."""
    command = [sys.executable, str(PROGRAM), how]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    times, late = map(int, done.stdout.split()[-2:])
    return times, late > 0


@pytest.mark.parametrize(
    "environment",
    [{}, {"TORCH_FR_BUFFER_SIZE": "0", "TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}],
    ids=["torch keeps a record", "it keeps none"],
)
def test_it_waits_for_them(environment: dict[str, str]) -> None:
    assert recorded("waits", environment) == (50, False)


def test_torch_alone_does_not() -> None:
    """Else the test above would show nothing, and the wait could go."""
    _, is_late = recorded("stock", {})
    assert is_late
