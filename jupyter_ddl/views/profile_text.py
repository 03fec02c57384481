"""Renders a merged profile: as text, as what a panel draws, and as files for other tools."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.rank_sets import heading, named
from jupyter_ddl.views.merged_profile import MISSED, THRESHOLD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jupyter_ddl.views.merged_profile import Call, Difference, Place, Profile

PLACES = 15
_DIFFERENCES = 10
# What a panel draws: below this part of the time a call is a fraction of a pixel.
_LEAST_SHARE = 0.0005
_MOST_CALLS = 3_000
# The ranks whose shares are sent one by one; of more, those that differ and the bounds.
_FEW_RANKS = 16
_TEXT = 90
_HOSTS = 3


def render_profile(profile: Profile, seconds: float, hz: float) -> str:
    """Return where the ranks' time went: the places with the most of it, and the ranks that differ."""
    if not profile.ticks:
        return "\n".join(["No rank has been profiled.", *_notes(profile)])
    taken, due = sum(profile.samples.values()), sum(profile.ticks.values())
    hosts = ", ".join(profile.hosts[:_HOSTS]) + (" …" if len(profile.hosts) > _HOSTS else "")
    lines = [
        f"{heading(profile.ticks)} on {hosts}: {seconds:g} s, {hz:g} samples a second, {taken:,} of {due:,} taken",
        *_notes(profile),
        "",
        "innermost  in all  where",
    ]
    for place, own, counts, within in _top(profile):
        lines.append(
            f"{_percent(profile.mean(own)):>9} {_percent(profile.mean(counts)):>7}  {_cut(str(place))}{within}"
        )
        found = profile.difference(own)
        if found is not None:
            lines.append(f"{'':19}{render_difference(found)}")
    differences = profile.differences()
    if differences:
        lines += ["", f"Ranks that differ from the others by {THRESHOLD:.0%} of the time or more:"]
        for number, found in differences[:_DIFFERENCES]:
            lines.append(f"  {_cut(str(profile.calls[number].place))}: {render_difference(found)}")
        if len(differences) > _DIFFERENCES:
            lines.append(f"  and at {len(differences) - _DIFFERENCES} more places")
    return "\n".join(lines)


def render_difference(found: Difference) -> str:
    """Return which ranks differ from the others, as one clause.

    >>> from jupyter_ddl.views.merged_profile import Difference
    >>> render_difference(Difference({3: 0.82}, {3: 0.78}, 0.04))
    'rank 3: 82%, the others: 4%'
    """
    more = {rank: share for rank, share in found.shares.items() if found.gaps[rank] > 0}
    less = {rank: share for rank, share in found.shares.items() if found.gaps[rank] < 0}
    parts = [f"{named(some)}: {_range(some.values())}" for some in (more, less) if some]
    if found.others is not None:
        parts.append(f"the others: {_percent(found.others)}")
    return ", ".join(parts)


def panel_profile(profile: Profile, kept: Sequence[str] = ()) -> dict[str, Any]:
    """Return what the panel draws of a profile, as JSON: calls as rows, the callers first.

    Args:
        profile: the ranks'.
        kept: sentences on where it was kept.
    """
    shown = _shown(profile)
    numbers = {number: index for index, number in enumerate(shown)}
    rows = []
    for number in shown:
        call = profile.calls[number]
        found = profile.difference(call.counts)
        rows.append(
            {
                "parent": numbers.get(call.parent, -1),
                "where": call.place.where,
                "text": call.place.text,
                "kind": "own" if call.place.is_own else "missed" if call.place.where == MISSED else "library",
                "share": round(profile.mean(call.counts), 5),
                "own": round(profile.mean(call.own), 5),
                "samples": sum(call.counts.values()),
                "ranks": _rank_shares(profile, call.counts, found),
                "differs": "" if found is None else render_difference(found),
            }
        )
    return {
        "ranks": list(profile.ticks),
        "ticks": sum(profile.ticks.values()),
        "samples": sum(profile.samples.values()),
        "calls": rows,
        "differences": [
            {"call": numbers[number], "text": render_difference(found)}
            for number, found in profile.differences()
            if number in numbers
        ][:_DIFFERENCES],
        "notes": [*_notes(profile), *kept],
    }


def folded(profile: Profile) -> str:
    """Return the profile as folded stacks, each rank a root of its own: what flamegraph.pl and speedscope read.

    Source: B. Gregg, FlameGraph, stackcollapse.pl: calls separated by semicolons, a space, and the count.
    """
    lines = []
    for number, call in enumerate(profile.calls):
        path = ";".join(_one_line(str(place)).replace(";", ",") for place in _path(profile, number))
        lines += [f"rank {rank};{path} {count}" for rank, count in call.own.items()]
    return "".join(f"{line}\n" for line in sorted(lines))


