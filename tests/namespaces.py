"""Programs in namespaces of their own: another host name, another network, other disks. It takes root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest


def run_apart(setup: str, program: str, variables: dict[str, str], *, timeout_s: float = 120.0) -> Any:
    """Run Python after shell commands that change its mounts, its network and its host name; return its JSON.

    Args:
        setup: shell commands, which nobody else feels.
        program: Python that prints one line of JSON last.
        variables: for both.
        timeout_s: a program that takes longer hangs.
    """
    probe = subprocess.run(["unshare", "-m", "-u", "-n", "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"no namespaces can be made here: {probe.stderr.strip()}")
    finished = subprocess.run(
        ["unshare", "-m", "-u", "-n", "sh", "-ec", f'{setup}\nexec "$PYTHON" -c "$PROGRAM"'],
        env={**os.environ, **variables, "PYTHON": sys.executable, "PROGRAM": program},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return json.loads(finished.stdout.splitlines()[-1])
