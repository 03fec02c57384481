"""Checks the profiles: the scheduler's commands, the names of hosts, the container, the modules."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.doctor.report import Check
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.address import address_of
from jupyter_ddl.launch.place_options import place_of
from jupyter_ddl.launch.profiles.limits import allowed_by
from jupyter_ddl.launch.profiles.loaded_modules import loaded_variables
from jupyter_ddl.launch.profiles.reading import all_profiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.launch.profiles.profile import Named

_COMMANDS = {"local": (), "hosts": ("ssh",), "slurm": ("sbatch", "srun"), "pbs": ("qsub", "qstat"), "lsf": ("bsub",)}


def check_profiles(folders: tuple[Path, ...] | None = None) -> Iterator[Check]:
    """Yield one check for each profile; one for all where a file cannot be read, or there are none.

    Args:
        folders: where they are looked for; by default the usual ones.
    """
    try:
        found = all_profiles(folders)
    except InvalidInput as error:
        yield Check("Profiles", "problem", f"{error.rule} Received: {error.received}.", error.remedy)
        return
    if not found:
        yield Check("Profiles", "ok", "none")
    for name, named in sorted(found.items()):
        memory = named.profile.limits.memory_per_rank
        facts: dict[str, object] = {"profile": name, "file": named.file, "launcher": named.profile.launcher}
        facts |= {} if memory is None else {"memory_per_rank": memory}
        gpus = named.profile.limits.gpus
        facts |= {} if gpus is None else {"gpus": gpus, "gpu_memory_per_rank": named.profile.limits.gpu_memory_per_rank}
        problems = list(_problems(named))
        if problems:
            yield Check("Profile", "note", f"{name}: {'; '.join(problems)}", f"Correct {named.file}.", facts)
        else:
            yield Check(
                "Profile",
                "ok",
                f"{name} ({named.profile.launcher}){_memory_text(named)}{_gpus_text(named)}",
                facts=facts,
            )


def _memory_text(named: Named) -> str:
    """Return what each rank may hold; nothing without a limit."""
    memory = named.profile.limits.memory_per_rank
    return "" if memory is None else f"; each rank may hold {memory} of memory"


def _gpus_text(named: Named) -> str:
    """Return how ranks get GPUs; nothing where the profile gives none out."""
    limits = named.profile.limits
    if limits.gpus is None:
        return ""
    return f"; each rank gets {allowed_by(named).share_of_gpu}"


def _problems(named: Named) -> Iterator[str]:
    profile = named.profile
    commands = _COMMANDS[profile.launcher]
    if missing := [command for command in commands if shutil.which(command) is None]:
        yield f"no {' and no '.join(missing)} here"
    if profile.launcher == "hosts":
        yield from _unknown_hosts(named)
    if profile.container is not None and not Path(profile.container).expanduser().exists():
        yield f"no container at {profile.container}"
    try:
        loaded_variables(named)
    except InvalidInput as error:
        yield f"its modules or its setup fail: {error.received}"


def _unknown_hosts(named: Named) -> Iterator[str]:
    profile = named.profile
    try:
        place = place_of(profile.hosts, profile.hostfile, profile.ssh)
    except InvalidInput as error:
        yield str(error.received)
        return
    for one in place.hosts:
        try:
            address_of(one.host)
        except InvalidInput as error:
            yield f"host {error.received}"
