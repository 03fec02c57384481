"""Joins what a profile says of a batch job with what the user gave: what was given wins."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.profiles.limits import check_limits
from jupyter_ddl.launch.profiles.loaded_modules import setup_lines
from jupyter_ddl.launch.profiles.profile import SUBMITS
from jupyter_ddl.launch.profiles.start_options import interface_variables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_ddl.launch.profiles.profile import Named

# A job's shell is no login shell, and may not know `module`.
_WITH_MODULES = ("type module > /dev/null 2>&1 || . /etc/profile",)
_DEFAULTS = ("nodes", "ntasks_per_node", "time", "partition", "account", "cpus_per_task", "gpus_per_node")


def job_options(named: Named, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a job by a profile and by what the user gave, and the lines of its script that set it up.

    Args:
        named: the profile.
        given: the options by the names that `jupyter_ddl.submit` has for them; only what was given. `options` are
            added to the profile's.

    Raises:
        InvalidInput: the profile's launcher sends no jobs, or more is asked for than it allows.
    """
    profile = named.profile
    if profile.launcher not in SUBMITS:
        raise InvalidInput(
            "A job takes a profile of a batch scheduler.",
            f"{named.name}, whose launcher is {profile.launcher}",
            f"Start its ranks with %ddl start --profile {named.name}.",
        )
    said = {key: getattr(profile.defaults, key) for key in _DEFAULTS}
    options = {key: value for key, value in said.items() if value is not None} | dict(given)
    if profile.container is not None:
        options.setdefault("container", profile.container)
    if profile.launcher == "lsf":
        options.setdefault("launcher", profile.mpi_launcher)
    options["options"] = (*profile.options, *given.get("options", ()))
    variables = {**interface_variables(profile.interface), **profile.environment}
    exports = tuple(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
    options["setup"] = (*(_WITH_MODULES if profile.modules else ()), *setup_lines(named), *exports)
    nodes = options.get("nodes", 1)
    check_limits(named, ranks=nodes * options.get("ntasks_per_node", 1), nodes=nodes, time=options.get("time"))
    return options
