"""Answers requests for the places, besides this host, where a form may start ranks: a queue, and profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from tornado.web import HTTPError, authenticated

from jupyter_ddl.cluster.jobs_known import scheduler_here
from jupyter_ddl.errors import HostUnfit, InvalidInput
from jupyter_ddl.launch.place import HERE
from jupyter_ddl.launch.profiles.profile import Profile
from jupyter_ddl.launch.profiles.reading import all_profiles
from jupyter_ddl.launch.profiles.site_limits import allowed_at
from jupyter_ddl.server.requests import HubHandler

if TYPE_CHECKING:
    from collections.abc import Iterator


class PlacesHandler(HubHandler):
    """GET places -> [{profile, launcher, title, ...}]: the queue of this host's scheduler, and each profile."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with each place, its defaults and its limits; 503 where a file of profiles breaks a rule."""
        try:
            self.answer(await self.in_thread(lambda: list(places())))
        except InvalidInput as error:
            raise HTTPError(503, str(error)) from error


def places() -> Iterator[dict[str, Any]]:
    """Yield the queue of this host's scheduler, where there is one, and each profile.

    Raises:
        InvalidInput: a file of profiles breaks a rule.
    """
    try:
        scheduler = scheduler_here()
    except HostUnfit:
        pass
    else:
        yield _place(None, f"{scheduler.title} job", Profile(launcher=scheduler.kind))
    for name, one in sorted(all_profiles().items()):
        place = _place(name, name, one.profile)
        # On this host the machine's own limits hold too.
        allowed = allowed_at(one, HERE) if one.profile.launcher == "local" else None
        yield place if allowed is None else place | {"most_ranks": allowed.ranks, "most_nodes": allowed.nodes}


def _place(name: str | None, title: str, profile: Profile) -> dict[str, Any]:
    """Return a place; a profile of None is the queue itself."""
    defaults, limits = profile.defaults, profile.limits
    return {
        "profile": name,
        "launcher": profile.launcher,
        "title": title,
        "description": profile.description,
        "ranks": defaults.ranks,
        "nodes": defaults.nodes,
        "ntasks_per_node": defaults.ntasks_per_node,
        "time": defaults.time,
        "partition": defaults.partition,
        "most_ranks": limits.ranks,
        "most_nodes": limits.nodes,
        "most_time": limits.time,
    }
