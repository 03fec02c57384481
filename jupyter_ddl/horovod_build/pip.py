"""Runs the user's own pip, so that its mirrors, proxies and certificates apply to what we fetch."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from jupyter_ddl.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


def run_pip(
    arguments: Sequence[str], *, purpose: str, remedy: str, log: Path, env: Mapping[str, str] | None = None
) -> None:
    """Run `python -m pip ARGUMENTS` of this interpreter and append its output to the log.

    Args:
        arguments: what follows `pip`.
        purpose: completes "pip must be able to ...".
        remedy: what the user can do where it fails.
        log: the file that its output is appended to.
        env: the whole environment of the process; this process's own by default.

    Raises:
        BuildError: this interpreter has no pip, or pip failed.
    """
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    status, output = run_logged(command, log, env=os.environ if env is None else env)
    if status == 0:
        return
    if "No module named pip" in output:
        raise BuildError(
            "Horovod is fetched and installed with this interpreter's pip.",
            f"{sys.executable} has no pip",
            f"Run: {sys.executable} -m ensurepip",
        )
    raise BuildError(f"pip must be able to {purpose}.", _error_line(output), remedy, log)


def run_logged(
    command: Sequence[str], log: Path, *, env: Mapping[str, str], on_line: Callable[[str], None] = lambda _: None
) -> tuple[int, str]:
    """Run a command with its output into the log; return its status and its output.

    Args:
        command: the program and its arguments.
        log: is appended to.
        env: the whole environment of the process.
        on_line: is called with each line of the output, as it comes.
    """
    lines = []
    with (
        log.open("a", encoding="utf-8") as file,
        subprocess.Popen(
            command,
            env=dict(env),
            cwd="/",  # `python -m` looks for modules in its working folder first
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        file.write(f"$ {' '.join(command)}\n")
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            on_line(line)
            lines.append(line)
        file.write("\n")
    return process.returncode, "".join(lines)


def _error_line(output: str) -> str:
    """Return the line that says why pip failed: its last `ERROR:` line, else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["pip said nothing"])[-1].rstrip(".")
