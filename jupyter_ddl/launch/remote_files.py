"""Brings the files of ranks from a host that shares no folder with this one, over SSH or by the scheduler.

They come as one tar stream. Nothing is removed there before it is stored here.

Runs on: kernel, the lease.
"""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import subprocess
import tarfile
import threading
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, cast

from jupyter_ddl.host import files
from jupyter_ddl.launch.on_host import on_host
from jupyter_ddl.protocol.rank_files import (
    APART_LOG,
    APART_RUNS,
    ENDED,
    EVENTS,
    EXCESS,
    EXIT,
    LOG,
    PROCESS,
    RUN_NOTE,
    STACKS,
    STDERR_SPANS,
    TIMES,
    rank_file_pattern,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from io import BufferedReader
    from pathlib import Path
    from typing import IO

    from jupyter_ddl.launch.place import Place

_CONNECT_S = 5
# The lease has 20 s for all of its end.
DEADLINE_S = 12.0
_STORED = b"stored\n"
_OF_RUN = rank_file_pattern(LOG, STDERR_SPANS, TIMES, EVENTS, ENDED)
_OF_CLUSTER = rank_file_pattern(RUN_NOTE, STACKS, PROCESS, EXIT, EXCESS)
# A shell beside each rank completes the log of one that has ended, within milliseconds: it is awaited for a second. The
# run in which a rank is, or was last, still gets what its threads print, so its files stay for the next time.
_AWAIT_LOGS = f"""
for turn in 1 2 3 4 5 6 7 8 9 10; do
    pending=
    for note in {APART_LOG}/rank-*.{RUN_NOTE}; do
        rank=${{note#{APART_LOG}/rank-}}
        IFS= read -r folder <"$note"
        file=$folder/rank-${{rank%.{RUN_NOTE}}}
        [ -f "$file.{LOG}" ] && [ ! -f "$file.{ENDED}" ] && pending=1
    done
    [ -n "$pending" ] || break
    sleep 0.1
done 2>/dev/null
"""
_SEND = """
there= over=
for part in {parts}; do
    [ -e "$part" ] || {{ over="$over $part"; continue; }}
    there="$there $part"
    grep -qx ".*/$part" {log}/rank-*.{note} 2>/dev/null || over="$over $part"
done
echo {mark} $over
[ -n "$there" ] || exit 0
tar -cf - $there || exit 1
read -r stored && [ "$stored" = stored ] || exit 1
"""


def bring_runs(
    place: Place, host: str, folder: str, runs: Iterable[str], runs_dir: Path, *, has_ended: bool = False
) -> set[str] | None:
    """Bring the files of some runs; return those whose files are all here now, and no longer there.

    None where the host did not answer, or not all could be stored.

    Args:
        place: how hosts are reached.
        host: as it was given.
        folder: the ranks' there.
        runs: which, by their ids; ranks that are in them, or were last, may write more.
        runs_dir: that of this host; a run without a folder in it is passed over.
        has_ended: ranks are about to end: wait until their logs are complete.
    """
    parts = {f"{APART_RUNS}/{run}": run for run in runs}
    gone = _bring(place, host, folder, list(parts), _Store(runs_dir, None), "rm -rf $over", waits=has_ended)
    return None if gone is None else {parts[part] for part in gone if part in parts}


def bring_logs(place: Place, host: str, folder: str, log_dir: Path) -> bool:
    """Bring what ranks noted of themselves, and how they ended; return whether that is here now.

    Args:
        place: how hosts are reached.
        host: as it was given.
        folder: the ranks' there.
        log_dir: the cluster's.
    """
    return _bring(place, host, folder, [APART_LOG], _Store(None, log_dir), "", waits=False) is not None


def bring_all(place: Place, host: str, folder: str, runs_dir: Path, log_dir: Path) -> bool:
    """Bring all that ranks which have ended left, and remove it there; return False where something is left there.

    Args:
        place: how hosts are reached.
        host: as it was given.
        folder: the ranks' there.
        runs_dir: that of this host.
        log_dir: the cluster's.
    """
    store = _Store(runs_dir, log_dir)
    remove = f"cd / && rm -rf {shlex.quote(folder)}"
    return _bring(place, host, folder, [APART_LOG, APART_RUNS], store, remove, waits=True) is not None


class _Store:
    """Where the files go: only names that ranks write, only into folders that exist.

    Args:
        runs_dir: None to pass over the runs' files.
        log_dir: None to pass over the cluster's.
    """

    def __init__(self, runs_dir: Path | None, log_dir: Path | None) -> None:
        self._runs_dir = runs_dir
        self._log_dir = log_dir

    def path_of(self, name: str) -> Path | None:
        """Return where a file of the stream goes; None where it is none of ours."""
        match PurePosixPath(name).parts:
            case (kind, file) if kind == APART_LOG and self._log_dir is not None and _OF_CLUSTER.fullmatch(file):
                return self._log_dir / file
            case (kind, run, file) if kind == APART_RUNS and self._runs_dir is not None and _OF_RUN.fullmatch(file):
                folder = self._runs_dir / run
                return folder / file if run != ".." and folder.is_dir() and not folder.is_symlink() else None
        return None

    def take(self, stream: IO[bytes]) -> None:
        """Store what a tar stream has.

        Raises:
            OSError, tarfile.TarError: the stream is cut off, or the disk is full.
        """
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                path = self.path_of(member.name) if member.isfile() else None
                content = None if path is None else archive.extractfile(member)
                if path is None or content is None:
                    continue
                with files.replacing(path) as file:
                    while data := content.read(1 << 20):
                        file.write(data)


def _bring(
    place: Place, host: str, folder: str, parts: list[str], store: _Store, remove: str, *, waits: bool
) -> list[str] | None:
    """Bring parts of a folder; return those that no rank writes to, or None where not all is stored.

    Args:
        place: how hosts are reached.
        host: as it was given.
        folder: the ranks' there; nothing to bring where it does not exist.
        parts: by their paths in it.
        store: where they go.
        remove: the shell command to run there once all is stored.
        waits: until the logs of ranks that end are complete.
    """
    # What a login prints comes before the mark.
    mark = secrets.token_hex(8)
    send = _SEND.format(parts=shlex.join(parts), log=APART_LOG, note=RUN_NOTE, mark=mark)
    enter = f"cd {shlex.quote(folder)} 2>/dev/null || {{ echo {mark}; exit 0; }}\n"
    script = f"{enter}{_AWAIT_LOGS if waits else ''}{send}{remove}\n"
    with _reading(on_host(place, host, script, connect_s=_CONNECT_S)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            over = _after(mark, process.stdout)
            if over is None:
                return None
            if cast("BufferedReader", process.stdout).peek(1):
                store.take(process.stdout)
                process.stdin.write(_STORED)
            process.stdin.close()
        except (OSError, tarfile.TarError):
            return None
        return over if process.wait() == 0 else None


def _after(mark: str, stream: IO[bytes]) -> list[str] | None:
    """Read up to the line that begins with a mark; return its other words, None where it does not come."""
    for line in iter(stream.readline, b""):
        first, *words = line.decode(errors="replace").split() or [""]
        if first == mark:
            return words
    return None


@contextmanager
def _reading(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command with pipes, for the length of the block and at most DEADLINE_S."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # Its group has its PID, which no other process can get before wait() below.
    deadline = threading.Timer(DEADLINE_S, lambda: _kill(process))
    deadline.daemon = True
    deadline.start()
    try:
        yield process
    finally:
        deadline.cancel()
        _kill(process)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                _close(pipe)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None and process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def _close(pipe: IO[bytes]) -> None:
    try:
        pipe.close()
    except BrokenPipeError:
        # What was still to be said has no reader.
        return
