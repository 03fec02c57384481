"""Brings the files of a cluster's ranks from the hosts that share no folder with this one.

Runs on: kernel, the lease.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from jupyter_ddl.host.threads import print_error
from jupyter_ddl.launch import remote_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from jupyter_ddl.launch.place import Place

T = TypeVar("T")


@dataclass(frozen=True)
class ApartHosts:
    """The hosts of a cluster that share no folder with this one.

    Attributes:
        place: where the ranks are.
        hosts: each one, as it was given -> the ranks' folder there.
    """

    place: Place
    hosts: dict[str, str]

    @classmethod
    def of(cls, place: Place, settings: Mapping[str, Any]) -> ApartHosts:
        """Return those that cluster.json names; none where an older version wrote it."""
        given = settings.get("hosts", {})
        return cls(place, {given[host]: folder for host, folder in settings.get("apart", {}).items()})

    def bring_runs(
        self, wanted: Mapping[str, Iterable[str]], runs_dir: Path, *, has_ended: bool = False
    ) -> dict[str, set[str] | None]:
        """Bring the files of some runs from each host; return what `remote_files.bring_runs` does, by host.

        Args:
            wanted: host -> the runs.
            runs_dir: that of this host.
            has_ended: ranks are about to end.
        """
        bring = partial(remote_files.bring_runs, self.place)
        return self._each(lambda host, folder: bring(host, folder, wanted.get(host, ()), runs_dir, has_ended=has_ended))

    def bring_logs(self, log_dir: Path) -> None:
        """Bring what ranks noted of themselves, and how they ended; a host that does not answer is passed over."""
        self._each(lambda host, folder: remote_files.bring_logs(self.place, host, folder, log_dir))

    def bring_all(self, runs_dir: Path, log_dir: Path) -> list[str]:
        """Bring all that ranks which have ended left, and remove it there; return what is left, as HOST:FOLDER."""
        found = self._each(lambda host, folder: remote_files.bring_all(self.place, host, folder, runs_dir, log_dir))
        return [f"{host}:{self.hosts[host]}" for host, is_brought in found.items() if not is_brought]

    def _each(self, do: Callable[[str, str], T]) -> dict[str, T]:
        """Call `do` with each host and folder, with all at once; return what it returns."""
        if not self.hosts:
            return {}
        with ThreadPoolExecutor(len(self.hosts)) as pool:
            return dict(zip(self.hosts, pool.map(do, self.hosts, self.hosts.values()), strict=True))


class ApartFiles:
    """Brings the files of runs that end, in the background: one look at all hosts at a time, for all that have ended.

    Args:
        apart: the hosts.
        runs_dir: that of this host.
    """

    def __init__(self, apart: ApartHosts, runs_dir: Path) -> None:
        self._apart = apart
        self._runs_dir = runs_dir
        self._changed = threading.Condition()
        # Host -> the runs that have ended, of which files may be there.
        self._left: dict[str, set[str]] = {host: set() for host in apart.hosts}
        self._is_due = False
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def bring(self, run: str, *, has_ended: bool = False) -> None:
        """Bring what there is of a run now, and wait for it.

        Args:
            run: its id.
            has_ended: its ranks are about to end.
        """
        self._apart.bring_runs(dict.fromkeys(self._left, (run,)), self._runs_dir, has_ended=has_ended)

    def bring_soon(self, run: str) -> None:
        """Bring the files of a run that has ended, in a thread of ours."""
        if not self._left:
            return
        with self._changed:
            for runs in self._left.values():
                runs.add(run)
            self._is_due = True
            self._changed.notify_all()
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._work, name="jupyter_ddl apart files", daemon=True)
                self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait until the files of all runs that have ended are here; return whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_due or self._is_closed, timeout_s)

    def close(self) -> None:
        """Bring nothing more: at the end the lease brings all. Safe to call twice."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_due or self._is_closed)
                if self._is_closed:
                    return
                wanted = {host: set(runs) for host, runs in self._left.items()}
            self._look(wanted)
            with self._changed:
                # A run may have ended meanwhile.
                self._is_due = any(runs - wanted[host] for host, runs in self._left.items())
                self._changed.notify_all()

    def _look(self, wanted: Mapping[str, set[str]]) -> None:
        try:
            found = self._apart.bring_runs(wanted, self._runs_dir)
        except OSError as error:
            # This process can start no more: the lease brings all at the end.
            print_error(error)
            return
        with self._changed:
            for host, gone in found.items():
                self._left[host] -= gone or set()
