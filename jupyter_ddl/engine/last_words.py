"""Saves to the log what is left in a rank's pipes when the rank is killed.

The thread that empties the pipes dies with the rank: when a rank prints and is then killed, or crashes, the last lines
would be lost, and they say why. So a shell waits beside each rank, holds the pipes open, and when the rank is gone
appends what is left in them to the log of the run, and marks that as done.

Runs on: every rank.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

# Bound here: a cell may have replaced them in the module that this is.
from os import close, fsencode, ftruncate, pwrite
from os import open as open_descriptor
from typing import TYPE_CHECKING

from jupyter_ddl.host import files
from jupyter_ddl.protocol.log_marks import SHELL_MARK
from jupyter_ddl.protocol.rank_files import ENDED, LOG, STDERR_SPANS, TIMES, rank_file

if TYPE_CHECKING:
    from pathlib import Path

# Its standard input ends when the rank does. What a pipe holds is read without waiting for more: a process that the
# rank left behind may have it open too. $1 is a file that names the run's folder, $2 the rank, $3 and $4 the pipes.
_SCRIPT = rf"""
read -r _
IFS= read -r folder <"$1" && log="$folder/{rank_file("$2", LOG)}" && [ -f "$log" ] || exit 0
rest() {{ dd if="/dev/fd/$1" of="$log" bs=65536 count=64 iflag=nonblock oflag=append conv=notrunc 2>/dev/null; }}
first=$(stat -c %s "$log")
rest "$3"
begins=$(stat -c %s "$log")
rest "$4"
ends=$(stat -c %s "$log")
[ "$ends" -eq "$first" ] || printf '{SHELL_MARK}' "$first" "$(date +%s.%N)" >>"$folder/{rank_file("$2", TIMES)}"
[ "$ends" -eq "$begins" ] || echo "[$begins, $((ends - begins))]" >>"$folder/{rank_file("$2", STDERR_SPANS)}"
: >"$folder/{rank_file("$2", ENDED)}"
"""


class LastWords:
    """The shell beside one rank, for as long as the rank lives.

    Args:
        rank: this rank.
        note: a file of ours that tells the shell which run's log it is.
        pipes: the reading ends of what was captured: standard output, standard error.

    Attributes:
        life: the descriptor that closes when the rank ends. A child that holds it keeps the shell waiting.
    """

    def __init__(self, rank: int, note: Path, pipes: tuple[int, int]) -> None:
        self._note = note
        ours, self.life = os.pipe()
        names = [str(note), str(rank), *map(str, pipes)]
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "jupyter_ddl last words", *names],
            stdin=ours,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=pipes,
            # mpiexec ends the rank's process group, and a terminal's Ctrl-C is not for it.
            start_new_session=True,
        )
        os.close(ours)

    def belong_to(self, folder: str | None) -> None:
        """Send the last words to another run's folder; nowhere where it is None, or where it cannot be noted."""
        line = fsencode(f"{folder or ''}\n")
        try:
            # In place: a file that replaces another costs up to a millisecond of the disk's journal in each cell. The
            # line is written at once, and a reader takes the first one only, also after a kill between the two calls.
            note = open_descriptor(self._note, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, files.PRIVATE)
            try:
                pwrite(note, line, 0)
                ftruncate(note, len(line))
            finally:
                close(note)
        except OSError:
            # Last words are of a rank that dies, and this one will run a cell. An earlier run's log must not get them.
            with suppress(OSError):
                self._note.unlink()
