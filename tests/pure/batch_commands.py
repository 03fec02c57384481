"""Programs that stand for a batch scheduler's commands, and answer as its documentation shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def program(folder: Path, name: str, script: str) -> None:
    """Write a shell script that is called by a command's name."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
