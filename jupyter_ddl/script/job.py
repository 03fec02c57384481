"""The processes of one script on its ranks, from their start to their end.

The rules are those of a cell (jupyter_ddl.kernel.run_follower): a rank that raised releases the others after a grace
time; Ctrl-C releases all; who does not answer is ended.

Runs on: the terminal's process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.cluster import occupancy
from jupyter_ddl.host import mpi, run_module
from jupyter_ddl.host.interrupts import interrupts_noted
from jupyter_ddl.protocol.cell_options import SCRIPT_OPTIONS
from jupyter_ddl.protocol.codec import encode
from jupyter_ddl.protocol.events import RankFailed, RankFinished
from jupyter_ddl.protocol.requests import Release, RunScript
from jupyter_ddl.script.listener import Listener
from jupyter_ddl.script.outcome import Outcome, Record
from jupyter_ddl.views.first_rank import FirstRank
from jupyter_ddl.views.terminal import TerminalView

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.protocol.cell_options import CellOptions
    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.views.view import View

# Ranks in a collective get Horovod's error at once; those busy elsewhere may be about to end by themselves.
GRACE_S = 0.5
# A rank that has not ended by then, after another raised, is stuck outside Python and Horovod.
ANSWER_S = 10.0
# After Ctrl-C a script may have a checkpoint to write.
INTERRUPT_ANSWER_S = 30.0
_HINT_S = 2.0
_TICK_S = 0.1
_LONG_LINE = 1 << 20  # characters: there is no log of the rank's to read the rest in
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"  # with "0" TensorFlow tells all, and so do we


class Job:
    """One script on its ranks.

    Args:
        spec: the ranks, their devices, threads and variables.
        script: the script, and the arguments that it gets.
        options: checked for these ranks.
    """

    def __init__(self, spec: ClusterSpec, script: Sequence[str], options: CellOptions = SCRIPT_OPTIONS) -> None:
        self._spec = spec
        self._script = script
        self._options = options
        terminal = TerminalView(range(spec.n), line_limit=_LONG_LINE)
        self._view: View = terminal if options.auto is None else FirstRank(terminal)
        self._record = Record(spec.n)
        self._release_due_s: float | None = None
        self._end_due_s: float | None = None
        self._hint_due_s: float | None = None

    def run(self) -> Outcome:
        """Start the ranks, show what they print, and return what it came to when all processes have ended."""
        with (
            tempfile.TemporaryDirectory(prefix="jupyter_ddl-") as name,
            _signals_noted(self._record),
            interrupts_noted() as interrupted,
        ):
            folder = Path(name)
            level = self._spec.environment.get(_LOG_LEVEL, os.environ.get(_LOG_LEVEL))
            listener = Listener(folder, self._spec.n, self._take, shows_start=level == "0")
            with contextlib.closing(listener), self._started(folder) as holder:
                while holder.poll() is None:
                    self._step(listener)
                    if interrupted.came:
                        interrupted.came = False
                        self._interrupt(listener)
                    if self._must_end():
                        _end(holder)
                while listener.read(0):
                    self._view.tick(time.monotonic())
            self._view.flush()
            interrupted.came = False
            return self._record.outcome(holder.returncode, (folder / "mpiexec.log").read_text(errors="replace"))

    @contextlib.contextmanager
    def _started(self, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Start the ranks; whatever ends the `with` block, they have ended then."""
        found = mpi.find_mpi()
        with (folder / "mpiexec.log").open("wb") as log:
            holder = subprocess.Popen(
                [
                    *run_module.command("jupyter_ddl.script.reaper"),
                    *run_module.command("jupyter_ddl.host.process_tree", *mpi.launch_command(found, self._spec.n)),
                    *run_module.command("jupyter_ddl.rank.script_main", *self._script),
                ],
                env={**os.environ, **mpi.launch_environment(found, n=self._spec.n), **self._environment(folder)},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                # A terminal's Ctrl-C is for us: it reaches the ranks as a release.
                start_new_session=True,
            )
        try:
            yield holder
        finally:
            _end(holder)

    def _environment(self, folder: Path) -> dict[str, str]:
        spec = self._spec
        request = RunScript(str(folder), spec.n, spec.devices, spec.threads, self._options)
        shared = occupancy.on_shared_cores(self._spec)
        environment = {**shared, **self._spec.environment, paths.SCRIPT_VARIABLE: json.dumps(encode(request))}
        horovod_dir = paths.horovod_dir()
        if horovod_dir is not None:
            environment[paths.HOROVOD_VARIABLE] = str(horovod_dir.absolute())
        return environment

    def _take(self, event: Event) -> None:
        if isinstance(event, RankFinished | RankFailed):
            self._record.handle(event)
        self._view.handle(event)

    def _step(self, listener: Listener) -> None:
        """Take what comes within a tick, show it, and see what is due."""
        listener.read(_TICK_S)
        now_s = time.monotonic()
        self._view.tick(now_s)
        if self._hint_due_s is not None and now_s >= self._hint_due_s:
            self._hint_due_s = None
            print(
                f"Interrupted. The ranks have {INTERRUPT_ANSWER_S:.0f} s to end; another Ctrl-C ends them now.",
                file=sys.stderr,
            )
        if self._end_due_s is None and (causes := self._record.causes()):
            if self._release_due_s is None:
                self._release_due_s = now_s + GRACE_S
            elif now_s >= self._release_due_s:
                self._release(listener, f"rank {causes[0].rank} raised", ANSWER_S)

    def _interrupt(self, listener: Listener) -> None:
        now_s = time.monotonic()
        if self._record.interrupted:
            self._end_due_s = now_s
            return
        self._record.interrupted = True
        self._hint_due_s = now_s + _HINT_S
        self._release(listener, "interrupted", INTERRUPT_ANSWER_S)

    def _release(self, listener: Listener, reason: str, answer_s: float) -> None:
        """Have the ranks that are still at it end, within a time."""
        self._end_due_s = time.monotonic() + answer_s
        for rank in self._record.pending:
            listener.request(rank, Release("", reason))

    def _must_end(self) -> bool:
        if self._record.ended_by is not None:
            return True
        if self._end_due_s is None or time.monotonic() < self._end_due_s:
            return False
        self._record.given_up = tuple(sorted(self._record.pending))
        return True


def _end(holder: subprocess.Popen[bytes]) -> None:
    """Have the holder end all processes, and wait until they have. Safe to call twice."""
    assert holder.stdin is not None
    holder.stdin.close()
    holder.wait()


@contextlib.contextmanager
def _signals_noted(record: Record) -> Iterator[None]:
    """Note in the record that a signal asks us to end, in place of ending anywhere in our own steps."""

    def note(signum: int, _frame: FrameType | None) -> None:
        record.ended_by = signal.Signals(signum)

    before = {
        signum: signal.signal(signum, note)
        for signum in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(signum) is not signal.SIG_IGN  # as nohup has it
    }
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
