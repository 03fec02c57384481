"""Hands the controller's address and keys over to ranks on several hosts: by mpiexec's standard input, to rank 0.

Runs on: the lease.
"""

from __future__ import annotations

import json
import os
from typing import Any


class HandOver:
    """The pipe that mpiexec reads, and what it is written to it."""

    def __init__(self) -> None:
        reads, writes = os.pipe()
        self._reads, self._writes = os.fdopen(reads, "rb"), os.fdopen(writes, "wb")

    @property
    def file(self) -> str:
        """A name of the reading end, by which this user's processes on this host can open it."""
        return f"/proc/{os.getpid()}/fd/{self._reads.fileno()}"

    def give(self, connection: dict[str, Any]) -> None:
        """Write what the ranks wait for; it stays in the pipe until mpiexec reads it.

        Args:
            connection: ipyparallel's connection info for engines.
        """
        with self._writes as pipe:
            pipe.write(json.dumps(connection).encode() + b"\n")

    def close(self) -> None:
        """Close both ends. Safe to call twice."""
        self._reads.close()
        self._writes.close()
