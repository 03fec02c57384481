"""Says what a timeline comes to: a text for the notebook and the terminal."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.aligned_rows import aligned
from jupyter_ddl.protocol.number_texts import NOTHING, counted, milliseconds, percent, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jupyter_ddl.timeline.analysis import Analysis
    from jupyter_ddl.timeline.steps import Step
    from jupyter_ddl.timeline.tensors import Tensor

# From these shares of a step on, something can be gained.
_MUCH_WAIT, _MUCH_EXCHANGE = 0.1, 0.15
_NAME_LENGTH = 48


def analysis_text(found: Analysis, name: str) -> str:
    """Return the text.

    Args:
        found: the analysis.
        name: of the run, or the file.
    """
    if not found.steps:
        return _without_steps(found, name)
    ranks = "" if found.ranks is None else f" on {counted(found.ranks, 'rank')}"
    blocks = [
        [f"{name}: {counted(found.steps, 'step')}{ranks}{_cut_off(found)}"],
        list(_of_a_step(found)),
        list(_of_ranks(found)),
        list(_of_each_step(found.kept)),
        list(findings(found)),
        list(_of_tensors(found)),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _without_steps(found: Analysis, name: str) -> str:
    what = counted(found.others, "collective") if found.others else "no collective"
    return f"{name}: no steps, {what}{_cut_off(found)}. A step begins where the tensors of the one before come again."


def _cut_off(found: Analysis) -> str:
    return ", cut off" if found.is_cut_off else ""


def _of_a_step(found: Analysis) -> Iterator[str]:
    step_us = found.median_us("step_us")
    rows = [
        ("a step", step_us, ""),
        ("exchange", found.median_us("exchange_us"), ""),
        ("exposed exchange", found.median_us("exposed_us"), "the step is longer by it"),
        ("  collective", found.median_us("collective_us"), "ranks exchange bytes"),
        ("  copies", found.median_us("copies_us"), "into and out of Horovod's buffer"),
        ("  queue", found.median_us("queue_us"), "tensors wait for their turn"),
        ("hidden exchange", found.median_us("hidden_us"), "behind the computation"),
    ]
    cells = [("", "median", "of a step", "")]
    cells += [(what, _ms(us), percent(us / step_us if step_us else None), why) for what, us, why in rows]
    yield from aligned(cells, right=(1, 2))


def _of_ranks(found: Analysis) -> Iterator[str]:
    cells = [("rank", "compute", "waits", "last in")]
    for rank, compute_us in sorted(found.compute_us.items()):
        late = found.lateness.get(rank)
        last = f"{late.times if late else 0:,} of {counted(found.steps, 'step')}" if found.knows_ranks else NOTHING
        cells.append((str(rank), _ms(median(compute_us)), _ms(median(found.wait_us[rank])), last))
    yield from aligned(cells, right=(0, 1, 2))
    if found.recorded_by is not None:
        yield f"Recorded by {found.recorded_by}: it does not say which copies are the exchange's; they are in compute."
    elif not found.knows_ranks:
        yield "Of rank 0 alone it is known when it had its tensors: Horovod's response cache leaves the others out."


def _of_each_step(steps: Sequence[Step]) -> Iterator[str]:
    cells = [("step", "took", "compute", "waits", "collective", "copies", "queue", "hidden", "last")]
    cells += [_step_cells(step) for step in steps]
    if steps:
        yield "Compute of the slowest rank, and the longest wait for it:"
        yield from aligned(cells, right=range(8))


def _step_cells(step: Step) -> tuple[str, str, str, str, str, str, str, str, str]:
    waits_us = max((step.wait_us(rank) for rank in step.handed_us), default=0.0)
    late = step.late
    return (
        f"{step.number + 1:,}",
        _ms(step.step_us),
        _ms(step.ready_us - step.begin_us),
        _ms(waits_us),
        _ms(step.collective_us),
        _ms(step.copies_us),
        _ms(step.queue_us),
        _ms(step.hidden_us),
        NOTHING if late is None else f"rank {late.rank} by {_ms(late.by_us)}, {_shortened(late.tensor)}",
    )


def findings(found: Analysis) -> Iterator[str]:
    """Yield the sentences on what can be gained."""
    slowest = found.slowest()
    if slowest is not None:
        rank, late = slowest
        assert late.worst is not None
        step, worst = late.worst
        yield (
            f"The ranks waited {_ms(late.by_us)} in all for rank {rank}, {_ms(worst.by_us)} of it in step "
            f"{step + 1:,}, for {worst.tensor}."
        )
    step_us = found.median_us("step_us")
    waits_us = max((median(waits) for waits in found.wait_us.values()), default=0.0)
    if waits_us > _MUCH_WAIT * step_us:
        yield "What may help: as much work on each rank, and the same speed (%ddl profile shows where they differ)."
    exposed_us = found.median_us("exposed_us")
    if exposed_us > _MUCH_EXCHANGE * step_us:
        parts = {name: found.median_us(name) for name in ("collective_us", "copies_us", "queue_us")}
        yield f"What may help: {_REMEDIES[max(parts, key=lambda name: parts[name])]}."


_REMEDIES = {
    "collective_us": "a larger batch on each rank, fewer bytes (compression of DistributedOptimizer), or more "
    "computation between exchanges (backward_passes_per_step)",
    "copies_us": "larger tensors that are exchanged by themselves: HOROVOD_FUSION_THRESHOLD=0, or num_groups",
    "queue_us": "a shorter cycle: HOROVOD_CYCLE_TIME, in milliseconds",
}


def _of_tensors(found: Analysis) -> Iterator[str]:
    cells: list[tuple[str, ...]] = [("longest exchanges", "bytes", "times", "mean", "longest", "fused", "wait", "bus")]
    cells += [_tensor_cells(tensor, found.ranks) for tensor in found.tensors if tensor.exchange_us]
    if len(cells) > 1:
        yield from aligned(cells, right=range(1, 8))


def _tensor_cells(tensor: Tensor, ranks: int | None) -> tuple[str, ...]:
    bus = tensor.bus_bytes_per_s(ranks)
    return (
        _shortened(tensor.name),
        size(tensor.bytes),
        f"{tensor.count:,}",
        _ms(tensor.exchange_us / tensor.count),
        _ms(tensor.longest_us),
        percent(tensor.fused / tensor.count),
        _ms(tensor.wait_us / tensor.count),
        NOTHING if bus is None else f"{size(bus)}/s",
    )


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME_LENGTH else f"…{name[1 - _NAME_LENGTH :]}"


def _ms(microseconds: float) -> str:
    return milliseconds(microseconds / 1e6)
