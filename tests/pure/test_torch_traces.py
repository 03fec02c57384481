"""What an analysis says of traces of torch's profiler whose figures are known, in the format of real ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.rank_files import TORCH_TRACE, rank_file
from jupyter_ddl.timeline import torch_traces
from jupyter_ddl.timeline.analysis import Analysis, analyse_joined
from jupyter_ddl.timeline.rank_calls import kind_of
from jupyter_ddl.timeline.record import analysis_record
from jupyter_ddl.timeline.run_files import analyse_run, has_timeline, perfetto_pieces
from jupyter_ddl.timeline.text import analysis_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STEP_US, STEPS = 10_000, 5
BASE_NS = 1_790_000_000_000_000_000
# When each rank calls the collective, in microseconds of the step; the backend begins later, and both end at once.
CALLED, BEGINS_AFTER, ENDS = (4000, 4500), 100, 5200
SHAPED = {"Input type": ["float"], "Input Dims": [[10, 100]]}


def event(name: str, at_us: float, length_us: float, category: str = "cpu_op", **arguments: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 7,
        "tid": 8,
        "ts": at_us,
        "dur": length_us,
        "args": arguments,
    }


def allreduce(called_us: float, end_us: float, **shape: Any) -> list[dict[str, Any]]:
    begins_us = called_us + BEGINS_AFTER
    span = event("gloo:all_reduce", begins_us, end_us - begins_us, "user_annotation", **(shape or SHAPED))
    return [span, event("c10d::allreduce_", called_us, 50)]


def written(
    folder: Path, rank: int, *, late_us: Mapping[int, int] | None = None, ahead_ns: int = 0, more: Any = ()
) -> Path:
    late, events, passed_us = late_us or {}, list(more), 0
    for number in range(STEPS):
        at_us, own_us = number * STEP_US + passed_us, late.get(number, 0)
        passed_us += own_us
        events += allreduce(at_us + CALLED[rank] + (own_us if rank else 0), at_us + own_us + ENDS)
        events += [event("aten::mm", at_us + 1000, 10), event("Optimizer.step#SGD.step", at_us + own_us + 6000, 100)]
    path = folder / rank_file(rank, TORCH_TRACE)
    heads = [{"ph": "M", "name": "process_name", "pid": 7, "tid": "x", "args": {"name": "python"}}]
    path.write_text(json.dumps({"baseTimeNanoseconds": BASE_NS + ahead_ns, "traceEvents": heads + events}))
    return path


def analyse_torch(paths: Mapping[int, Path], ahead_us: Mapping[int, float]) -> Analysis:
    return analyse_joined(paths[0], "torch.profiler", torch_traces.joined(paths, ahead_us))


def test_each_quantity_of_a_step(tmp_path: Path) -> None:
    found = analyse_torch({rank: written(tmp_path, rank) for rank in (0, 1)}, {})
    assert (found.steps, found.ranks, found.knows_ranks) == (STEPS - 1, 2, True)
    expected = {
        "step_us": 10_000,
        "exposed_us": 700,
        "collective_us": 600,
        "queue_us": 100,
        "copies_us": 0,
        "hidden_us": 0,
    }
    assert {name: found.median_us(name) for name in expected} == pytest.approx(expected, abs=1)
    assert found.compute_us[0][0] == pytest.approx(8800, abs=1)
    assert found.wait_us[0][0] == pytest.approx(500, abs=1)
    assert found.wait_us[1][0] == 0
    (tensor,) = found.tensors
    assert (tensor.name, tensor.count, tensor.bytes) == ("allreduce 1 [10, 100]", STEPS, 4000)
    assert tensor.bus_bytes_per_s(2) == pytest.approx(4000 / 600e-6, rel=0.01)
    assert "it does not say which copies" in analysis_text(found, "run")
    assert analysis_record(found)["recorded_by"] == "torch.profiler"


def test_a_late_rank_is_named_also_where_its_hosts_clock_is_ahead(tmp_path: Path) -> None:
    paths = {0: written(tmp_path, 0, late_us={3: 50_000})}
    paths[1] = written(tmp_path, 1, late_us={3: 50_000}, ahead_ns=2 * 10**9)
    found = analyse_torch(paths, {1: 2e6})
    slowest = found.slowest()
    assert slowest is not None
    rank, late = slowest
    assert late.worst is not None
    number, worst = late.worst
    assert (rank, number, worst.tensor) == (1, 2, "allreduce 1 [10, 100]")
    assert worst.by_us == pytest.approx(50_500, abs=1)


def test_collectives_of_some_ranks_do_not_displace_those_of_all(tmp_path: Path) -> None:
    alone = allreduce(100, 300, **{"Input type": ["double"], "Input Dims": [[3]]})
    found = analyse_torch({0: written(tmp_path, 0, more=alone), 1: written(tmp_path, 1)}, {})
    assert (found.steps, found.median_us("exposed_us")) == (STEPS - 1, pytest.approx(700, abs=1))
    assert [one.bytes for one in found.tensors] == [4000]


def test_a_run_has_its_traces_analysed_and_merged(tmp_path: Path) -> None:
    assert not has_timeline(tmp_path)
    with pytest.raises(InvalidInput, match="A run has a timeline where it was recorded"):
        analyse_run(tmp_path, {})
    for rank in (0, 1):
        written(tmp_path, rank)
    assert has_timeline(tmp_path)
    assert analyse_run(tmp_path, {}, range(1, 2)).kept[0].number == 1
    events = json.loads("".join(perfetto_pieces(tmp_path, {})))
    for rank in (0, 1):
        mine = [one for one in events if one["pid"] == rank]
        steps = [one for one in mine if one["name"].startswith("step ")]
        assert [one["name"] for one in steps] == [f"step {number}" for number in range(2, STEPS + 1)]
        kernels = [one["ts"] for one in mine if one["name"] == "aten::mm"]
        assert all(any(one["ts"] < at_us < one["ts"] + one["dur"] for at_us in kernels) for one in steps)


@pytest.mark.parametrize("text", ["", "[]", '{"traceEvents": 1}', '{"traceEvents": [{}]}'])
def test_what_is_no_trace_is_one_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / rank_file(0, TORCH_TRACE)).write_text(text)
    with pytest.raises(InvalidInput, match=r"A trace of torch\.profiler is JSON"):
        analyse_run(tmp_path, {})


def test_kinds_by_the_names_of_calls() -> None:
    names = ("allreduce_", "_allgather_base_", "reduce_scatter_", "barrier", "mm", "")
    assert [kind_of(name) for name in names] == ["ALLREDUCE", "ALLGATHER", "REDUCESCATTER", "BARRIER", "", ""]
