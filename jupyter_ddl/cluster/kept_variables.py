"""Keeps what cells have defined on ranks that are ended as idle, for those that a restart starts in their place.

`python -m jupyter_ddl.cluster.kept_variables NAME SECONDS` has the ranks save their variables: their lease runs it
before it ends them, in a process of its own, for a lease has no connection to its ranks. Each world of ranks has a
folder of its own, which only its own kernel asks for, and which is removed once its variables are in use, or, a week
old, when others are saved.

Runs on: a child of the lease, where it saves; kernel, where it loads.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.cluster.channel import Channel
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.cluster.transfer import Transfer
from jupyter_ddl.errors import DdlError
from jupyter_ddl.host import files, untrusted_files
from jupyter_ddl.host.private_folders import is_private, private_folder
from jupyter_ddl.protocol.codec import record_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_RECORD = "kept.json"
_KEPT_S = 7 * 86400.0


@dataclass(frozen=True)
class KeptVariables:
    """What the ranks of one world kept.

    Attributes:
        world_size: the number of ranks.
        kept: the variables that each rank has again which had them.
        left_out: those that a rank could not save, and why.
        problem: why nothing was kept; None where something was.
    """

    world_size: int
    kept: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    problem: str | None = None


def folder_of(world_id: str) -> Path:
    """Return the folder of what one world of ranks kept (it may not exist)."""
    return paths.clusters_dir().parent / "variables" / world_id


def read(world_id: str) -> KeptVariables | None:
    """Return what a world of ranks kept, or why it kept nothing; None where it was not asked to."""
    folder = folder_of(world_id)
    if not is_private(folder):
        return None
    try:
        return record_of(KeptVariables, untrusted_files.read_object(folder / _RECORD, only_own=True))
    except (OSError, ValueError):
        # The disk was full, or saving was cut short.
        return None


def remove(world_id: str) -> None:
    """Remove what a world of ranks kept."""
    shutil.rmtree(folder_of(world_id), ignore_errors=True)


def save(cluster: ClusterFolder, patience_s: float) -> KeptVariables:
    """Have the ranks of a cluster that is about to end save their variables.

    Args:
        cluster: its folder.
        patience_s: how long they may take; then they keep nothing.

    Raises:
        FolderNotWritable: there can be no folder for them.
        OSError: the record cannot be written.
    """
    world_id, n = str(cluster.settings()["world_id"]), cluster.spec().n
    folder = folder_of(world_id)
    remove_old(folder.parent)
    private_folder(folder, variable=paths.RUNTIME_VARIABLE)
    channel = Channel(cluster.connection_file, world_id, lambda _: None)
    transfer = Transfer(cluster.connection_file, world_id, lambda: None, channel)
    timer = threading.Timer(patience_s, transfer.release, (f"its limit of {patience_s:g} s",))
    timer.daemon = True
    timer.start()
    try:
        kept = _merged(transfer.save_variables(folder, range(n)), n)
    except DdlError as error:
        kept = KeptVariables(n, problem=str(error))
    finally:
        timer.cancel()
        transfer.close()
        channel.close()
    # At the end: without it there is nothing to load.
    files.replace(folder / _RECORD, json.dumps(asdict(kept)))
    return kept


def _merged(answers: Mapping[int, dict[str, dict[str, str]]], world_size: int) -> KeptVariables:
    """Return what all ranks kept; what one of them could not save, none has again."""
    left_out: dict[str, str] = {}
    for _, answer in sorted(answers.items()):
        left_out = {**answer["left_out"], **left_out}
    kept = {name for answer in answers.values() for name in answer["kept"]} - set(left_out)
    return KeptVariables(world_size, tuple(sorted(kept)), tuple(sorted(left_out.items())))


def remove_old(variables: Path) -> None:
    """Remove folders that no kernel has asked for in a week: theirs has ended."""
    if not is_private(variables):
        return
    for folder in variables.iterdir():
        if time.time() - folder.lstat().st_mtime > _KEPT_S:
            shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Save the variables of the cluster that the command line names."""
    # Into the lease's log.
    print(save(ClusterFolder(sys.argv[1]), float(sys.argv[2])), flush=True)


if __name__ == "__main__":
    main()
