"""Describes this host: its GPUs, how they are joined, and its network interfaces. As a program it prints that as JSON.

Runs on: every host of the ranks; for a kernel, in a process of its own, since NVML belongs in no kernel.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from jupyter_ddl.host.gpu_links import gpus_and_links
from jupyter_ddl.host.interfaces import interfaces
from jupyter_ddl.protocol.host_topology import HostTopology


def describe_host() -> HostTopology:
    """Return what this host has."""
    gpus, no_gpus = gpus_and_links()
    try:
        found = interfaces()
    except OSError:
        # A sandbox may refuse the socket that it takes; no rank may end for that.
        found = ()
    return HostTopology(gpus, no_gpus, found)


if __name__ == "__main__":
    print(json.dumps(asdict(describe_host())))
