"""Gives an analysis as numbers for JSON: for programs, and for the page in the browser."""

from __future__ import annotations

from dataclasses import asdict
from statistics import mean, median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_ddl.timeline.analysis import Analysis
    from jupyter_ddl.timeline.steps import Step


def analysis_record(found: Analysis, *, with_drawn: bool = False) -> dict[str, Any]:
    """Return the analysis; times are in microseconds, sizes in bytes.

    Args:
        found: the analysis.
        with_drawn: with the collectives of some steps too, to be drawn.
    """
    record: dict[str, Any] = {
        "file": str(found.path),
        "cut_off": found.is_cut_off,
        "began_s": found.began_s,
        "ranks": found.ranks,
        "steps": found.steps,
        "others": found.others,
        "figures": {
            name: {"median": median(column), "mean": mean(column), "total": sum(column)}
            for name, column in found.columns.items()
            if found.steps
        },
        "by_rank": {str(rank): _rank_record(found, rank) for rank in sorted(found.compute_us)},
        "tensors": [{**asdict(one), "bus_bytes_per_s": one.bus_bytes_per_s(found.ranks)} for one in found.tensors],
    }
    return record | ({"drawn": [_drawn(step) for step in found.drawn]} if with_drawn else {})


def _rank_record(found: Analysis, rank: int) -> dict[str, Any]:
    late = found.lateness.get(rank)
    worst = None if late is None or late.worst is None else {"step": late.worst[0], **asdict(late.worst[1])}
    return {
        "compute_us": median(found.compute_us[rank]),
        "wait_us": median(found.wait_us[rank]),
        "waits_us": sum(found.wait_us[rank]),
        "last": None if found.ranks is None else (late.times if late else 0),
        "late_us": late.by_us if late else 0.0,
        "worst": worst,
    }


def _drawn(step: Step) -> dict[str, Any]:
    return {
        "number": step.number,
        "begin_us": step.begin_us,
        "ready_us": step.ready_us,
        "end_us": step.end_us,
        "handed_us": {str(rank): at_us for rank, at_us in step.handed_us.items()},
        "collectives": [
            {
                "tensor": one.tensor,
                "begin_us": one.begin_us,
                "ready_us": one.ready_us,
                "end_us": one.end_us,
                "copies": one.copies,
                "exchanges": one.exchanges,
                "bytes": one.bytes,
            }
            for one in step.collectives
        ],
    }
