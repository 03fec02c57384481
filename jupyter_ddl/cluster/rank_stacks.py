"""Gets the stacks of ranks: it asks each rank, and makes one that cannot answer write them.

A rank answers in its control thread, also while its main thread runs Python code or waits in a collective. Where C code
keeps Python's lock, no Python code runs there: then, on this host, a signal makes faulthandler write the stacks.

Runs on: kernel, and the terminal of a script, which sends no signal.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import secrets
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from jupyter_ddl.cluster.answers import Answers
from jupyter_ddl.host import untrusted_files
from jupyter_ddl.paths import RANKS_VARIABLE
from jupyter_ddl.protocol.cell_frames import SIGNAL, is_cell
from jupyter_ddl.protocol.rank_answers import RankStacks
from jupyter_ddl.protocol.rank_files import RUN_NOTE, STACKS, rank_file
from jupyter_ddl.protocol.requests import LookAtStacks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jupyter_ddl.protocol.rank_life import RankReady
    from jupyter_ddl.protocol.transport import RankTransport

ANSWER_S = 1.0
_POLL_S = 0.05
_HEADER_BYTES = 1_000
_THREAD = re.compile(r"(?:Current thread|Thread) (0x[0-9a-f]+).*\(most recent call first\):")
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')

# No cell has so many lines above its magic; a file in a folder may hold anything.
_MOST_ABOVE = 1000
BY_SIGNAL = f"Python did not answer there within {ANSWER_S:g} s (C code may hold its lock), so it was seen by signal"


class StackLooks(Answers):
    """Gets the stacks of some ranks. Safe to use from any thread.

    Args:
        ranks: rank -> what it reported of itself.
        transport: asks them; `handle` gets the events.
        world_id: the world of the processes, which can be signalled; empty where they cannot.
        log_dir: where they write their stacks on the signal; None where they do not.
    """

    def __init__(
        self, ranks: Mapping[int, RankReady], transport: RankTransport, world_id: str = "", log_dir: Path | None = None
    ) -> None:
        super().__init__(transport)
        self._ranks = ranks
        self._world_id = world_id
        self._log_dir = log_dir

    def look(self, ranks: Iterable[int], timeout_s: float = ANSWER_S) -> dict[int, RankStacks]:
        """Return where each rank's threads are now.

        Args:
            ranks: which.
            timeout_s: how long to wait for answers, and then for what ranks write on the signal.
        """
        wanted, name = sorted(ranks), secrets.token_hex(4)
        answers = self.ask(LookAtStacks(name), wanted, timeout_s)
        silent = [rank for rank in wanted if rank not in answers]
        written = {rank: self._have_written(self._ranks[rank]) for rank in silent}
        deadline_s = time.monotonic() + timeout_s
        seen = {rank: self._read(name, rank, written[rank], deadline_s) for rank in silent}
        return {rank: answers.get(rank) or seen[rank] for rank in wanted}

    def _have_written(self, ready: RankReady) -> int | str:
        """Make a rank write its stacks; return the length of its file before, or why it cannot."""
        process = self._process(ready)
        if process is None:
            return f"it did not answer within {ANSWER_S:g} s" + (
                "" if ready.host == socket.gethostname() else ", and runs on another host"
            )
        try:
            if process.status() == psutil.STATUS_STOPPED:
                return "its process is stopped (SIGSTOP); SIGCONT resumes it"
            if not _catches(process.pid):
                # The signal would kill it.
                return f"it did not answer within {ANSWER_S:g} s, and cannot write its stacks"
            path = self._path(ready.rank)
            size = path.stat().st_size
            _, thread = _header(path)
            _signal_thread(process.pid, int(thread))
        except (psutil.Error, OSError, ValueError) as error:
            # ValueError: its file is empty, or incomplete, as on a full disk.
            return f"it did not answer within {ANSWER_S:g} s: {error}"
        return size

    def _process(self, ready: RankReady) -> psutil.Process | None:
        """Return the rank's process if it is on this host, and has this world's settings, which no other has.

        Another process may have its PID by now, and must not be signalled.
        """
        if self._log_dir is None or ready.host != socket.gethostname():
            return None
        try:
            process = psutil.Process(ready.pid)
            settings = json.loads(process.environ().get(RANKS_VARIABLE, "{}"))
        except (psutil.Error, ValueError):
            return None
        return process if settings.get("world_id") == self._world_id else None

    def _read(self, look: str, rank: int, written: int | str, deadline_s: float) -> RankStacks:
        """Return the stacks that a rank has written since its file had that length."""
        host = self._ranks[rank].host
        if isinstance(written, str):
            return RankStacks(look, rank, host, (), written)
        try:
            main, _ = _header(self._path(rank))
            dump = self._dumped(rank, main.encode(), written, deadline_s)
        except (OSError, ValueError) as error:
            return RankStacks(look, rank, host, (), f"its stacks cannot be read: {error}")
        if dump is None:
            return RankStacks(look, rank, host, (), f"it did not answer within {2 * ANSWER_S:g} s")
        text = dump.decode(errors="replace")
        return RankStacks(look, rank, host, tuple(parse_dump(text, main, self._cell(rank))), BY_SIGNAL)

    def _dumped(self, rank: int, main: bytes, written: int, deadline_s: float) -> bytes | None:
        """Return what a rank has written since, once it is complete; None where that takes too long."""
        dump = before = b""
        with untrusted_files.open_file(self._path(rank)) as file:
            # The main thread is written last.
            while main not in dump or dump != before:
                if time.monotonic() > deadline_s:
                    return None
                time.sleep(_POLL_S)
                file.seek(written)
                before, dump = dump, file.read()
        return dump

    def _cell(self, rank: int) -> list[str]:
        """Return the lines of the notebook's cell that a rank runs, empty ones in place of those above the code."""
        try:
            folder = Path(untrusted_files.read_bytes(self._file(rank, RUN_NOTE)).decode().partition("\n")[0])
            lines = untrusted_files.read_bytes(folder / "cell.py").decode("utf-8", errors="surrogatepass").splitlines()
            options = untrusted_files.read_object(folder / "run.json").get("options")
        except (OSError, ValueError):
            return []
        above = options.get("above") if isinstance(options, dict) else 0
        return [""] * above + lines if isinstance(above, int) and 0 <= above < _MOST_ABOVE else lines

    def _path(self, rank: int) -> Path:
        return self._file(rank, STACKS)

    def _file(self, rank: int, kind: str) -> Path:
        assert self._log_dir is not None, "no process of theirs is signalled"
        return self._log_dir / rank_file(rank, kind)


