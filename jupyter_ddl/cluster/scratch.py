"""Where the ranks of one world put temporary files, so that what they leave behind when they are killed can be removed.

Open MPI's session folders and shared memory, and the files that TensorFlow's AutoGraph compiles, stay in /tmp and
/dev/shm for good when a rank gets no time to remove them. What users keep in their temporary folder is theirs, and
stays.

Runs on: kernel, the lease.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  where Open MPI has it
_PREFIX = "jupyter_ddl-"
# Of Open MPI 4 and 5 (for shared memory both names), and of TensorFlow.
_LEFT_BEHIND = ("ompi.*", "openmpi-sessions-*", "prte.*", "pmix*", "__autograph_generated_file*.py", "__pycache__")
_BACKING = ("OMPI_MCA_btl_sm_backing_directory", "OMPI_MCA_btl_vader_backing_directory")
_TEMPORARY = "TMPDIR"


def make(environment: Mapping[str, str]) -> dict[str, str]:
    """Make the folders for a world that is about to start; return the variables that send its ranks there.

    A variable that the user or the launcher has set already is left as it is.

    Args:
        environment: what the ranks get beside `os.environ`.
    """
    variables = {}
    if _TEMPORARY not in environment:
        variables[_TEMPORARY] = _folder_in(Path(tempfile.gettempdir()))
    if not any(name in environment or name in os.environ for name in _BACKING):
        variables |= dict.fromkeys(_BACKING, _folder_in(_SHARED_MEMORY))
    return {name: folder for name, folder in variables.items() if folder is not None}


def clear(variables: Mapping[str, str]) -> None:
    """Remove what a world that has ended left behind. Safe to call twice.

    Args:
        variables: what `make` returned.
    """
    for name, value in variables.items():
        folder = Path(value)
        if name in _BACKING:
            shutil.rmtree(folder, ignore_errors=True)
            continue
        for pattern in _LEFT_BEHIND:
            for path in folder.glob(pattern):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
        try:
            folder.rmdir()
        except OSError:
            # Gone already, or with files of the user's in it.
            continue


def _folder_in(parent: Path) -> str | None:
    """Return a private folder of ours; None where none can be made, and the ranks do as they would without us."""
    try:
        return tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
    except OSError:
        return None
