"""Provides DDL's hook for monitored sessions of TensorFlow 1. Runs on: every rank."""

from __future__ import annotations

from jupyter_ddl.legacy.horovod_sessions import BroadcastGlobalVariablesHook


class DDLGlobalVariablesHook(BroadcastGlobalVariablesHook):
    """Starts all ranks from rank 0's global variables when the session has been created."""

    def __init__(self) -> None:
        super().__init__(0)