def parse_dump(text: str, main: str, cell: list[str]) -> list[dict[str, Any]]:
    """Return the threads that faulthandler wrote, as RankStacks has them.

    Args:
        text: what it wrote.
        main: the main thread's number, as it stands there except for leading zeros.
        cell: the lines of the cell that runs.
    """
    threads: list[dict[str, Any]] = []
    for line in text.splitlines():
        if match := _THREAD.match(line):
            is_main = int(match[1], 16) == int(main, 16)
            threads.append({"name": "MainThread" if is_main else match[1], "frames": []})
        elif threads and (match := _FRAME.fullmatch(line)):
            threads[-1]["frames"].insert(0, [match[1], int(match[2]), match[3], ""])
    threads.sort(key=lambda thread: thread["name"] != "MainThread")
    for thread in threads[:1]:
        running = next((file for file, _, function, _ in thread["frames"] if _begins_cell(file, function)), None)
        for frame in thread["frames"]:
            if frame[0] == running and 0 < frame[1] <= len(cell):
                frame[3] = cell[frame[1] - 1].strip()
    return threads


def _header(path: Path) -> tuple[str, str]:
    """Return a rank's main thread, as faulthandler numbers it, and the thread to signal."""
    with untrusted_files.open_file(path) as file:
        main, signalled = file.readline(_HEADER_BYTES).decode().split()
    return main, signalled


def _begins_cell(file: str, function: str) -> bool:
    return function == "<module>" and is_cell(file)


def _catches(pid: int) -> bool:
    """Return whether a process has a handler for SIGNAL."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (SIGNAL - 1) & 1)


def _signal_thread(pid: int, thread: int) -> None:
    # Python signals threads of its own process only.
    library = ctypes.CDLL(None, use_errno=True)
    if library.tgkill(pid, thread, SIGNAL) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
