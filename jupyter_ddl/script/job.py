"""Runs the processes of one script on its ranks, from their start to their end.

The rules are those of a cell (`kernel.release_policy`): a rank that raised releases the others after a grace time;
Ctrl-C releases all; a rank that does not answer is ended. A script's run is recorded as a cell's is.

Runs on: the terminal's process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.core_time import CoreTime
from jupyter_ddl.cluster.memory_limits import LimitOfScript
from jupyter_ddl.host import run_module
from jupyter_ddl.host.interrupts import interrupts_noted
from jupyter_ddl.kernel.release_policy import SCRIPT, SCRIPT_INTERRUPTED, ReleasePolicy
from jupyter_ddl.protocol.rank_answers import HostDescribed
from jupyter_ddl.protocol.rank_life import RankReady, RankWarm
from jupyter_ddl.protocol.requests import Release, RunScript
from jupyter_ddl.script.host_watch import HostWatch
from jupyter_ddl.script.launching import job, rank_environment, witnessed
from jupyter_ddl.script.listener import Listener
from jupyter_ddl.script.network_listener import NetworkListener
from jupyter_ddl.script.outcome import Ending, Outcome, signalled
from jupyter_ddl.script.recording import Recording
from jupyter_ddl.script.stalls import Stalls
from jupyter_ddl.views.first_rank import FirstRank
from jupyter_ddl.views.terminal import TerminalView

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.host.interrupts import Interruption
    from jupyter_ddl.kernel.release_policy import ReleaseTimes
    from jupyter_ddl.protocol.cell_options import CellOptions
    from jupyter_ddl.protocol.events import CollectiveStalled, Event, Stream
    from jupyter_ddl.protocol.transport import RankTransport
    from jupyter_ddl.script.launching import Surroundings
    from jupyter_ddl.views.view import View

ScriptListener = Listener | NetworkListener
_HINT_S = 2.0
_TICK_S = 0.1
_LONG_LINE = 1 << 20  # characters: a terminal shows all that was printed, and not a part of it
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"  # with "0" TensorFlow logs all, and we show it


class Job:
    """One script on its ranks.

    Args:
        spec: the ranks, their devices, threads and variables.
        script: the script, and the arguments that it gets.
        options: checked for these ranks.
        surroundings: what is known of their hosts.
    """

    def __init__(
        self, spec: ClusterSpec, script: Sequence[str], options: CellOptions, surroundings: Surroundings
    ) -> None:
        self._surroundings = surroundings
        self._spec = spec
        self._script = script
        self._options = options
        terminal = TerminalView(range(spec.n), line_limit=_LONG_LINE)
        self._view: View = terminal if options.auto is None else FirstRank(terminal)
        self._recording = Recording(spec, script, options)
        self._run = self._recording.run
        self._ending = Ending(self._run)
        self._core_time = CoreTime()
        self._stalls: Stalls | None = None
        self._hosts = HostWatch(spec.place, surroundings.hosts, self._recording.ready)
        limits = spec.limits if spec.place.is_here else None
        self._limit = None if limits is None else LimitOfScript(limits, self._recording.ready, self._run.id)
        self._policy = ReleasePolicy(SCRIPT, self._starves)
        self._ends_now = False
        self._hint_due_s: float | None = None

    def run(self) -> Outcome:
        """Start the ranks, show what they print, and return the outcome when all processes have ended."""
        with _signals_noted(self._ending), interrupts_noted() as interrupted:
            self._recording.begin()
            # What the record says after an error of ours.
            outcome = Outcome(1)
            try:
                outcome = self._outcome(interrupted)
            except BrokenPipeError:
                outcome = signalled(signal.SIGPIPE)
                raise
            finally:
                self._recording.end(outcome)
                interrupted.came = False
        return outcome

    def _outcome(self, interrupted: Interruption) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="jupyter_ddl-") as name:
            folder = Path(name)
            level = self._spec.environment.get(_LOG_LEVEL, os.environ.get(_LOG_LEVEL))
            reads_stalls = self._options.stalls.after_s is not None
            run = self._run.id if reads_stalls else None
            listener = self._listener(folder, shows_start=level == "0", run=run)
            self._stalls = Stalls(self._run, self._options.stalls, self._recording.ready, listener)
            with contextlib.closing(listener), self._hosts_watched(listener), self._started(folder, listener) as holder:
                while holder.poll() is None:
                    self._step(listener)
                    if interrupted.came:
                        interrupted.came = False
                        self._interrupt(listener)
                    if self._must_end():
                        _end(holder)
                while listener.read(0):
                    self._tick()
            self._view.flush()
            log = (folder / "mpiexec.log").read_text(errors="replace")
            ended = listener.ended.values() if isinstance(listener, NetworkListener) else None
            return self._ending.outcome(holder.returncode, log, ended)

    def _listener(self, folder: Path, *, shows_start: bool, run: str | None) -> ScriptListener:
        n, hosts = self._spec.n, self._surroundings
        if self._spec.place.is_here:
            return Listener(folder, n, self, shows_start=shows_start, run=run)
        offsets_s = hosts.clock_offsets_s
        return NetworkListener(
            hosts.network.address, n, self, shows_start=shows_start, run=run, clock_offsets_s=offsets_s
        )

    def _hosts_watched(self, listener: ScriptListener) -> contextlib.AbstractContextManager[None]:
        if isinstance(listener, NetworkListener):
            return self._hosts.watching(listener.quiet)
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def _started(self, folder: Path, listener: ScriptListener) -> Iterator[subprocess.Popen[bytes]]:
        """Start the ranks; they have ended when the `with` block has, whatever ended it."""
        own = rank_environment(self._spec, self._request(folder)) | witnessed(self._spec, folder)
        command, environment = job(self._spec, self._script, self._surroundings, own, self._folders(folder))
        line = b"" if isinstance(listener, Listener) else listener.line_for_ranks
        with (folder / "mpiexec.log").open("wb") as log, _readable(line) as given:
            holder = subprocess.Popen(
                [*run_module.command("jupyter_ddl.script.reaper", str(given), str(folder)), *command],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(given,),
                # A terminal's Ctrl-C is for us: it reaches the ranks as a release.
                start_new_session=True,
            )
        try:
            yield holder
        finally:
            _end(holder)

    def _folders(self, pipes: Path) -> list[Path]:
        """Return the folders into which ranks of this host write; what those of others write comes to us."""
        return [pipes, self._run.folder.path] if self._spec.place.is_here else []

    def _request(self, folder: Path) -> RunScript:
        spec, run = self._spec, self._run
        is_here = spec.place.is_here
        return RunScript(
            run.id,
            # Other hosts need not see the run's folder: what the ranks write comes to us.
            run.folder.log_dir if is_here else None,
            str(folder) if is_here else None,
            spec.n,
            None if spec.finds_devices else spec.devices,
            spec.threads,
            self._options,
            spec.oversubscribe,
            None if spec.allowed is None else spec.allowed.memory,
            spec.allotment,
        )

    def take(self, event: Event) -> None:
        """Take an event of a rank, or what is to be shown of its output."""
        if getattr(event, "run", None) == self._run.id or isinstance(event, RankReady | RankWarm | HostDescribed):
            self._recording.take(event)
        if self._stalls is not None:
            self._stalls.handle(event)
        self._view.handle(event)

    def take_output(self, rank: int, stream: Stream, data: bytes, shown: bytes) -> None:
        """Record what a rank wrote."""
        self._recording.take_output(rank, stream, data, shown)

    def take_stall(self, stalled: CollectiveStalled) -> None:
        """Take what Horovod wrote of a stall."""
        if self._stalls is not None:
            self._stalls.found(stalled)

    def _tick(self) -> float:
        """Record and show what has come; return the time."""
        for report in () if self._stalls is None else self._stalls.reported():
            self.take(report)
        now_s = self._run.clock.now_s()
        self._recording.tick(now_s)
        self._view.tick(now_s)
        return now_s

    def _step(self, listener: ScriptListener) -> None:
        """Take what comes within a tick, show it, and do what is due."""
        listener.read(_TICK_S)
        now_s = self._tick()
        if self._hint_due_s is not None and now_s >= self._hint_due_s:
            self._hint_due_s = None
            print(
                f"Interrupted. The ranks have {SCRIPT_INTERRUPTED.answer_s:.0f} s to end; another Ctrl-C ends them "
                "now.",
                file=sys.stderr,
            )
        if self._policy.is_released:
            self._policy.look(now_s)
        elif self._stalls is not None and (stall := self._stalls.aborts) is not None:
            self._ending.stall = stall
            self._release(listener, "the script stalled", SCRIPT)
        elif (causes := self._run.causes()) and self._policy.grace_is_over(now_s):
            self._release(listener, f"rank {causes[0].rank} raised", SCRIPT)

    def _interrupt(self, listener: ScriptListener) -> None:
        if self._ending.interrupted:
            self._ends_now = True
            return
        self._ending.interrupted = True
        self._hint_due_s = self._run.clock.now_s() + _HINT_S
        self._release(listener, "interrupted", SCRIPT_INTERRUPTED)

    def _release(self, ranks: RankTransport, reason: str, times: ReleaseTimes) -> None:
        """Release the ranks on which the run is pending; they must end within a time."""
        self._policy.begin(self._run.clock.now_s(), times)
        ranks.send(Release(self._run.id, reason), sorted(self._run.pending), now=True)

    def _starves(self) -> bool:
        ready = self._recording.ready
        here = socket.gethostname()
        pids = (ready[rank].pid for rank in self._run.pending if rank in ready and ready[rank].host == here)
        return any(map(self._core_time.is_starved, pids))

    def _must_end(self) -> bool:
        self._ending.lost = self._hosts.lost or (None if self._limit is None else self._limit.loss())
        if self._ending.ended_by is not None or self._ending.lost is not None:
            return True
        if not (self._ends_now or self._policy.is_over()):
            return False
        self._ending.given_up = tuple(sorted(self._run.pending))
        return True


def _end(holder: subprocess.Popen[bytes]) -> None:
    """Have the holder end all processes, and wait until they have. Safe to call twice."""
    assert holder.stdin is not None
    holder.stdin.close()
    holder.wait()


@contextlib.contextmanager
def _readable(line: bytes) -> Iterator[int]:
    """Yield a descriptor from which a line can be read, and then its end."""
    reader, writer = os.pipe()
    # A pipe takes this much without a reader.
    os.write(writer, line)
    os.close(writer)
    try:
        yield reader
    finally:
        os.close(reader)


@contextlib.contextmanager
def _signals_noted(ending: Ending) -> Iterator[None]:
    """Note that a signal asks us to end, in place of ending in the middle of a step."""

    def note(signum: int, _frame: FrameType | None) -> None:
        ending.ended_by = signal.Signals(signum)

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
