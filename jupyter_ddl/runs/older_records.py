"""Reads the run folders of older versions, which recorded a fault as sentences."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.events import StallReported
from jupyter_ddl.protocol.faults import Facts, Fault, RankProcess, loss_in_words
from jupyter_ddl.protocol.rank_life import RankLost, RankSilent

if TYPE_CHECKING:
    from collections.abc import Callable


def of_this_version(content: Any) -> Any:
    """Return the JSON form of an event as this version writes it."""
    kind = content.get("type") if isinstance(content, dict) else None
    made = _MADE.get(kind) if isinstance(kind, str) else None
    if made is None or "fault" in content:
        return content
    try:
        return {**content, "fault": asdict(made(content))}
    except KeyError:
        # It is not of an older version either: it cannot be read.
        return content


def _lost(content: dict[str, Any]) -> Fault:
    rank = content.get("rank")
    known = {name: content[name] for name in ("at_s", "host", "signum", "oom_kills") if name in content}
    asked = content.get("asked") is True
    return loss_in_words(content["cause"], () if rank is None else (rank,), asked=asked, **known)


def _silent(content: dict[str, Any]) -> Fault:
    rank = content["rank"]
    process = RankProcess(rank, "in words", detail=content["state"])
    return Fault("silent", "unknown", (rank,), facts=Facts(seconds=content.get("seconds"), processes=(process,)))


def _stalled(content: dict[str, Any]) -> Fault:
    return Fault("stalled", "unknown", tuple(content.get("ranks", ())), facts=Facts(note=content["text"]))


_MADE: dict[str, Callable[[dict[str, Any]], Fault]] = {
    RankLost.type: _lost,
    RankSilent.type: _silent,
    StallReported.type: _stalled,
}
