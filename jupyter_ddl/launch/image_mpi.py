"""Compares the MPI of an image with the one whose mpiexec starts ranks there.

The image's libmpi asks the host's daemon by PMIx who else is there. Where they do not understand each other each rank
would be alone in a world of its own, or wait for ever.
Source: openpmix.github.io, "How does PMIx work with containers?": versions from 1.2.5, 2.0.3, 2.1.1 and 3.0.0 on choose
a protocol that both know; open-mpi/ompi wiki, "Container Versioning": only one major version of Open MPI is promised.

Runs on: kernel, a terminal, and in the image.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.errors import HostUnfit

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.host.mpi import Mpi

_TIMEOUT_S = 20.0
_OWN_MPI = "Start JupyterLab in the image, which then starts its ranks by its own MPI, on other hosts too."
# In a child process: MPI is never loaded into ours. Open MPI 4 may have a PMIx of its own inside, whose names it hides.
_ASK = """
import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1], os.RTLD_LAZY)
library.PMIx_Get_version.restype = ctypes.c_char_p
print(library.PMIx_Get_version().decode(errors="replace"))
"""
# Two families: within each, one's mpiexec starts the other's ranks.
_FAMILIES = {"openmpi": "Open MPI", "mpich": "MPICH", "intel": "MPICH"}
# The first release of each series of PMIx that speaks to others.
_SPEAKS_FROM = {1: (1, 2, 5), 2: (2, 0, 3)}
_NEVER = (2, 1, 0)


@dataclass(frozen=True)
class MpiVersions:
    """An MPI, as another one must know it.

    Attributes:
        flavour: as `host.mpi` has it.
        version: of the MPI.
        pmix: the version of its PMIx; None where it has none, or hides it.
    """

    flavour: str
    version: str
    pmix: str | None = None

    def __str__(self) -> str:
        return f"{self.flavour} {self.version}" + (f" (PMIx {self.pmix})" if self.pmix else "")


@dataclass(frozen=True)
class Clash:
    """What stands between an image and its host, as an error has it.

    Attributes:
        is_certain: ranks cannot start; else they may, but their MPI does not promise it.
    """

    rule: str
    received: str
    remedy: str
    is_certain: bool


def versions_of(found: Mpi) -> MpiVersions:
    """Return the versions of an MPI on this host, or in the image that this process is in."""
    return MpiVersions(found.flavour, found.version, None if found.library is None else _pmix_of(found.library))


def clash_between(image: str, inside: MpiVersions, here: MpiVersions) -> Clash | None:
    """Return what stands between an image and the MPI that starts its ranks; None where they go together.

    Args:
        image: its path.
        inside: its MPI.
        here: the host's.
    """
    received = f"{inside} in {image}, {here} here"
    families = [_FAMILIES.get(one.flavour, one.flavour) for one in (inside, here)]
    if families[0] != families[1]:
        return Clash(
            "The MPI of an image must be of the kind that starts its ranks.",
            received,
            f"{_OWN_MPI} Or use an image with {families[1]}.",
            is_certain=True,
        )
    if inside.pmix != here.pmix and (old := [one for one in (inside, here) if one.pmix and not _speaks(one.pmix)]):
        return Clash(
            "Image and host must have versions of PMIx that understand each other.",
            received,
            f"{_OWN_MPI} Or use a newer Open MPI than {old[0].version}.",
            is_certain=True,
        )
    if families[0] == "Open MPI" and _major(inside.version) != _major(here.version):
        return Clash(
            "Open MPI promises that an image's ranks start where both have the same major version.",
            received,
            f"If they do not come up: {_OWN_MPI[0].lower()}{_OWN_MPI[1:]}",
            is_certain=False,
        )
    return None


def check_goes_together(image: str, inside: MpiVersions | None, here: MpiVersions) -> None:
    """Check that an image's ranks can be started by this host's MPI.

    Args:
        image: its path.
        inside: its MPI; None where none was found, which the ranks will say.
        here: the host's.

    Raises:
        HostUnfit: they cannot.
    """
    clash = None if inside is None else clash_between(image, inside, here)
    if clash is not None and clash.is_certain:
        raise HostUnfit(clash.rule, clash.received, clash.remedy)


def _pmix_of(library: Path) -> str | None:
    try:
        asked = subprocess.run(
            [sys.executable, "-c", _ASK, str(library)], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    # "OpenPMIx 5.0.8 (PMIx Standard: 4.2, ...)"
    found = re.search(r"\d+\.\d+(?:\.\d+)?", asked.stdout) if asked.returncode == 0 else None
    return None if found is None else found[0]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _speaks(pmix: str) -> bool:
    numbers = _numbers(pmix)
    return numbers != _NEVER and numbers >= _SPEAKS_FROM.get(numbers[0], (0,))


def _major(version: str) -> int:
    return (*_numbers(version), 0)[0]
