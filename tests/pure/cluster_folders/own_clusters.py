"""Makes the folders of clusters whose lease is this process."""

from __future__ import annotations

from dataclasses import replace

from jupyter_ddl.cluster import folder as folders
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.host import process_identity

SPEC = ClusterSpec("good", 2, (), 1, {}, keep=True, oversubscribe=False, note="")
OWN = process_identity.own()
SETTINGS = {"kernel_pid": 4711, "world_id": "w"}


def running(name: str) -> ClusterFolder:
    """Make the folder of a cluster whose lease is this process."""
    folder = ClusterFolder(name)
    folder.create(replace(SPEC, name=name), SETTINGS)
    folder.write_lease()
    return folder


def names() -> list[str]:
    return [folder.name for folder in folders.running()]
