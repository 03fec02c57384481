"""Calls the commands of a batch scheduler's queue, and reads how it writes times."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

from jupyter_ddl.errors import ClusterError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_ddl.launch.schedulers.scheduler import JobRequest

_ANSWER_S = 20.0
_SUBMIT = ("sbatch", "qsub", "bsub")
_CANCEL = ("scancel", "qdel", "bkill")


def call(title: str, command: Sequence[str], text: str = "", variables: Mapping[str, str] | None = None) -> str:
    """Run a scheduler's command; return what it printed.

    Args:
        title: the scheduler's name, for the error.
        command: with its arguments.
        text: for its standard input.
        variables: on top of this process's.

    Raises:
        ClusterError: it refuses, in its own words; or does not answer.
    """
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_ANSWER_S,
            env={**os.environ, **(variables or {})},
        )
    except FileNotFoundError:
        received = f"{command[0]} is not on PATH"
    except subprocess.TimeoutExpired:
        received = f"no answer within {_ANSWER_S:g} s"
    else:
        if done.returncode == 0:
            return done.stdout
        received = (done.stderr or done.stdout).strip() or f"status {done.returncode}"
    raise ClusterError(f"{title} must take `{command[0]}`. Received: {received.rstrip('.')}. {_remedy(command[0])}")


def _remedy(program: str) -> str:
    if program in _SUBMIT:
        return "Change what it names, or ask the site's staff."
    if program in _CANCEL:
        return "%ddl jobs lists the jobs that can be ended."
    return f"Use a login node on which `{program}` answers, or ask the site's staff."


def all_that_prints(command: Sequence[str]) -> str:
    """Return what a command prints, errors too; nothing where it cannot run or does not end."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=_ANSWER_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def wall_time(request: JobRequest) -> tuple[int, int, int] | None:
    """Return a job's wall time in hours, minutes and seconds; None for the queue's own.

    Raises:
        InvalidInput: it is not HOURS:MINUTES.
    """
    if request.time is None:
        return None
    found = re.fullmatch(r"(\d{1,4}):([0-5]?\d)(?::([0-5]?\d))?", request.time)
    if found is None:
        raise InvalidInput(
            "A job's time is HOURS:MINUTES.", repr(request.time), "Write --time 1:30 for an hour and a half."
        )
    return int(found[1]), int(found[2]), int(found[3] or 0)


def seconds_in(text: str) -> int | None:
    """Return the seconds in "1:02:03" or "62:03"; None where it is neither.

    Example:
        >>> seconds_in("01:00:30")
        3630
    """
    parts = text.split(":")
    if not all(part.isdecimal() for part in parts) or not 2 <= len(parts) <= 3:
        return None
    hours, minutes, seconds = [0] * (3 - len(parts)) + [int(part) for part in parts]
    return hours * 3600 + minutes * 60 + seconds
