"""Removes the files that MPICH needs only while it starts, so that killed ranks leave none behind.

MPICH removes them in MPI_Finalize, to which our ranks do not come: a host would keep the segment of shared memory, and
a description of its hardware in /tmp, of each world.

Runs on: every rank.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import psutil

from jupyter_ddl.host.preflight import SHARED_MEMORY

# Hydra takes no other folder.
_TEMPORARY = Path("/tmp")  # noqa: S108
# Start times are counted in hundredths of a second since a boot whose time is rounded to seconds.
_ROUNDING_S = 1.0


def remove_start_files(temporary: Path = _TEMPORARY, memory: Path = SHARED_MEMORY) -> None:
    """Remove MPICH's files of this host's ranks, all of which have initialised MPI; with another MPI there are none.

    The segment of shared memory is named after the world; ranks have it mapped, and no name is needed to use it. The
    file of the hardware is named by chance, so all are removed that this user's worlds have made since this rank
    started: a rank that then finds none looks at the hardware itself.
    Source: MPICH 5.0.2, src/mpid/ch4/shm/posix, "mpich_shm_%x_%d"; src/util/mpir_hwtopo.c, MPII_hwtopo_init.

    Args:
        temporary: where Hydra writes the latter.
        memory: where the former is.
    """
    for segment in _mapped_in(memory):
        if segment.name.startswith("mpich_"):
            _remove(segment)
    began_s = psutil.Process().create_time() - _ROUNDING_S
    for described in temporary.glob("hydra_hwloc_xmlfile_*"):
        with suppress(OSError):
            found = described.lstat()
            if found.st_uid == os.geteuid() and found.st_mtime >= began_s:
                _remove(described)


def _mapped_in(folder: Path) -> set[Path]:
    """Return the files of a folder that this process has mapped and that still have a name."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    mapped = (Path(fields[5]) for line in lines if len(fields := line.split(maxsplit=5)) > 5)
    return {path for path in mapped if path.parent == folder and path.exists()}


def _remove(path: Path) -> None:
    # Another rank of this host may have removed it.
    with suppress(OSError):
        path.unlink()
