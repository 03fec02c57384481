"""Stands for the folder of a cluster on a host that shares none with this one: what a kernel needs of it.

It has cluster.json, the connection files, how the cluster ended, and the logs that ranks noted.

Runs on: kernel, `head_link`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from jupyter_ddl import paths
from jupyter_ddl.cluster.apart_files import ApartHosts
from jupyter_ddl.cluster.folder import ClusterFolder, ending_of
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.errors import ClusterStartFailed
from jupyter_ddl.host import files
from jupyter_ddl.views.fault import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jupyter_ddl.protocol.faults import Fault

# Hosts have folders of their own beside it, by their boot.
_SUFFIX = "-through-ssh"
_MOST_CHARACTERS = 64


def of(name: str, hostname: str) -> ClusterFolder:
    """Return the folder that stands for a cluster's.

    Args:
        name: the cluster's.
        hostname: its first host's own name.
    """
    named = re.sub(r"[^A-Za-z0-9.-]", "_", hostname)[:_MOST_CHARACTERS]
    return ClusterFolder(name, paths.clusters_dir() / f"{named}{_SUFFIX}")


def filled(mirror: ClusterFolder, cluster: Mapping[str, Any], said: Iterable[Mapping[str, Any]]) -> ClusterFolder:
    """Write what a kernel needs, as soon as the controller listens there; return the folder.

    Args:
        mirror: the folder.
        cluster: what cluster.json holds there.
        said: what comes from the lease: the connection files, or how the cluster ended.

    Raises:
        ClusterStartFailed: it has ended.
    """
    settings = {name: value for name, value in cluster.items() if name not in ("spec", "previous")}
    mirror.create(ClusterSpec.from_json(json.dumps(cluster["spec"])), settings)
    for one in said:
        if "connection" in one:
            files.replace(mirror.engine_connection_file, json.dumps(one["connection"]["engine"]))
            files.replace(mirror.connection_file, json.dumps(one["connection"]["client"]))
            return mirror
        if "kind" in one:
            ending = describe(ending_of(json.dumps(one)))
            raise ClusterStartFailed(f"Every rank must come up. Received: {ending}")
    raise AssertionError("what it says has no end but an error")


def bring_all(mirror: ClusterFolder) -> None:
    """Bring what ranks that have ended left on all hosts, and remove it there."""
    try:
        spec = mirror.spec()
    except ValueError:
        # No rank was started.
        return
    for left in ApartHosts.of(spec.place, mirror.settings()).bring_all(paths.runs_dir(), mirror.log_dir):
        print(f"Files of ranks are left in {left}.", flush=True)


def conclude(mirror: ClusterFolder, ending: Fault) -> None:
    """Note how the cluster ended, as its lease does; the folder of one that was stopped is removed."""
    if ending.kind == "stopped":
        mirror.remove()
    elif mirror.path.is_dir():
        mirror.write_ending(ending)
