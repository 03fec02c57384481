"""Starts ranks on this host and others, for a kernel to which these cannot connect, and becomes their lease.

It gets one line of JSON by its standard input, which `through_ssh` writes, and prints lines of JSON: the steps, and at
the end that it failed, or that it has begun. What comes after that is the lease's.

Runs on: the first host of ranks that are started through SSH.
"""

from __future__ import annotations

import json
import math
import os
import select
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_ddl.cluster import lease_process as leases
from jupyter_ddl.cluster import occupancy, starting
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.errors import DdlError, HostUnfit, InvalidInput
from jupyter_ddl.host import run_module
from jupyter_ddl.host.lost_after import host_lost_after_s
from jupyter_ddl.host.threads import Supervised
from jupyter_ddl.protocol.untrusted_json import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

# As for ranks whose controller stays away: the kernel's end has noticed it by then.
_PATIENCE = 1.5


def main() -> None:
    """Do what the order says."""
    order = _order()
    os.environ.update(order["environment"])
    given_up = threading.Event()
    # Ends with this program, which the lease's replaces.
    Supervised(lambda: _wait_closed(given_up), "jupyter_ddl head", lambda _: given_up.set()).start()
    try:
        folder = _prepared(order, given_up)
    except DdlError as error:
        _say(_failure(error))
        return
    leases.become(folder)


def _order() -> dict[str, Any]:
    """Return the order, and leave what comes after it unread."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(sys.stdin.fileno(), 1)
        if not byte:
            raise SystemExit("A head takes an order by its standard input.")
        line += byte
    order = parse_json(line)
    assert isinstance(order, dict)
    return order


def _wait_closed(given_up: threading.Event) -> None:
    """Set the event when the kernel's end is gone. What it writes is left for the lease."""
    poller = select.poll()
    poller.register(sys.stdin.fileno(), select.POLLRDHUP)
    poller.poll()
    given_up.set()


def _prepared(order: Mapping[str, Any], given_up: threading.Event) -> ClusterFolder:
    """Look at the hosts, and write the folder of the cluster.

    Raises:
        DdlError: ranks cannot start.
    """
    spec = ClusterSpec.from_json(json.dumps(order["spec"]))
    folder = ClusterFolder(spec.name)
    with folder.starting():
        left = folder.lease()
        if left is not None and not spec.keep and folder.settings().get("started_by") == order["kernel"]:
            # The same kernel's: its connection broke, and it starts others in their place.
            leases.terminate(left)
        starting.check_name(folder)
        occupancy.check_free(spec)
        found, hosts = starting.look(spec, folder, lambda step: _say({"step": step}), given_up)
        patience_s = _PATIENCE * host_lost_after_s()
        kernel = {
            "started_by": order["kernel"],
            "kernel_patience_s": None if math.isinf(patience_s) else patience_s,
            "kernel_is_apart": order["is_apart"],
        }
        if order["is_apart"]:
            # From the kernel's host all files are brought, this host's too.
            hosts = [replace(one, shares=False) for one in hosts]
        starting.prepare(spec, folder, found, hosts, os.getppid(), **kernel)
        _say({"begun": str(folder.path), "cluster": folder.settings()})
    return folder


def _failure(error: DdlError) -> dict[str, object]:
    if not isinstance(error, HostUnfit | InvalidInput):
        return {"failed": str(error)}
    parts = {"rule": error.rule, "received": str(error.received), "remedy": error.remedy}
    return {"failed": type(error).__name__, **parts}


def _say(said: Mapping[str, object]) -> None:
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    with run_module.without_working_folder():
        main()
