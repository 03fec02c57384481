"""Joins the limits of a start's profile with those that the machine's staff set for all starts on this host.

These are the limits of the profile "default" in the machine's own folder. A user's profile, one of the environment's
(which the user chooses), and `-H localhost` have the stricter of both; another profile in the machine's folder, which
the staff wrote as well, has its own where it sets any.

Runs on: kernel, a terminal.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.launch.address import is_this_host
from jupyter_ddl.launch.profiles.limits import Allowed, allowed_by
from jupyter_ddl.launch.profiles.places import machine_folder
from jupyter_ddl.launch.profiles.profile import DEFAULT
from jupyter_ddl.launch.profiles.reading import all_profiles
from jupyter_ddl.launch.schedulers.known import is_in_job
from jupyter_ddl.protocol.gpu_allotment import SHARED
from jupyter_ddl.protocol.idle_stop import seconds_of
from jupyter_ddl.protocol.memory_limit import bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.launch.place import Place
    from jupyter_ddl.launch.profiles.profile import Named

# Each limit, and what makes a number of it, of which the smaller is the stricter.
_MEASURES: tuple[tuple[str, Callable[[Any], float]], ...] = (
    ("ranks", int),
    ("nodes", int),
    ("clusters", int),
    ("idle_stop", seconds_of),
    ("memory_per_rank", bytes_of),
)
_OF_GPUS = ("gpus", "gpu_memory_per_rank")


def allowed_at(named: Named | None, place: Place) -> Allowed | None:
    """Return the most that a start is allowed: by its profile, and on this host by the machine's too.

    Args:
        named: the profile; None without one.
        place: where the ranks go.

    Raises:
        InvalidInput: a file of profiles breaks a rule.
    """
    own = None if named is None else allowed_by(named)
    site = _machines_default() if _is_on_this_host(place) else None
    if site is None or own == site:
        return own
    if own is None:
        return site
    return _joined(own, site, is_staffs=Path(own.file).parent == machine_folder())


def _machines_default() -> Allowed | None:
    found = all_profiles((machine_folder(),)).get(DEFAULT)
    return None if found is None or found.profile.launcher != "local" else allowed_by(found)


def _is_on_this_host(place: Place) -> bool:
    """Return whether ranks go to this host, by whatever name; in a batch job the scheduler's limits hold instead."""
    if is_in_job(os.environ):
        return False
    return place.is_here or any(is_this_host(one.host) for one in place.hosts)


def _joined(own: Allowed, site: Allowed, *, is_staffs: bool) -> Allowed:
    """Return limits of which each is the stricter one.

    Args:
        own: of the start's profile.
        site: of the machine's profile "default".
        is_staffs: the start's profile is the machine's too: what it sets itself counts.
    """
    taken: dict[str, Any] = {}
    for limit, measure in _MEASURES:
        ours, theirs = getattr(own, limit), getattr(site, limit)
        if theirs is not None and (ours is None or (not is_staffs and measure(theirs) < measure(ours))):
            taken[limit] = theirs
    if site.gpus is not None and (own.gpus is None or not (is_staffs or _has_smaller_share(own, site))):
        # How a host's GPUs are given out is one choice, or ranks of both kinds would meet on one.
        taken |= {limit: getattr(site, limit) for limit in _OF_GPUS}
    return replace(own, **taken, site=dict.fromkeys(taken, site.file))


def _has_smaller_share(own: Allowed, site: Allowed) -> bool:
    if not own.gpus == site.gpus == SHARED or own.gpu_memory_per_rank is None or site.gpu_memory_per_rank is None:
        return own.gpus == site.gpus
    return bytes_of(own.gpu_memory_per_rank) <= bytes_of(site.gpu_memory_per_rank)
