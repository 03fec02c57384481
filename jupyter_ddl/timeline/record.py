"""Gives an analysis as numbers for JSON: microseconds and bytes."""

from __future__ import annotations

from dataclasses import asdict
from statistics import mean, median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_ddl.timeline.analysis import Analysis
    from jupyter_ddl.timeline.steps import Step


def analysis_record(found: Analysis) -> dict[str, Any]:
    """Return the analysis."""
    return {
        "file": str(found.path),
        "cut_off": found.is_cut_off,
        "began_s": found.began_s,
        "recorded_by": found.recorded_by or "Horovod",
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
        "by_step": [_step_record(step) for step in found.kept],
    }


def _rank_record(found: Analysis, rank: int) -> dict[str, Any]:
    late = found.lateness.get(rank)
    worst = None if late is None or late.worst is None else {"step": late.worst[0], **asdict(late.worst[1])}
    return {
        "compute_us": median(found.compute_us[rank]),
        "wait_us": median(found.wait_us[rank]),
        "waits_us": sum(found.wait_us[rank]),
        "last": (late.times if late else 0) if found.knows_ranks else None,
        "late_us": late.by_us if late else 0.0,
        "worst": worst,
    }


def _step_record(step: Step) -> dict[str, Any]:
    return {**asdict(step), "exchange_us": step.exchange_us, "exposed_us": step.exposed_us}
