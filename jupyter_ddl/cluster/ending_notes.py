"""Notes by whom ranks are ended as idle, in the folder of their cluster or job, for who reports their end; and logs it.

Runs on: Jupyter server, a terminal, the lease; lease and kernel read the note.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.host import files, untrusted_files
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.protocol.number_texts import duration

if TYPE_CHECKING:
    from pathlib import Path

_NOTE = "ended_as_idle.json"
# An older note is of a process that was killed before it ended the ranks. A scheduler takes its time.
_FRESH_S = 120.0
_MOST_CHARACTERS = 200


def write_note(folder: Path, by: str, idle_s: float) -> None:
    """Note that ranks are about to be ended.

    Args:
        folder: of their cluster or job.
        by: who wants it.
        idle_s: how long they were idle.

    Raises:
        OSError: it cannot be written.
    """
    files.replace(folder / _NOTE, json.dumps({"by": by, "idle_s": idle_s, "at_s": time.time()}))


def noted_ending(folder: Path) -> Fault | None:
    """Return the end that a note in a folder tells of; None where there is none, or an old one."""
    try:
        note = untrusted_files.read_object(folder / _NOTE, only_own=True)
        by, idle_s, age_s = str(note["by"])[:_MOST_CHARACTERS], float(note["idle_s"]), time.time() - note["at_s"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Fault("stopped", "idle", at_s=note["at_s"], facts=Facts(by=by, seconds=idle_s)) if age_s < _FRESH_S else None


def ending_on_request(folder: Path) -> Fault:
    """Return why a cluster ends whose lease was asked to end it: its user wants it, or it was idle, as the note says.

    Args:
        folder: the cluster's.
    """
    return noted_ending(folder) or Fault("stopped", "user", at_s=time.time())


def log_file() -> Path:
    """Return the file in which the user finds who ended idle ranks (it may not exist yet)."""
    return paths.clusters_dir().parent / "stopped-as-idle.log"


def log_ending(what: str, by: str, idle_s: float) -> str:
    """Add a line to that file, with the time; where the disk is full, do without. Return the line.

    Args:
        what: was ended: a cluster, and its ranks.
        by: who wanted it.
        idle_s: how long it was idle.
    """
    line = f"{what} was stopped by {by}, after {duration(idle_s)} without a run"
    shown = "".join(one if one.isprintable() else "?" for one in line)
    with suppress(OSError):
        descriptor = files.open_to_append(log_file())
        try:
            files.append(descriptor, f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {shown}\n".encode())
        finally:
            os.close(descriptor)
    return line
