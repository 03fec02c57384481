"""Finds where a rank keeps its files: in the cluster's and the run's folder, or in one of its host's own.

A host that does not share those folders has one of its own for each world of ranks, from which the files are brought to
the kernel's host when a run ends, and at the end.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_ddl.host.private_folders import private_folder
from jupyter_ddl.protocol.rank_files import APART_LOG, APART_RUNS

_VARIABLE = "TMPDIR"


@dataclass(frozen=True)
class HostFolder:
    """The folder of a rank's files that belong to no run, and whether it is its host's own.

    Attributes:
        path: with ipyparallel's subfolders.
        is_apart: this host shares no folder with the kernel's.
    """

    path: Path
    is_apart: bool

    @classmethod
    def of_this_host(cls, settings: dict[str, Any], host: str) -> HostFolder:
        """Return the folder of the ranks on a host, and make it where it is the host's own.

        Args:
            settings: the rank's.
            host: its own name.

        Raises:
            FolderNotWritable: it cannot be made.
            FolderNotPrivate: another user has made it.
        """
        own = settings["apart"].get(host)
        if own is None:
            return cls(Path(settings["folder"]), is_apart=False)
        path = private_folder(Path(own), variable=_VARIABLE)
        for name in ("security", "pid", "startup", APART_LOG, APART_RUNS):
            # All ranks of the host do so at once.
            (path / name).mkdir(mode=0o700, exist_ok=True)
        return cls(path, is_apart=True)

    @property
    def log_dir(self) -> Path:
        """Where ranks note their processes, and what else belongs to no run."""
        return self.path / APART_LOG

    @property
    def connection_file(self) -> Path:
        """Ipyparallel's connection file for engines, where it is not handed over."""
        return self.path / "security" / "ipcontroller-engine.json"

    def of_run(self, folder: str) -> str:
        """Return where the files of a run are written: its own folder, or one of this host's.

        Args:
            folder: the run's, on the kernel's host.
        """
        if not self.is_apart:
            return folder
        own = self.path / APART_RUNS / Path(folder).name
        # Where it cannot be made, the first file that is opened there says so.
        with suppress(OSError):
            own.mkdir(mode=0o700, exist_ok=True)
        return str(own)
