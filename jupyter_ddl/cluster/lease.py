"""Holds one cluster, in a small process of its own: `python -m jupyter_ddl.cluster.lease NAME`.

It parents controller and mpiexec, through ipyparallel's Cluster, and ends both when

- its standard input says so, or that a host was lost, or closes, as it does when the kernel at the other end exits or
  is killed (with `--keep` closing is ignored; where a process that the kernel forked still holds the other end, the
  lease sees that it has another parent; one that `head` became is asked for a sign of life by `head_link`),
- no run has used its ranks for the time of `--idle-stop`, with a kernel or without (`idle_watch`): with
  `--keep-variables` the ranks save what cells defined first (`saving_child`),
- it gets SIGTERM, from the kernel that attached to the cluster, or a request of one on another host,
- either of the two ends by itself,
- a rank's process on this host has ended, and mpiexec does not report it within some seconds,
- a rank of this host holds more memory than the profile of its start allows (`memory_limits`).

It reports how the cluster ended, at once, to its standard output and the cluster's folder, and leaves no descendant.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import psutil

from jupyter_ddl import paths
from jupyter_ddl.cluster import apart_files, scratch
from jupyter_ddl.cluster.deaths import Death, OutOfMemoryKills, loss_of, mpiexec_loss, tail
from jupyter_ddl.cluster.end_requests import EndRequests
from jupyter_ddl.cluster.ending_notes import ending_on_request
from jupyter_ddl.cluster.exit_records import first_end
from jupyter_ddl.cluster.folder import ClusterFolder, ending_of
from jupyter_ddl.cluster.hand_over import HandOver
from jupyter_ddl.cluster.idle_watch import TICK_S, IdleWatch
from jupyter_ddl.cluster.lease_process import LOST
from jupyter_ddl.cluster.memory_limits import LimitedRanks
from jupyter_ddl.cluster.rank_processes import DeathWatch, RankProcesses
from jupyter_ddl.cluster.saving_child import SavingChild
from jupyter_ddl.host import memory_watch
from jupyter_ddl.host.process_tree import adopt_orphans, end_descendants
from jupyter_ddl.launch.mpi_job import LOOPBACK
from jupyter_ddl.launch.schedulers.known import scheduler_of
from jupyter_ddl.protocol.faults import Facts, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from jupyter_ddl.launch.schedulers.scheduler import Scheduler

_PARENT_CHECK_S = 1.0
# On a crowded file system it takes as long as the ranks' own imports.
_CONNECTION_S = 120.0


@dataclass(frozen=True)
class StandingBy:
    """An MPI job that stood by, as a child of this process.

    Attributes:
        pid: its mpiexec's.
        log: what that prints to.
    """

    pid: int
    log: str


class Lease:
    """Starts one cluster, and ends it.

    Args:
        folder: the cluster's.
        tell: called with how it ended, before what is left of it is ended.
        hand: called with ipyparallel's connection info, for a kernel that does not see the cluster's folder.
        standing_by: the ranks that become the cluster's; None where new ones are started.
    """

    def __init__(
        self,
        folder: ClusterFolder,
        tell: Callable[[Fault], None],
        hand: Callable[[dict[str, Any]], None],
        standing_by: StandingBy | None = None,
    ) -> None:
        self._folder = folder
        self._standing_by = standing_by
        self._tell = tell
        self._hand = hand
        self._out_of_memory = OutOfMemoryKills()
        self._settings = folder.settings()
        self._spec = folder.spec()
        self._ended: asyncio.Future[Fault] | None = None
        self._cluster: Any = None
        self._end_requests: EndRequests | None = None
        self._asked = b""
        self._heard_s = time.monotonic()
        self._judges: asyncio.Task[None] | None = None
        self._idle: asyncio.Task[None] | None = None
        self._limited: asyncio.Task[None] | None = None
        self._saving = SavingChild(folder.name)
        self._hands_over = None if self._spec.place.is_here else HandOver()
        self._apart = apart_files.ApartHosts.of(self._spec.place, self._settings)
        self._processes = RankProcesses()
        self._deaths = DeathWatch(self._processes, folder.log_dir, self._left_behind, self._on_rank_end)

    def _on_end_request(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_soon_threadsafe(self._end_asked, "user")

    async def hold(self) -> Fault:
        """Start the cluster, hold it until something ends it, and clean up; return how it ended."""
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(signum, self._end_asked, "user")
        loop.add_reader(sys.stdin.fileno(), self._on_stdin)
        self._check_parent()
        self._check_kernel()
        if not self._settings.get("kernel_is_apart"):
            # Else the use of the ranks is seen on the kernel's host, by `head_link`.
            self._watch_idle()
        try:
            await self._start()
            ending = await self._ended
            if self._spec.keep_variables and ending.subject == "idle":
                is_own = self._idle is not None and self._idle.done()
                await self._saving.save(is_asked=not is_own)
            self._tell(ending)
        finally:
            await asyncio.to_thread(end_descendants)
            if self._hands_over is not None:
                self._hands_over.close()
            await asyncio.to_thread(self._bring_files)
            scratch.clear(self._settings.get("scratch", {}))
        return ending

    async def _start(self) -> None:
        # Imported here: the signal handlers and the pipe's reader are in place before this takes its time.
        from ipyparallel.cluster import Cluster

        from jupyter_ddl.cluster.launchers import ControllerLauncher, RankLauncher, StandbyLauncher

        before = self._standing_by
        taken = {} if before is None else {"mpiexec_pid": before.pid, "mpiexec_log": before.log}

        self._cluster = Cluster(
            profile_dir=str(self._folder.path),
            cluster_id="",
            cluster_file="",
            controller=ControllerLauncher,
            engines=RankLauncher if before is None else StandbyLauncher,
            send_engines_connection_env=False,
            shutdown_atexit=False,
            log_level=logging.ERROR,
        )
        # Both at once: the ranks import TensorFlow while the controller starts.
        await self._cluster.start_engines(
            self._spec.n,
            command=self._settings["command"],
            rank_command=self._settings["rank_command"],
            environment=self._settings["environment"],
            stdin_file="" if self._hands_over is None else self._hands_over.file,
            **taken,
        )
        await self._cluster.start_controller(address=self._settings["address"])
        if self._settings["address"] != LOOPBACK:
            ask = partial(self._on_end_request, asyncio.get_running_loop())
            self._end_requests = EndRequests(self._folder.connection_file, ask)
        self._cluster.engine_set.on_stop(self._on_mpiexec_end)
        self._cluster.controller.on_stop(self._on_controller_end)
        self._check_ranks()
        self._watch_memory()
        if self._hands_over is not None:
            # The controller may end meanwhile, which is reported as such.
            with suppress(TimeoutError, RuntimeError):
                found = await self._cluster.controller.get_connection_info(timeout=_CONNECTION_S)
                self._hands_over.give(found["engine"])
                if self._settings.get("kernel_is_apart"):
                    self._hand(found)

    def _bring_files(self) -> None:
        """Bring what ranks wrote on hosts that share no folder, also for a kernel that is gone."""
        if self._settings.get("kernel_is_apart"):
            # `head_link` brings it, to the kernel's host.
            return
        for left in self._apart.bring_all(paths.runs_dir(), self._folder.log_dir):
            # Into lease.log: the host may be down.
            print(f"Files of ranks are left in {left}.", flush=True)

    def _on_stdin(self) -> None:
        data = os.read(sys.stdin.fileno(), 4096)
        self._heard_s = time.monotonic()
        self._asked += data
        *lines, self._asked = self._asked.split(b"\n")
        for line in lines:
            if line.startswith(LOST):
                self._finish(ending_of(line[len(LOST) :]))
            elif line == b"stop":
                self._end_asked("user")
        if not data:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._on_kernel_end()

    def _check_parent(self) -> None:
        if os.getppid() != self._settings["kernel_pid"]:
            self._on_kernel_end()
        else:
            asyncio.get_running_loop().call_later(_PARENT_CHECK_S, self._check_parent)

    def _check_kernel(self) -> None:
        """End the cluster where nothing comes any more from a kernel on another host: its connection may be cut."""
        patience_s = self._settings.get("kernel_patience_s")
        if patience_s is None:
            return
        if time.monotonic() - self._heard_s > patience_s:
            self._on_kernel_end()
        else:
            asyncio.get_running_loop().call_later(_PARENT_CHECK_S, self._check_kernel)

    def _check_ranks(self) -> None:
        self._deaths.tick()
        if self._end_requests is not None:
            self._end_requests.begin()
        asyncio.get_running_loop().call_later(DeathWatch.TICK_S, self._check_ranks)

    def _left_behind(self) -> list[int]:
        """Return the processes that were given to us when their parents ended."""
        ours = {self._cluster.engine_set.pid, self._cluster.controller.pid}
        return [child.pid for child in psutil.Process().children() if child.pid not in ours]

    def _on_rank_end(self, death: Death) -> None:
        output = "mpiexec, its parent, said nothing of it"
        self._finish(loss_of(death, time.time(), oom_kills=self._out_of_memory.count(), output=output))

    def _on_kernel_end(self) -> None:
        if not self._spec.keep:
            self._end_asked("kernel")

    def _watch_idle(self) -> None:
        watch = IdleWatch.of(self._folder)
        if watch is not None:
            watch.restart()
            self._idle = _begun(self._end_when_idle(watch))

    async def _end_when_idle(self, watch: IdleWatch) -> None:
        # In a thread: a file system that does not answer must not keep the kernel from being heard.
        while (ending := await asyncio.to_thread(watch.due)) is None:
            await asyncio.sleep(TICK_S)
        self._finish(ending)

    def _watch_memory(self) -> None:
        limits = self._spec.limits
        if limits is not None and self._spec.place.is_here:
            # Of ranks on several hosts each host's witness does it.
            limited = LimitedRanks(limits, self._processes, self._settings["world_id"])
            self._limited = _begun(self._end_when_over(limited))

    async def _end_when_over(self, limited: LimitedRanks) -> None:
        # In a thread: it reads much, and the kernel must be heard meanwhile.
        while (excess := await asyncio.to_thread(limited.due)) is None:
            await asyncio.sleep(memory_watch.TICK_S)
        # Said before it is done: mpiexec knows of a signal only.
        self._finish(limited.loss(excess, time.time()))
        limited.end(excess)

    def _on_mpiexec_end(self, data: dict[str, Any]) -> None:
        scheduler, job = scheduler_of(self._spec.place), self._spec.place.job
        if (scheduler is None or job is None) and not self._apart.hosts:
            self._mpiexec_ended(data)
        else:
            self._judges = _begun(self._judge(scheduler, job, data), partial(self._mpiexec_ended, data))

    async def _judge(self, scheduler: Scheduler | None, job: str | None, data: dict[str, Any]) -> None:
        """Report that the job has ended, where its scheduler ended it, else how mpiexec did."""
        if scheduler is not None and job is not None:
            outcome = await asyncio.to_thread(scheduler.end_of, job)
            if outcome is not None:
                facts = Facts(by=f"{scheduler.title} job {job}", outcome=outcome)
                self._finish(Fault("lost", "job", at_s=time.time(), facts=facts))
                return
        # How ranks ended stands on their hosts.
        await asyncio.to_thread(self._apart.bring_logs, self._folder.log_dir)
        self._mpiexec_ended(data)

    def _mpiexec_ended(self, data: dict[str, Any]) -> None:
        output = self._cluster.engine_set.get_output()
        recorded = first_end(self._folder.log_dir, self._settings["clock_offsets_s"])
        if recorded is not None:
            # On several hosts mpiexec often names a rank that has lost the first one.
            kills, excess = recorded.oom_kills, recorded.excess
            self._finish(loss_of(recorded.death, recorded.at_s, oom_kills=kills, output=tail(output), excess=excess))
            return
        # Where mpiexec names no rank, Linux may have said which ended first.
        first, kills = self._deaths.first, self._out_of_memory.count()
        self._finish(mpiexec_loss(data.get("exit_code"), output, time.time(), first=first, oom_kills=kills))

    def _on_controller_end(self, data: dict[str, Any]) -> None:
        facts = Facts(status=data.get("exit_code"), output=tail(self._cluster.controller.get_output()))
        self._finish(Fault("lost", "controller", at_s=time.time(), facts=facts))

    def _end_asked(self, by: Literal["user", "kernel"]) -> None:
        # Who asks waits `STOP_TIMEOUT_S`, and then kills this process.
        self._saving.end()
        is_user = by == "user"
        self._finish(ending_on_request(self._folder.path) if is_user else Fault("stopped", by, at_s=time.time()))

    def _finish(self, ending: Fault) -> None:
        assert self._ended is not None
        if not self._ended.done():
            self._ended.set_result(ending)


def _begun(work: Coroutine[Any, Any, None], failed: Callable[[], object] = lambda: None) -> asyncio.Task[None]:
    """Begin work beside the rest, and return it; what it raises is in the lease's log, and `failed` is called then."""

    def tell(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            traceback.print_exception(error)
            failed()

    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(tell)
    return task


def hold_cluster(name: str, standing_by: StandingBy | None = None) -> None:
    """Hold a cluster from its start to its end.

    Args:
        name: the cluster's.
        standing_by: its ranks, where they run already.
    """
    # The cluster's processes inherit another standard output: the kernel's pipe closes when we end.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as kernel:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        folder = ClusterFolder(name)
        folder.write_lease()

        def say(record: dict[str, Any]) -> None:
            try:
                kernel.write(json.dumps(record) + "\n")
                kernel.flush()
            except BrokenPipeError:
                # With --keep the kernel may be gone; a kernel that attached reads the folder's files.
                return

        def tell(ending: Fault) -> None:
            # Where the disk is full, at least the kernel gets it.
            with suppress(OSError):
                folder.write_ending(ending)
            say(asdict(ending))

        ending = asyncio.run(Lease(folder, tell, lambda found: say({"connection": found}), standing_by).hold())
    if ending.kind == "stopped":
        folder.remove()


def main() -> None:
    """Hold the cluster that the command line names."""
    adopt_orphans()
    hold_cluster(sys.argv[1])


if __name__ == "__main__":
    main()
