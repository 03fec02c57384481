"""Checks a start, a restart or a job against what its profile allows."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.profiles.profile import DEFAULT
from jupyter_ddl.paths import IDLE_STOP_VARIABLE
from jupyter_ddl.protocol.gpu_allotment import GpuAllotment
from jupyter_ddl.protocol.idle_stop import NEVER, IdleStop, idle_stop_of
from jupyter_ddl.protocol.idle_stop import seconds_of as seconds_in
from jupyter_ddl.protocol.memory_limit import MemoryLimit, bytes_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from jupyter_ddl.launch.profiles.profile import Named

_TIME = re.compile(r"(?:(?P<days>\d{1,3})-)?(?P<hours>\d{1,4}):(?P<minutes>\d{2})(?::(?P<seconds>\d{2}))?")


@dataclass(frozen=True)
class Allowed:
    """The most that a profile allows, as a cluster keeps it for its restarts.

    Attributes:
        profile: its name.
        file: that says so.
        ranks: in all; None for no limit, as for `nodes`.
        idle_stop: the longest time before idle ranks are ended, as the profile writes it; None for no limit.
        memory_per_rank: what each rank may hold, likewise.
        gpus: "own" or "shared": how ranks get the GPUs of their host; None where they take what they ask for.
        gpu_memory_per_rank: with "shared", what each rank may hold of its GPU's memory.
        clusters: of the user at a time, scripts and exported notebooks among them; None for no limit.
        site: the limits that the profile "default" of the machine's sets in the place of this one's, each with its
            file.
    """

    profile: str
    file: str
    ranks: int | None = None
    nodes: int | None = None
    idle_stop: str | None = None
    memory_per_rank: str | None = None
    gpus: str | None = None
    gpu_memory_per_rank: str | None = None
    clusters: int | None = None
    site: dict[str, str] = field(default_factory=dict)

    def profile_of(self, limit: str) -> str:
        """Return the name of the profile that sets a limit."""
        return DEFAULT if limit in self.site else self.profile

    def _by(self, limit: str) -> str:
        """Return who sets a limit, for people."""
        said = f"{limit} = {getattr(self, limit)} in {self.site.get(limit, self.file)}"
        return f"the profile {self.profile_of(limit)} ({said})"

    @property
    def allotment(self) -> GpuAllotment | None:
        """How ranks get the GPUs of their host, with who says so; None where the profile does not."""
        if self.gpus is None:
            return None
        share = self.gpu_memory_per_rank
        return GpuAllotment(self._by("gpus"), None if share is None else bytes_of(share))

    @property
    def share_of_gpu(self) -> str:
        """What each rank gets where the profile gives GPUs out, for people."""
        return "a GPU of its own" if self.gpu_memory_per_rank is None else f"{self.gpu_memory_per_rank} of a GPU"

    @property
    def memory(self) -> MemoryLimit | None:
        """What each rank may hold, with who says so; None for no limit."""
        if self.memory_per_rank is None:
            return None
        return MemoryLimit(bytes_of(self.memory_per_rank), self._by("memory_per_rank"))

    def check(self, *, ranks: int | None = None, nodes: int | None = None) -> None:
        """Check what is asked for; None for what is not known.

        Raises:
            InvalidInput: it is more than the profile allows; the error names the file that says so.
        """
        for what, asked, most in (("ranks", ranks, self.ranks), ("nodes", nodes, self.nodes)):
            if asked is not None and most is not None and asked > most:
                raise self.too_much(what, f"{most} {what}", f"{asked} {what}")

    def check_idle_stop(self, chosen: IdleStop | None) -> None:
        """Check when idle ranks are to be ended; None for never.

        Raises:
            InvalidInput: it is later than the profile allows.
        """
        if self.idle_stop is None or (chosen is not None and chosen.after_s <= seconds_in(self.idle_stop)):
            return
        most = f"{self.idle_stop} before idle ranks are ended"
        raise self.too_much("idle_stop", most, NEVER if chosen is None else chosen.by)

    def check_clusters(self, others: Collection[str]) -> None:
        """Check that one more cluster of this user's may start.

        Args:
            others: what counts of the user's, for people; empty where there is no limit.

        Raises:
            InvalidInput: there are as many as are allowed; the error names them, and the file that says so.
        """
        most = self.clusters
        if most is None or len(others) < most:
            return
        raise self.too_much(
            "clusters",
            f"{most} cluster{'' if most == 1 else 's'} of a user at a time",
            f"one more; running: {', '.join(sorted(others))}",
            "End one: %ddl attach NAME, then %ddl stop; %ddl jobs --cancel JOB for a job; Ctrl-C for a script",
        )

    def too_much(self, limit: str, most: str, asked: str, remedy: str = "Ask for less") -> InvalidInput:
        """Return the error that says so.

        Args:
            limit: the name of the limit.
            most: that is allowed, for people.
            asked: what the user requested, for people.
            remedy: what to do, without a full stop.
        """
        rule = f"The profile {self.profile_of(limit)} allows at most {most}."
        if limit not in self.site:
            return InvalidInput(rule, asked, f"{remedy}; {self.file} has the limit.")
        held = f"{remedy}; {self.site[limit]} has the limit, for all starts on this host."
        return InvalidInput(rule, f"{asked}, with the profile {self.profile}", held)


def allowed_by(named: Named) -> Allowed:
    """Return the most that a profile allows."""
    limits = named.profile.limits
    return Allowed(
        named.name,
        named.file,
        limits.ranks,
        limits.nodes,
        limits.idle_stop,
        limits.memory_per_rank,
        limits.gpus,
        limits.gpu_memory_per_rank,
        limits.clusters,
    )


def idle_stop_in(named: Named | None, given: str | None, allowed: Allowed | None = None) -> IdleStop | None:
    """Return when idle ranks of a start are ended: as is given, else as profile or variable say, else at the limit.

    Args:
        named: the profile; None without one.
        given: a time, or "never"; None for nothing.
        allowed: the most that is allowed there; None for what the profile allows.

    Raises:
        InvalidInput: what is given, or the variable, is neither.
    """
    if given is not None:
        return idle_stop_of(given, f"--idle-stop {given}")
    default = None if named is None else named.profile.defaults.idle_stop
    variable = os.environ.get(IDLE_STOP_VARIABLE)
    if variable and default is None:
        return idle_stop_of(variable, f"{IDLE_STOP_VARIABLE}={variable}")
    if named is not None and default is not None:
        return idle_stop_of(default, f"the profile {named.name} (idle_stop = {default})")
    most = allowed_by(named) if allowed is None and named is not None else allowed
    if most is None or most.idle_stop is None:
        return None
    return idle_stop_of(most.idle_stop, f"the profile {most.profile_of('idle_stop')} (idle_stop = {most.idle_stop})")


def seconds_of(time: str) -> int | None:
    """Return the seconds of "HOURS:MINUTES", "HOURS:MINUTES:SECONDS", or these after "DAYS-"; None for other text."""
    found = _TIME.fullmatch(time)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(found[part] or 0) for part in ("days", "hours", "minutes", "seconds"))
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def check_limits(named: Named, *, ranks: int | None = None, nodes: int | None = None, time: str | None = None) -> None:
    """Check what is asked for against a profile's limits.

    Args:
        named: the profile.
        ranks: in all; None for what is not known here.
        nodes: likewise.
        time: the wall time, as `seconds_of` reads it.

    Raises:
        InvalidInput: it is more than the profile allows; the error names the file that says so.
    """
    allowed, longest = allowed_by(named), named.profile.limits.time
    allowed.check(ranks=ranks, nodes=nodes)
    if time is not None and longest is not None and (seconds_of(time) or 0) > (seconds_of(longest) or 0):
        raise allowed.too_much("time", f"a time of {longest}", f"a time of {time}")
