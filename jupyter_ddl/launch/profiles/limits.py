"""Checks a start or a job against what its profile allows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from jupyter_ddl.launch.profiles.profile import Named

_TIME = re.compile(r"(?:(?P<days>\d{1,3})-)?(?P<hours>\d{1,4}):(?P<minutes>\d{2})(?::(?P<seconds>\d{2}))?")


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
    limits = named.profile.limits
    for what, asked, most in (("ranks", ranks, limits.ranks), ("nodes", nodes, limits.nodes)):
        if asked is not None and most is not None and asked > most:
            raise _too_much(named, f"{most} {what}", f"{asked} {what}")
    if time is not None and limits.time is not None and (seconds_of(time) or 0) > (seconds_of(limits.time) or 0):
        raise _too_much(named, f"a time of {limits.time}", f"a time of {time}")


def _too_much(named: Named, most: str, asked: str) -> InvalidInput:
    return InvalidInput(
        f"The profile {named.name} allows at most {most}.", asked, f"Ask for less; {named.file} has the limit."
    )
