"""Finds the folder of logs that is meant, and checks that it can be read.

Runs on: Jupyter server, kernel.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from jupyter_ddl.runs.store import RunRecord

PARAMETER = "tensorboard"
"""The parameter of a run that names its own folder of logs: `fit` logs that of Keras's callback."""


def checked(folder: str) -> Path:
    """Return a folder of logs as an absolute path without links.

    Args:
        folder: an absolute path.

    Raises:
        InvalidInput: it is none, it is not there, or its files cannot be read.
    """
    rule = "TensorBoard shows a folder of logs that exists and can be read."
    path = Path(folder)
    if not path.is_absolute() or "\0" in folder:
        raise InvalidInput(rule, f"{folder!r}, which is no absolute path", "Pass the whole path.")
    try:
        resolved = path.resolve()
        is_folder, exists = resolved.is_dir(), resolved.exists()
    except (OSError, RuntimeError) as error:
        # RuntimeError: links in a circle.
        raise InvalidInput(rule, f"{folder!r} ({error})", "Pass another folder.") from error
    if not is_folder:
        what = "which is no folder" if exists else "which does not exist"
        remedy = "Pass the folder that your program writes its logs to, or a run's id."
        raise InvalidInput(rule, f"{folder!r}, {what}", remedy)
    if not os.access(resolved, os.R_OK | os.X_OK):
        raise InvalidInput(rule, f"{folder!r}, which you may not read", "Ask its owner, or copy it.")
    return resolved


def own_folder(record: RunRecord) -> Path | None:
    """Return the folder that a run's own program wrote logs to; None where none is known, or none is left."""
    named = record.parameters.get(PARAMETER)
    if not isinstance(named, str):
        return None
    beside = Path(record.notebook).parent if record.notebook else Path()
    try:
        return checked(str(beside / named))
    except InvalidInput:
        return None
