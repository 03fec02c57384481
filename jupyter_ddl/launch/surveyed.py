"""What was found on the hosts of a place, and whether it goes together.

Runs on: kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl import __version__
from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.launch.call_back import cannot_call_back
from jupyter_ddl.launch.survey_failures import raise_for_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_ddl.launch.image_mpi import MpiVersions


@dataclass(frozen=True)
class Surveyed:
    """What was found on a host.

    Attributes:
        host: the name with which it was given.
        hostname: its own.
        address: by which it was reached; empty for this host.
        clock_offset_s: its clock minus this host's, in seconds; 0 where they differ by no more than can be seen.
        versions: of Python and the packages that ranks use.
        mpi: the image's own, for ranks that start in one.
        shares: it sees the folders of the clusters and of the runs.
        has_folder: it has the working folder of this process.
        temporary: its folder for temporary files.
        cores: that ranks may use there, hardware threads counted.
        unreached: where it tried to connect to this host, and why it cannot; empty where it can.
    """

    host: str
    hostname: str
    address: str
    clock_offset_s: float
    versions: dict[str, str]
    mpi: MpiVersions | None = None
    shares: bool = True
    has_folder: bool = True
    temporary: str = ""
    cores: int = 1
    unreached: str = ""


def check_alike(found: Sequence[Surveyed]) -> None:
    """Check that hosts are different ones, with the same versions.

    Raises:
        HostUnfit: one is not.
    """
    first, *others = found
    failures = {other.host: failure for other in others if (failure := _unlike(other, first, found)) is not None}
    raise_for_all(failures, len(found))


def _unlike(other: Surveyed, first: Surveyed, found: Sequence[Surveyed]) -> HostUnfit | None:
    if other.hostname in {one.hostname for one in found if one is not other}:
        return HostUnfit(
            "Each host must be named once.",
            f"{other.host}, which is {other.hostname} like another one of them",
            "Leave one out, and add up their slots.",
        )
    differing = [
        f"{name} {first.versions.get(name)} on {first.host}, {version} on {other.host}"
        for name, version in other.versions.items()
        if version != first.versions.get(name)
    ]
    if not differing:
        return None
    return HostUnfit(
        "All hosts must have the same versions.",
        "; ".join(differing),
        f"Install the same on {other.host}, or start JupyterLab from an environment that all hosts share.",
    )


def without_way_back(found: Sequence[Surveyed]) -> dict[str, HostUnfit]:
    """Return the failure of each host that cannot connect to this one."""
    return {one.host: cannot_call_back(one.host, one.unreached) for one in found if one.unreached}


def check_way_back(found: Sequence[Surveyed]) -> None:
    """Check that hosts can connect to this one, as MPI's daemons and ranks must.

    Raises:
        HostUnfit: one cannot.
    """
    raise_for_all(without_way_back(found), len(found))


def check_same_folder(found: Sequence[Surveyed]) -> None:
    """Check that hosts have the working folder of this process, in which a script and its files are.

    Raises:
        HostUnfit: one has not.
    """
    failures = {
        one.host: HostUnfit(
            "A script's ranks work in this folder, so every host must have it.",
            f"{Path.cwd()}, which {one.host} does not have",
            "Work in a folder that all hosts share.",
        )
        for one in found
        if not one.has_folder
    }
    raise_for_all(failures, len(found))


def check_image(image: str, versions: Mapping[str, str]) -> None:
    """Check that the ranks in an image understand this kernel.

    Raises:
        HostUnfit: the jupyter_ddl in it is another version.
    """
    if versions.get("jupyter_ddl") != __version__:
        raise HostUnfit(
            "The image must have this kernel's version of jupyter_ddl.",
            f"{versions.get('jupyter_ddl')} in {image}, {__version__} here",
            "Install the same in one of them.",
        )
