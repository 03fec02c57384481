"""Where the ranks of one world put temporary files, so that what they leave behind when they are killed can be removed.

Open MPI's session folders and shared memory, and the files that TensorFlow's AutoGraph compiles, stay in /tmp and
/dev/shm for good when a rank gets no time to remove them. What users keep in their temporary folder is theirs, and
stays.

Nothing is removed but in folders that `make` makes: this user's own, named as ours, right below the folder of temporary
files or of shared memory. What a file says of a world is not believed beyond that.

Runs on: kernel, the lease.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  where Open MPI has it
_PREFIX = "jupyter_ddl-"
_NAME = re.compile(rf"{_PREFIX}[A-Za-z0-9_]+")
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


def clear(variables: object) -> None:
    """Remove what a world that has ended left behind. Safe to call twice.

    Args:
        variables: what `make` returned, perhaps read from a file. What is no folder of ours in it is left alone.
    """
    if not isinstance(variables, Mapping):
        return
    for name in (_TEMPORARY, *_BACKING):
        folder = variables.get(name)
        if not isinstance(folder, str) or not _is_ours(folder):
            continue
        path = Path(folder)
        try:
            with _opened(path.parent) as above, _opened(path.name, above) as own:
                if os.fstat(own).st_uid != os.geteuid():
                    continue
                _clear(own, everything=name in _BACKING)
                os.rmdir(path.name, dir_fd=above)
        except OSError:
            # Gone already, a link in its place, or with files of the user's in it.
            continue


def _is_ours(folder: str) -> bool:
    """Return whether a path is one that `make` returns: a name of ours, right below a place of ours."""
    path = Path(folder)
    places = {Path(tempfile.gettempdir()), Path("/tmp"), _SHARED_MEMORY}  # noqa: S108  as `make` finds them
    return _NAME.fullmatch(path.name) is not None and path.parent in places and str(path) == folder


@contextmanager
def _opened(folder: str | Path, above: int | None = None) -> Iterator[int]:
    """Open a folder, and no link, so that what is done in it is done in this one whatever becomes of its name."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if above is None else os.O_NOFOLLOW)
    descriptor = os.open(folder, flags, dir_fd=above)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _clear(own: int, *, everything: bool) -> None:
    """Remove what ranks left in a folder of ours: all of it, or what has a name that only they give."""
    with os.scandir(own) as entries:
        left = [entry for entry in entries if everything or any(fnmatch(entry.name, name) for name in _LEFT_BEHIND)]
    for entry in left:
        if entry.is_dir(follow_symlinks=False):
            # By the descriptor's own name: `rmtree` takes one of its own from Python 3.11 on.
            shutil.rmtree(f"/proc/self/fd/{own}/{entry.name}", ignore_errors=True)
        else:
            with suppress(FileNotFoundError):
                os.unlink(entry.name, dir_fd=own)


def _folder_in(parent: Path) -> str | None:
    """Return a private folder of ours; None where none can be made, and the ranks do as they would without us."""
    try:
        return tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
    except OSError:
        return None
