"""Starts a controller and ranks by ipyparallel's launchers, with commands of ours.

Runs on: the lease.
"""

from __future__ import annotations

from pathlib import Path

import psutil
from ipyparallel.cluster.launcher import LocalControllerLauncher, MPIEngineSetLauncher
from traitlets import Integer, List, Unicode

from jupyter_ddl.host import run_module
from jupyter_ddl.host.process_tree import STDIN


class _KeepsLog:
    """Leaves a process's output in the cluster's folder when it ends, where ipyparallel would remove it."""

    output_file: str

    def get_output(self, remove: bool = False) -> str:  # noqa: ARG002  ipyparallel's signature
        """Return what the process printed, also where that is not text.

        ipyparallel 9.2 reads it as UTF-8 before it reports the process's end, so after one other byte it never does.
        """
        try:
            return Path(self.output_file).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""


class ControllerLauncher(_KeepsLog, LocalControllerLauncher):
    """The controller, with its relays as threads of one process."""

    address = Unicode(help="where it listens: on loopback, unless ranks are on other hosts")

    def find_args(self) -> list[str]:
        """Return the controller's command."""
        return [
            *run_module.command("jupyter_ddl.cluster.controller"),
            f"--profile-dir={self.profile_dir}",
            f"--ip={self.address}",
            # A configuration file of the machine could still set these three to another address.
            *(f"--IPController.{who}_ip={self.address}" for who in ("engine", "client", "monitor")),
            f"--location={self.address}",
            # Messages are signed, so other users cannot run code, but without this they are not encrypted: any user of
            # the machine could read what cells print (measured: a subscriber without a key did).
            "--IPController.enable_curve=True",
            # Relays as threads: they are C loops without the GIL, start at once, and die with the controller, where
            # eight forked processes would outlive its SIGKILL.
            "--IPController.use_threads=True",
            # One relay and no tree: a cell goes to each rank by name.
            "--IPController.broadcast_scheduler_depth=0",
            # In its own process the default scheme is a Python loop; no code sends tasks to it.
            "--TaskScheduler.scheme_name=pure",
            # A rank that was stopped for a while still exists; mpiexec reports those that have ended.
            "--HeartMonitor.max_heartmonitor_misses=1000000000",
            # Neither has one ended that sent no heartbeat within 30 s of its first message: it would never be
            # registered.
            "--IPController.registration_timeout=10000000",
            "--log-level=WARN",
        ]


class RankLauncher(_KeepsLog, MPIEngineSetLauncher):
    """The MPI job whose ranks are the engines."""

    command = List(Unicode(), help="mpiexec and its options")
    rank_command = List(Unicode(), help="what it starts")
    stdin_file = Unicode(help="what mpiexec reads, which it passes on to rank 0; empty for nothing")

    def find_args(self) -> list[str]:
        """Return mpiexec's command, tied to the lease's life."""
        read = [f"{STDIN}{self.stdin_file}"] if self.stdin_file else []
        return run_module.command("jupyter_ddl.host.process_tree", *read, *self.command, *self.rank_command)


class StandbyLauncher(RankLauncher):
    """An MPI job whose ranks stood by: it runs already, as a child of this process."""

    mpiexec_pid = Integer(help="the job's mpiexec")
    mpiexec_log = Unicode(help="what it prints to, on the file system of the cluster's folder")

    def start(self, n: int) -> None:
        """Take the job over, as `LocalProcessLauncher.start` begins one.

        Source: ipyparallel 9.2, cluster/launcher.py
        """
        self.n = n
        Path(self.mpiexec_log).rename(self.output_file)
        self.process = psutil.Process(self.mpiexec_pid)
        self.pid = self.process.pid
        self.notify_start(self.pid)
        self._start_waiting()
