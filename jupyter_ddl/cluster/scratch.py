"""Makes and clears the folders for the temporary files of one world's ranks, so that killed ranks leave none behind.

Open MPI's session folders and shared memory, and the files that TensorFlow's AutoGraph compiles, stay in /tmp and
/dev/shm for good when a rank has no time to remove them. What users keep in their temporary folder stays.

Files are removed only from folders that `make` makes: this user's own, named as ours, directly below the folder of
temporary files or of shared memory. Any other folder that a world's file names is left alone.

Runs on: kernel, the lease.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.host.preflight import SHARED_MEMORY as _SHARED_MEMORY
from jupyter_ddl.host.preflight import has_shared_memory
from jupyter_ddl.protocol.rank_files import JAX_PROFILE, TASK_ARRAYS, WORLD_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = WORLD_FOLDER
_NAME = re.compile(rf"{PREFIX}[A-Za-z0-9_]+")
LOCKS = RANKS_LOCK, WITNESS_LOCK = "jupyter_ddl-ranks.lock", "jupyter_ddl-witness.lock"
# Names of Open MPI 4 and 5 (for shared memory both), TensorFlow, PyTorch, multiprocessing, ipykernel, and ours.
_OF_MPI = ("ompi.*", "openmpi-sessions-*", "prte.*", "prted.*", "prterun.*", "pmix*")
_OF_RANKS = (
    "__autograph_generated_file*.py",
    "__pycache__",
    "torchinductor_*",
    "pymp-*",
    "ipykernel_*",
    f"{JAX_PROFILE}*",
)
_LEFT_BEHIND = (*_OF_MPI, *_OF_RANKS, f"{TASK_ARRAYS}*", *LOCKS)
_BACKING = ("OMPI_MCA_btl_sm_backing_directory", "OMPI_MCA_btl_vader_backing_directory")
_TEMPORARY = "TMPDIR"
# Where mpiexec keeps its own files, and its daemons on other hosts do not.
# Source: help-prte-runtime.txt of PRRTE 3.0, "prte_local_tmpdir_base"; of Open MPI 4 help-orte-runtime.txt.
_OF_MPIEXEC = ("PRTE_MCA_prte_local_tmpdir_base", "OMPI_MCA_orte_local_tmpdir_base")
# How many ranks of a world this host has. Source: Open MPI 5.0, "Environment variables set by mpirun"
_RANKS_HERE = "OMPI_COMM_WORLD_LOCAL_SIZE"


def make(environment: Mapping[str, str]) -> dict[str, str]:
    """Make the folders for a world that is about to start; return the variables that make its ranks use them.

    A variable that the user or the launcher has set already is kept.

    Args:
        environment: what the ranks get in addition to `os.environ`.
    """
    variables = {}
    if _TEMPORARY not in environment:
        variables[_TEMPORARY] = _folder_in(Path(tempfile.gettempdir()))
    if not any(name in environment or name in os.environ for name in _BACKING):
        variables |= dict.fromkeys(_BACKING, _folder_in(_SHARED_MEMORY))
    return {name: folder for name, folder in variables.items() if folder is not None}


def named(name: str) -> dict[str, str]:
    """Return the folders that `make_named` makes for a world on this host, where it has ranks, for `clear` alone."""
    # It makes one of the places for shared memory; `clear` takes each that is there.
    memory = (str(path) for path in _memory_places(name))
    return {
        _TEMPORARY: str(Path(tempfile.gettempdir()) / f"{PREFIX}{name}"),
        **dict(zip(_BACKING, memory, strict=True)),
    }


def make_for_mpiexec(name: str) -> dict[str, str]:
    """Make the folder of a world on this host, where only its mpiexec is; return the variables that make it use that.

    `named` has it too.

    Args:
        name: the world's id.
    """
    folder = _private(Path(tempfile.gettempdir()) / f"{PREFIX}{name}")
    return {} if folder is None else for_mpiexec(folder)


def for_mpiexec(folder: str) -> dict[str, str]:
    """Return the variables that make the mpiexec of ranks on other hosts keep its files in a folder of this host."""
    return dict.fromkeys(_OF_MPIEXEC, folder)


def make_named(environment: Mapping[str, str], name: str) -> dict[str, str]:
    """Make the folders of a world by its name, or find those that another rank of this host has made; none where full.

    Args:
        environment: what a rank has; variables for shared memory that are set there are kept.
        name: the world's id.
    """
    temporary = _private(Path(tempfile.gettempdir()) / f"{PREFIX}{name}")
    if temporary is None:
        return {}
    variables = {_TEMPORARY: temporary}
    if not any(variable in environment for variable in _BACKING):
        memory = _private(_memory_place(name, int(environment.get(_RANKS_HERE, "1"))))
        variables |= {} if memory is None else dict.fromkeys(_BACKING, memory)
    return variables


def _memory_place(name: str, ranks: int) -> Path:
    """Return the folder for a world's segments of shared memory, the same for all ranks of a host.

    Where shared memory is full, Open MPI would leave it out, and exchange within the host by TCP.
    """
    in_memory, in_files = places = _memory_places(name)
    made = next((place for place in places if place.is_dir()), None)
    return made or (in_memory if has_shared_memory(ranks) else in_files)


def _memory_places(name: str) -> tuple[Path, Path]:
    """Return where a world's segments may be: in shared memory, or in files beside its temporary folder."""
    return _SHARED_MEMORY / f"{PREFIX}{name}", Path(tempfile.gettempdir()) / f"{PREFIX}{name}_memory"


def clear(variables: object) -> None:
    """Remove what a world that has ended left behind. Safe to call twice.

    Args:
        variables: what `make` returned, perhaps read from a file. A folder in it that is not ours is left alone.
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
            # It is removed already, a link is in its place, or it has files of the user's.
            continue


def _is_ours(folder: str) -> bool:
    """Return whether a path is one that `make` returns: a name of ours, directly below a place that we use."""
    path = Path(folder)
    places = {Path(tempfile.gettempdir()), Path("/tmp"), _SHARED_MEMORY}  # noqa: S108  as `make` finds them
    return _NAME.fullmatch(path.name) is not None and path.parent in places and str(path) == folder


@contextmanager
def _opened(folder: str | Path, above: int | None = None) -> Iterator[int]:
    """Open a folder, and no link, so that operations apply to this one even if it is renamed or replaced."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if above is None else os.O_NOFOLLOW)
    descriptor = os.open(folder, flags, dir_fd=above)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _clear(own: int, *, everything: bool) -> None:
    """Remove what ranks left in a folder of ours: all of it, or the names that only they use."""
    with os.scandir(own) as entries:
        left = [entry for entry in entries if everything or any(fnmatch(entry.name, name) for name in _LEFT_BEHIND)]
    for entry in left:
        if entry.is_dir(follow_symlinks=False):
            # By the descriptor's own name: `rmtree` takes one of its own from Python 3.11 on.
            shutil.rmtree(f"/proc/self/fd/{own}/{entry.name}", ignore_errors=True)
        else:
            with suppress(FileNotFoundError):
                os.unlink(entry.name, dir_fd=own)


def _private(path: Path) -> str | None:
    """Make or find a private folder; None where that fails, or another user made it."""
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError:
        return None
    is_private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return str(path) if is_private else None


def _folder_in(parent: Path) -> str | None:
    """Make and return a private folder; None where that fails, and the ranks then use their default."""
    try:
        return tempfile.mkdtemp(prefix=PREFIX, dir=parent)
    except OSError:
        return None
