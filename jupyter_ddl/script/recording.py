"""Records a script's run as a cell's is: its folder, its events, and its ranks' logs, which the terminal reads anyway.

What cannot be written, or fails, is reported once on standard error; the script continues without it.

Runs on: the terminal's process.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host.git_commit import commit_of
from jupyter_ddl.host.output_chunks import CHUNK_INTERVAL_S, Chunks
from jupyter_ddl.host.run_files import RunFiles
from jupyter_ddl.host.threads import ErrorsOnce
from jupyter_ddl.protocol.codec import as_line
from jupyter_ddl.protocol.events import RankFailed, RankFinished, RunFinished, RunStarted
from jupyter_ddl.protocol.host_topology import topology_record
from jupyter_ddl.protocol.rank_answers import HostDescribed
from jupyter_ddl.protocol.rank_files import EVENTS, LOG, STDERR_SPANS, TIMES
from jupyter_ddl.protocol.rank_life import RankLost, RankReady, RankWarm
from jupyter_ddl.protocol.script_pipes import STREAMS
from jupyter_ddl.runs.folder import RunFolder, this_process
from jupyter_ddl.runs.origin import first_line
from jupyter_ddl.runs.run import Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.protocol.cell_options import CellOptions
    from jupyter_ddl.protocol.events import Event, Stream
    from jupyter_ddl.protocol.host_topology import HostTopology
    from jupyter_ddl.script.outcome import Outcome

# What a run's id may not have of a script's name.
_NOT_IN_AN_ID = re.compile(r"[^\w.-]", re.ASCII)
_ID_CHARACTERS = 64


class Recording:
    """The run of one script. Its folder is made here.

    Args:
        spec: the ranks.
        script: the script, and the arguments that it gets.
        options: as its ranks get them.

    Attributes:
        run: what is known of it.
        ready: rank -> what it reported of itself.
    """

    def __init__(self, spec: ClusterSpec, script: Sequence[str], options: CellOptions) -> None:
        self._spec = spec
        self._script = script
        self._options = options
        self._errors = ErrorsOnce()
        self._is_told = False
        self._sent_s = 0.0
        folder = RunFolder(_NOT_IN_AN_ID.sub("_", Path(script[0]).name)[-_ID_CHARACTERS:])
        ranks = tuple(range(spec.n))
        self.run = Run(folder, ranks, spec.n)
        self.ready: dict[int, RankReady] = {}
        self._versions: dict[str, str] = {}
        self._topology: dict[str, HostTopology] = {}
        self._chunks = {(rank, stream): Chunks(stream) for rank in ranks for stream in STREAMS}
        # On other hosts ranks may not see the run's folder.
        self._has_events = not spec.place.is_here
        logs = (LOG, STDERR_SPANS, TIMES)
        kinds = (*logs, EVENTS) if self._has_events else logs
        self._files = {rank: RunFiles(rank, kinds, "script") for rank in ranks}

    def begin(self) -> None:
        """Write what is to run. To be called before the ranks start."""
        run = self.run
        with self._guarded():
            run.take(RunStarted(run.id, run.ranks, run.world_size, run.folder.start_s))
            script, *arguments = self._script
            text = _text_of(script)
            run.folder.write(
                text,
                script=script,
                first_line=first_line(text),
                git_commit=commit_of(Path(script).absolute().parent),
                arguments=arguments,
                ranks=list(run.ranks),
                world_size=run.world_size,
                threads=self._spec.threads,
                session=this_process(),
                options=self._options.record(),
            )
        for files in self._files.values():
            files.tell = _print
            files.begin(run.folder.log_dir)
        self._tell_of_the_record()

    def take(self, event: Event) -> None:
        """Take an event of a rank."""
        if isinstance(event, RankReady):
            self._note_ready(event)
            return
        if isinstance(event, RankWarm):
            self._note_versions(event)
            return
        if isinstance(event, HostDescribed):
            self._note_host(event)
            return
        of_rank: Any = event
        with self._guarded():
            if self._has_events and getattr(of_rank, "n", None):
                self._files[of_rank.rank].write_event(as_line(event))
            if isinstance(event, RankFinished | RankFailed):
                # What it printed is recorded before its end.
                self._send(event.rank)
            if isinstance(event, RankFailed):
                self._files[event.rank].write_failure(event)
            self.run.take(event)
            self.run.take_what_came()

    def take_output(self, rank: int, stream: Stream, data: bytes, shown: bytes) -> None:
        """Take what a rank wrote.

        Args:
            rank: which.
            stream: to which of its streams.
            data: all of it, for the log.
            shown: of that, what is shown.
        """
        with self._guarded():
            self._files[rank].write_output(stream, data)
            self._chunks[rank, stream].keep(shown)

    def tick(self, now_s: float) -> None:
        """Record what came since, as often as a cell's ranks send it. To be called about ten times a second."""
        if now_s - self._sent_s >= CHUNK_INTERVAL_S:
            self._sent_s = now_s
            with self._guarded():
                self._send(*self.run.ranks)
                self.run.take_what_came()
            self._tell_of_the_record()

    def end(self, outcome: Outcome) -> None:
        """Record how it ended."""
        run = self.run
        with self._guarded():
            self._send(*run.ranks)
            run.fault = outcome.fault
            if run.fault is not None and outcome.name == "lost":
                run.take(RankLost(next(iter(run.fault.ranks), None), run.fault, run.fault.at_s))
            run.take_what_came()
            finished = RunFinished(run.id, outcome.name, run.seconds, run.fault)
            run.recorder.handle(finished)
            run.folder.end(finished, run.summary.fields())
        for files in self._files.values():
            files.begin(None)
        self._tell_of_the_record()

    def _note_ready(self, ready: RankReady) -> None:
        self.ready[ready.rank] = ready
        if len(self.ready) == self.run.world_size:
            ranks = [self.ready[rank] for rank in self.run.ranks]
            with self._guarded():
                hosts = {one.rank: one.host for one in ranks}
                self.run.folder.update(hosts=hosts, devices={one.rank: one.device for one in ranks})

    def _note_host(self, described: HostDescribed) -> None:
        self._topology[described.host] = described.topology
        with self._guarded():
            self.run.folder.update(topology=topology_record(dict(sorted(self._topology.items()))))

    def _note_versions(self, warm: RankWarm) -> None:
        """Record what the script has imported, as far as no other rank has reported it."""
        versions = {**warm.versions, **self._versions}
        if versions != self._versions:
            self._versions = versions
            with self._guarded():
                self.run.folder.update(versions=versions)

    def _send(self, *ranks: int) -> None:
        """Record what ranks wrote since the last time."""
        for rank in ranks:
            for stream in STREAMS:
                chunk = self._chunks[rank, stream].take(self.run.id, rank, self._files[rank].log_bytes)
                if chunk is not None:
                    self.run.take(chunk)

    def _tell_of_the_record(self) -> None:
        problem = self.run.recorder.problem
        if problem is not None and not self._is_told:
            self._is_told = True
            print(f"jupyter_ddl: this run is not recorded any more: {problem}", file=sys.stderr)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  whatever it is: a record must not end a script
            self._errors.tell(error)


def _print(text: str) -> None:
    sys.stderr.write(text)


def _text_of(script: str) -> str:
    """Return a script's text; empty where it cannot be read, which the ranks report."""
    try:
        return Path(script).read_text(errors="replace")
    except OSError:
        return ""
