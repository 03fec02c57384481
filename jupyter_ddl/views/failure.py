"""Renders what a notebook shows when ranks raised: each error once, the first cause first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.rank_sets import heading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.errors import RankError, RankFailure

_TRACEBACKS = 3  # more different errors than this get a line each
_HOSTS = 3
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


def render_failure(error: RankError) -> str:
    """Return the text of a RankError, with ANSI colours where the ranks' tracebacks have them.

    The same error on several ranks is shown once, with the first rank's traceback. Ranks that were released because of
    it share a line.
    """
    groups = _same_errors(error.failures)
    parts = []
    for group in groups[:_TRACEBACKS]:
        first_line = f"{_name(group)} of {error.world_size} on {_hosts(group)}"
        parts.append("\n".join([first_line, *_traceback(group[0]), *_given(group)]))
    parts += [
        f"{_name(group)} of {error.world_size} on {_hosts(group)}: {group[0].name}: {group[0].message}"
        for group in groups[_TRACEBACKS:]
    ]
    if error.aborted:
        cause = _name(groups[0])
        parts.append(f"{heading(error.aborted)} aborted because {cause[0].lower()}{cause[1:]} raised")
    return "\n\n".join(parts)


def _same_errors(failures: Sequence[RankFailure]) -> list[list[RankFailure]]:
    """Group by what was raised; messages that differ in an object's address are the same error."""
    groups: dict[tuple[str, str], list[RankFailure]] = {}
    for failure in failures:
        groups.setdefault((failure.name, _ADDRESS.sub("0x…", failure.message)), []).append(failure)
    return list(groups.values())


def _given(group: Sequence[RankFailure]) -> list[str]:
    """Return which ranks passed what to a collective, where that differs."""
    ranks: dict[str, list[int]] = {}
    for failure in group:
        if failure.given is not None:
            ranks.setdefault(failure.given, []).append(failure.rank)
    if len(ranks) < 2:
        return []
    passed = sorted((sorted(gave), what) for what, gave in ranks.items())
    return [f"{heading(gave)} gave: {what}" for gave, what in passed]


def _traceback(failure: RankFailure) -> Sequence[str]:
    # A rank that could not format its traceback still reports what it raised.
    return failure.traceback or (f"{failure.name}: {failure.message}",)


def _name(group: Sequence[RankFailure]) -> str:
    return heading([failure.rank for failure in group])


def _hosts(group: Sequence[RankFailure]) -> str:
    hosts = list(dict.fromkeys(failure.host for failure in group))
    rest = f" and {len(hosts) - _HOSTS} more" if len(hosts) > _HOSTS else ""
    return ", ".join(hosts[:_HOSTS]) + rest
