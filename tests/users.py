"""Doing things as another user of this machine, which takes root."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STRANGER = 4242
"""The number of a user who has no account."""


def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("another user can be played by root alone")


def as_user(uid: int, work: Callable[[], Any], gid: int | None = None) -> Any:
    """Return what a function returns, as JSON, when another user calls it; in a process of its own.

    By a fork, and not a program of its own: an interpreter in root's home cannot be started by others.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(uid if gid is None else gid)
            os.setuid(uid)
            os.umask(0o022)
            told = json.dumps({"answer": work()})
        except BaseException:  # noqa: BLE001  whatever it is, the parent tells it
            told = json.dumps({"error": traceback.format_exc()})
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        told = json.loads(pipe.read())
    os.waitpid(pid, 0)
    assert "error" not in told, told["error"]
    return told["answer"]


@contextmanager
def account(*options: str) -> Iterator[str]:
    """Make an account, as this system makes one, and remove it at the end."""
    needs_root()
    if not shutil.which("useradd"):
        pytest.skip("accounts are made by useradd")
    name = f"ddl{secrets.token_hex(3)}"
    subprocess.run(["useradd", "--no-create-home", *options, name], check=True, capture_output=True)
    try:
        yield name
    finally:
        subprocess.run(["userdel", name], check=True, capture_output=True)
