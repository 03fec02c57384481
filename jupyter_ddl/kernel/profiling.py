"""Takes a profile of the ranks, and keeps it in the folder of the run that they execute.

Runs on: kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import files
from jupyter_ddl.runs.store import resolve
from jupyter_ddl.views.merged_profile import Profile, merge
from jupyter_ddl.views.profile_text import folded, render_profile, speedscope

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session


@dataclass(frozen=True)
class Taken:
    """A profile that was taken.

    Attributes:
        text: as a user reads it, with where it was kept.
        kept: the sentences on that.
    """

    profile: Profile
    text: str
    kept: tuple[str, ...]


def take_profile(session: Session, ranks: Iterable[int] | None, seconds: float, hz: float) -> Taken:
    """Return where the ranks' time goes for some seconds from now on.

    Args:
        session: whose ranks.
        ranks: which; None for all.
        seconds: for how long.
        hz: how many samples a second.
    """
    folders = _folders(session)
    profile = merge(session.profile(ranks, seconds, hz).values())
    kept = tuple(_kept(profile, folder, hz) for folder in folders if profile.ticks)
    return Taken(profile, "\n".join([render_profile(profile, seconds, hz), *(["", *kept] if kept else [])]), kept)


def _folders(session: Session) -> list[Path]:
    """Return the folder of the newest run that is active; none where none is, or it has none."""
    try:
        return [resolve(run).path for run in session.busy[-1:]]
    except InvalidInput:
        # It could not be made, and the run's output said so.
        return []


def _kept(profile: Profile, folder: Path, hz: float) -> str:
    """Write a profile into a run's folder, and return the sentence on that."""
    names = (f"profile{'' if number == 1 else f'-{number}'}" for number in count(1))
    stacks = next(file for name in names if not (file := folder / f"{name}.folded").exists())
    other = stacks.with_suffix(".speedscope.json")
    try:
        files.replace(stacks, folded(profile))
        files.replace(other, speedscope(profile, folder.name, hz))
    except OSError as error:
        return f"It could not be kept in the run's folder: {error}."
    return f"Kept as {stacks} (folded stacks) and {other.name} (for https://www.speedscope.app)."
