"""What an analysis says of traces of JAX's profiler whose figures are known, in the format of real ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.rank_files import JAX_EPOCH, JAX_TRACE, rank_file
from jupyter_ddl.timeline.jax_traces import JaxEvent, JaxTrace, calls
from jupyter_ddl.timeline.run_files import analyse_run, perfetto_pieces

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 5
BEGAN_NS = 1_790_000_000_000_000_000


def operation(name: str, at_us: float, length_us: float) -> dict[str, Any]:
    arguments = {"hlo_module": "jit_step", "hlo_op": name, "run_id": "1"}
    return {"ph": "X", "pid": 7, "tid": 8, "ts": at_us, "dur": length_us, "name": name, "args": arguments}


def written(folder: Path, rank: int, *, late_step: int = -1, ahead_ns: int = 0) -> None:
    """Write a trace whose times begin 3 ms before its mark, and later on the second rank."""
    own_us = 100.0 * rank
    mark_ns = BEGAN_NS + ahead_ns + int(own_us * 1000) + 3_000_000
    events: list[dict[str, Any]] = [{"ph": "X", "name": f"{JAX_EPOCH}{mark_ns}", "ts": 3000.0, "dur": 0.1}]
    for number in range(STEPS):
        at_us = number * 10_000 + 50_000 * (number > late_step >= 0) - own_us
        wait_us = 50_000 if number == late_step else 0
        begin_us = at_us + 4000 + (500 + wait_us if rank else 0)
        events.append(operation("dot.1", at_us + 1000, 100))
        events.append(operation("all-reduce.1", begin_us, at_us + 5200 + wait_us - begin_us))
        events.append({"ph": "X", "pid": 7, "tid": 8, "ts": at_us, "dur": 1, "name": "end: all-reduce.1", "args": {}})
    # As JAX ends its list.
    (folder / rank_file(rank, JAX_TRACE)).write_text(
        json.dumps({"displayTimeUnit": "ns", "traceEvents": [*events, {}]})
    )


def test_each_quantity_of_a_step(tmp_path: Path) -> None:
    for rank in (0, 1):
        written(tmp_path, rank)
    found = analyse_run(tmp_path, {})
    assert (found.steps, found.ranks, found.knows_ranks, found.recorded_by) == (STEPS - 1, 2, True, "jax.profiler")
    expected = {"step_us": 10_000, "exposed_us": 700, "collective_us": 700, "queue_us": 0, "copies_us": 0}
    assert {name: found.median_us(name) for name in expected} == pytest.approx(expected, abs=2)
    assert found.wait_us[0][0] == pytest.approx(500, abs=2)
    assert [(one.name, one.bytes) for one in found.tensors] == [("all-reduce.1 of jit_step", None)]


def test_a_late_rank_is_named_also_where_its_hosts_clock_is_ahead(tmp_path: Path) -> None:
    written(tmp_path, 0, late_step=3)
    written(tmp_path, 1, late_step=3, ahead_ns=2 * 10**9)
    slowest = analyse_run(tmp_path, {1: 2e6}).slowest()
    assert slowest is not None
    rank, late = slowest
    assert late.worst is not None
    number, worst = late.worst
    assert (rank, number, worst.tensor) == (1, 2, "all-reduce.1 of jit_step")
    assert worst.by_us == pytest.approx(50_500, abs=2)


def test_what_is_asked_for_and_done_apart_is_one_collective(tmp_path: Path) -> None:
    for rank in (0, 1):
        mark = {"ph": "X", "name": f"{JAX_EPOCH}{BEGAN_NS}", "ts": 0.0}
        events = [
            one
            for number in range(4)
            for one in (
                operation("all-gather-start.2", number * 1000 + 100 * rank, 10),
                operation("all-gather-done.2", number * 1000 + 400, 200),
            )
        ]
        (tmp_path / rank_file(rank, JAX_TRACE)).write_text(json.dumps({"traceEvents": [mark, *events]}))
    found = analyse_run(tmp_path, {})
    assert [(one.name, one.count) for one in found.tensors] == [("all-gather.2 of jit_step", 4)]
    assert found.median_us("exposed_us") == pytest.approx(500, abs=1)


def test_all_ranks_events_are_merged_on_one_clock(tmp_path: Path) -> None:
    for rank in (0, 1):
        written(tmp_path, rank)
    events = json.loads("".join(perfetto_pieces(tmp_path, {})))
    first = [next(one["ts"] for one in events if one["name"] == "dot.1" and one["pid"] == rank) for rank in (0, 1)]
    assert first[0] == pytest.approx(first[1], abs=2)
    assert not [one for one in events if one["name"].startswith(JAX_EPOCH)]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"traceEvents": []}', '{"traceEvents": [{"name": "jupyter_ddl epoch x"}]}']
)
def test_what_is_no_trace_is_one_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / rank_file(0, JAX_TRACE)).write_text(text)
    with pytest.raises(InvalidInput, match=r"A trace of jax\.profiler is JSON"):
        analyse_run(tmp_path, {})


def test_operations_of_one_device_are_no_collectives(tmp_path: Path) -> None:
    for rank in (0, 1):
        written(tmp_path, rank)
        path = tmp_path / rank_file(rank, JAX_TRACE)
        trace = json.loads(path.read_text())
        for number, name in enumerate(("broadcast_multiply_fusion", "reduce.3", "gather", "scatter.1")):
            trace["traceEvents"].insert(1, operation(name, 2000.0 + number, 1.0))
        path.write_text(json.dumps(trace))
    assert [one.name for one in analyse_run(tmp_path, {}).tensors] == ["all-reduce.1 of jit_step"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("all-gather-start", "ALLGATHER"), ("ragged-all-to-all", "ALLTOALL"), ("collective-broadcast.2", "BROADCAST")],
)
def test_collectives_of_xla(name: str, kind: str) -> None:
    event = JaxEvent(ph="X", name=name, args={"hlo_op": name.replace("-start", "-done"), "hlo_module": "jit_step"})
    assert [call.kind for call in calls(JaxTrace([event]), 0.0)] == [kind]
