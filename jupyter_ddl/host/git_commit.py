"""Asks git which commit a folder's files are of.

Runs on: kernel and terminal.
"""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_TIMEOUT_S = 1.0
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def commit_of(folder: Path) -> str | None:
    """Return the commit that is checked out in a folder; None where git is missing, knows none, or takes over 1 s.

    Git itself refuses a repository of another user, and this command runs none of its hooks.
    """
    command = ["git", "-C", str(folder), "rev-parse", "--verify", "--quiet", "HEAD"]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        child = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
            env=environment,
            # The stop button's SIGINT is for the kernel.
            start_new_session=True,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        # ValueError: a path with a zero byte.
        return None
    commit = child.stdout.decode(errors="replace").strip()
    return commit if _COMMIT.fullmatch(commit) else None