def speedscope(profile: Profile, name: str, hz: float) -> str:
    """Return the profile as a file of https://www.speedscope.app, a profile a rank.

    Source: https://www.speedscope.app/file-format-schema.json
    """
    frames: dict[str, int] = {}
    numbers = [frames.setdefault(_one_line(str(call.place)), len(frames)) for call in profile.calls]
    profiles = []
    for rank, ticks in profile.ticks.items():
        seen = [(number, call.own[rank]) for number, call in enumerate(profile.calls) if rank in call.own]
        profiles.append(
            {
                "type": "sampled",
                "name": f"rank {rank}",
                "unit": "seconds",
                "startValue": 0,
                "endValue": ticks / hz,
                "samples": [[numbers[step] for step in _steps(profile, number)] for number, _ in seen],
                "weights": [count / hz for _, count in seen],
            }
        )
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "name": name,
            "exporter": "jupyter_ddl",
            "shared": {"frames": [{"name": name} for name in frames]},
            "profiles": profiles,
        }
    )


def _top(profile: Profile) -> list[tuple[Place, dict[int, int], dict[int, int], str]]:
    """Return the places with the most samples as the innermost call: their counts, and a cell's line that led there."""
    own: dict[Place, dict[int, int]] = {}
    lines: dict[Place, dict[Place | None, int]] = {}
    for number, call in enumerate(profile.calls):
        if not call.own:
            continue
        _sum(own.setdefault(call.place, {}), call.own)
        caller = next((place for place in reversed(_path(profile, number)[:-1]) if place.is_own), None)
        found = lines.setdefault(call.place, {})
        found[caller] = found.get(caller, 0) + sum(call.own.values())
    chosen = sorted(own, key=lambda place: profile.mean(own[place]), reverse=True)[:PLACES]
    top = []
    for place in chosen:
        most = max(lines[place], key=lambda caller: lines[place][caller])
        within = "" if place.is_own or most is None else f"  ({most.where})"
        top.append((place, own[place], _counts_of(profile, place), within))
    return top


def _counts_of(profile: Profile, place: Place) -> dict[int, int]:
    """Return in how many samples a place was seen, a recursion once."""
    counts: dict[int, int] = {}
    within: list[bool] = []
    for call in profile.calls:
        above = call.parent >= 0 and within[call.parent]
        within.append(above or call.place == place)
        if call.place == place and not above:
            _sum(counts, call.counts)
    return counts


def _sum(counts: dict[int, int], more: Mapping[int, int]) -> None:
    for rank, count in more.items():
        counts[rank] = counts.get(rank, 0) + count


def _shown(profile: Profile) -> list[int]:
    """Return the calls that a panel draws, the callers first."""
    found = [number for number, call in enumerate(profile.calls) if _weight(profile, call) >= _LEAST_SHARE]
    if len(found) > _MOST_CALLS:
        # What a call has its callers have too.
        found = sorted(found, key=lambda number: (-_weight(profile, profile.calls[number]), number))[:_MOST_CALLS]
    return sorted(found)


def _weight(profile: Profile, call: Call) -> float:
    return profile.mean(call.counts)


def _rank_shares(profile: Profile, counts: Mapping[int, int], found: Difference | None) -> list[list[float]]:
    """Return ranks with their shares: all of a few; of many those that differ, the lowest and the highest."""
    shares = {rank: profile.share(counts, rank) for rank in profile.ticks}
    if len(shares) > _FEW_RANKS:
        ordered = sorted(shares, key=lambda rank: shares[rank])
        chosen = {ordered[0], ordered[-1], *list(found.gaps if found is not None else ())[:_FEW_RANKS]}
        shares = {rank: shares[rank] for rank in sorted(chosen)}
    return [[rank, round(share, 4)] for rank, share in shares.items()]


def _path(profile: Profile, number: int) -> list[Place]:
    return [profile.calls[step].place for step in _steps(profile, number)]


def _steps(profile: Profile, number: int) -> list[int]:
    """Return the numbers of a call and its callers, outermost first."""
    steps: list[int] = []
    while number >= 0:
        steps.insert(0, number)
        number = profile.calls[number].parent
    return steps


def _notes(profile: Profile) -> list[str]:
    """Return each note once, with its ranks."""
    noted: dict[str, list[int]] = {}
    for rank, note in profile.notes.items():
        noted.setdefault(note, []).append(rank)
    few = {
        rank: f"{profile.samples[rank]:,} of {ticks:,} samples taken"
        for rank, ticks in profile.ticks.items()
        if profile.samples[rank] < (1 - THRESHOLD) * ticks
    }
    for rank, note in few.items():
        noted.setdefault(note, []).append(rank)
    return [f"({named(ranks)}: {note})" for note, ranks in noted.items()]


def _range(shares: Iterable[float]) -> str:
    lowest, highest = min(values := list(shares)), max(values)
    low, high = _percent(lowest), _percent(highest)
    return low if low == high else f"{low} to {high}"


def _percent(share: float) -> str:
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"


def _one_line(text: str) -> str:
    return " ".join(text.split())
