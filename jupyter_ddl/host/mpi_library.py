"""Finds the library of an MPI, which mpi4py and Horovod must use, by trying it in a child process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Literal

Flavour = Literal["openmpi", "mpich", "intel", "unknown"]

_TIMEOUT_S = 20.0

_LIBRARY_NAMES: dict[Flavour, tuple[str, ...]] = {
    "openmpi": ("libmpi.so.40", "libmpi.so"),
    "mpich": ("libmpi.so.12", "libmpich.so.12", "libmpi.so"),
    "intel": ("libmpi.so.12", "libmpi.so"),
    "unknown": ("libmpi.so", "libmpi.so.40", "libmpi.so.12"),
}
# Prints the first library that loads, is of the wanted flavour, and is the one that mpi4py then uses. mpi4py may have
# been compiled for one MPI, or its wheel may not find the name it wants (Debian's MPICH has no libmpi.so.12).
# The symbols are those by which mpi4py's wheel tells the flavours apart.
# Source: mpi4py 4.1.2, _mpiabi.py, _get_mpiabi_from_libmpi.
_PROBE = """
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import ctypes, os
flavour, *names = sys.argv[1:]

def text_of(library):
    text, length = ctypes.create_string_buffer(8192), ctypes.c_int()
    library.MPI_Get_library_version(text, ctypes.byref(length))
    return text.value.decode(errors="replace").split(chr(10))[0].strip()

problems = []
for name in names:
    try:
        library = ctypes.CDLL(name, os.RTLD_LAZY | os.RTLD_LOCAL)
        text = text_of(library)
    except (OSError, AttributeError) as error:
        problems.append(str(error))
        continue
    if flavour != "unknown" and hasattr(library, "ompi_mpi_comm_self") != (flavour == "openmpi"):
        problems.append(f"{name} is {text}")
        continue
    break
else:
    sys.exit("no library of it loads: " + "; ".join(dict.fromkeys(problems)))
if "/" not in name:
    maps = [line.split()[-1] for line in open("/proc/self/maps")]
    name = next((path for path in maps if os.path.basename(path).startswith("libmpi")), name)
os.environ["MPI4PY_LIBMPI"] = name
try:
    import mpi4py
    mpi4py.rc(initialize=False, finalize=False)
    from mpi4py import MPI
except (ImportError, RuntimeError) as error:
    sys.exit(f"mpi4py cannot use its {name}: {error}")
other = MPI.Get_library_version().split(chr(10))[0].strip(chr(0) + " ")
if other != text:
    sys.exit(f"it is {text}, but mpi4py is linked with {other}")
print(name)
"""


def library_of(mpiexec: Path, mpicxx: Path | None, flavour: Flavour, *, is_wheel: bool) -> Path | str:
    """Return the libmpi that belongs to an mpiexec, or why there is none."""
    names = _LIBRARY_NAMES[flavour]
    files = [
        folder / name for folder in _library_folders(mpiexec, mpicxx) for name in names if (folder / name).is_file()
    ]
    if is_wheel and files:
        # pip's files belong together by construction; a child process to prove it would delay every start.
        return files[0]
    # The loader's own places come last: LD_LIBRARY_PATH, which modules set, and the system's folders.
    probe = [sys.executable, "-c", _PROBE, flavour, *map(str, files), *names]
    try:
        child = subprocess.run(probe, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"loading it took more than {_TIMEOUT_S:.0f} s"
    return Path(child.stdout.strip()) if child.returncode == 0 else child.stderr.strip()


def _library_folders(mpiexec: Path, mpicxx: Path | None) -> list[Path]:
    prefixes = dict.fromkeys((mpiexec.parent.parent, mpiexec.resolve().parent.parent))
    folders = [
        prefix / sub
        for prefix in prefixes
        if prefix != Path("/usr")  # the system's folders: the loader knows them, in the right order
        for sub in ("lib", "lib64", "lib/release")
    ]
    if mpicxx is not None and (line := output_of([str(mpicxx), "-show"])) is not None:
        # Each flavour's wrapper prints its compiler line for -show; Open MPI's knows its folders as -L or rpath.
        found = re.findall(r"(?:-L|-rpath[,=\s]+(?:-Wl,)?)(/[^\s,:\"']+)", line)
        folders += [Path(folder) for folder in dict.fromkeys(found)]
    return folders


def output_of(command: list[str]) -> str | None:
    """Return what a command prints; None where it fails, or takes too long."""
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return child.stdout if child.returncode == 0 else None
