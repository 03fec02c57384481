"""Checks images: that this host runs them, that they have this jupyter_ddl, and an MPI that goes with the host's."""

from __future__ import annotations

import socket
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.doctor.report import Check, Status
from jupyter_ddl.errors import HostUnfit, InvalidInput
from jupyter_ddl.launch.container import checked_image
from jupyter_ddl.launch.image_mpi import clash_between, versions_of
from jupyter_ddl.launch.place import HostSlots, Place
from jupyter_ddl.launch.profiles.reading import all_profiles
from jupyter_ddl.launch.survey import survey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jupyter_ddl.host.mpi import Mpi

_NAME = "Image"


def images_of_profiles(folders: tuple[Path, ...] | None = None) -> list[str]:
    """Return the images that profiles name and that are here; those that are not, the profiles' own check reports.

    Args:
        folders: where profiles are looked for; by default the usual ones.
    """
    try:
        found = all_profiles(folders)
    except InvalidInput:
        return []
    named = (one.profile.container for one in found.values())
    return [image for image in named if image is not None and Path(image).expanduser().exists()]


def check_images(images: Iterable[str], mpi: Mpi | InvalidInput) -> Iterator[Check]:
    """Yield one check for each image.

    Args:
        images: their paths.
        mpi: this host's, or why there is none.
    """
    for image in dict.fromkeys(images):
        try:
            yield _check(checked_image(image), mpi)
        except (HostUnfit, InvalidInput) as error:
            text = f"{error.rule} Received: {error.received}."
            yield Check(_NAME, "problem", text, error.remedy, {"image": image})


def _check(image: str, mpi: Mpi | InvalidInput) -> Check:
    place = Place(hosts=(HostSlots(socket.gethostname(), 1),), container=image)
    (found,) = survey(place, Path("/bin/sh"), ())
    facts: dict[str, object] = {"image": image, "versions": found.versions, "mpi": found.mpi and asdict(found.mpi)}
    packages = ", ".join(f"{name} {found.versions.get(name)}" for name in ("tensorflow", "horovod"))
    if found.mpi is None:
        remedy = "Ranks in it cannot start: build it with the steps in containers/, or install an MPI into it."
        return Check(_NAME, "problem", f"{image}: {packages}, no MPI that works", remedy, facts)
    text = f"{image}: {packages}, {found.mpi}"
    if isinstance(mpi, InvalidInput):
        remedy = "No MPI is here to start its ranks with: start JupyterLab in the image."
        return Check(_NAME, "note", text, remedy, facts)
    clash = clash_between(image, found.mpi, versions_of(mpi))
    if clash is None:
        return Check(_NAME, "ok", text, facts=facts)
    status: Status = "problem" if clash.is_certain else "note"
    return Check(_NAME, status, f"{clash.rule} Received: {clash.received}.", clash.remedy, facts)
