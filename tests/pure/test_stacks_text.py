"""Stacks as text: grouped, by the cell's lines; and what faulthandler writes, read."""

from __future__ import annotations

from jupyter_ddl.cluster.rank_stacks import parse_dump
from jupyter_ddl.protocol.rank_answers import RankStacks
from jupyter_ddl.views.stack_text import render_stacks

CELL = "/run/ipykernel_7/123.py"
HVD = "/x/lib/python3.11/site-packages/horovod/tensorflow/mpi_ops.py"
BELOW = ["/x/lib/python3.11/site-packages/IPython/core/interactiveshell.py", 3700, "run_code", ""]
DUMP = """Thread 0x00007fd3a5ffb6c0 (most recent call first):
  File "/x/lib/python3.11/threading.py", line 327 in wait
  File "/x/lib/python3.11/threading.py", line 1045 in _bootstrap_inner

Current thread 0x00007fd3a67fc6c0 (most recent call first):
  File "/x/lib/python3.11/threading.py", line 629 in wait

Thread 0x00007fd3c8d2e740 (most recent call first):
  File "/run/ipykernel_7/99.py", line 2 in slow, or not
  File "/run/ipykernel_7/123.py", line 2 in <module>
  File "/x/lib/python3.11/site-packages/IPython/core/interactiveshell.py", line 3700 in run_code
"""


def stacks(rank: int, *frames: list[object], note: str = "", host: str = "a") -> RankStacks:
    return RankStacks("look", rank, host, ({"name": "MainThread", "frames": list(frames)},), note)


def test_ranks_at_the_same_place_are_one_group() -> None:
    waits = [
        BELOW,
        [CELL, 3, "<module>", "train()"],
        [CELL, 1, "train", "hvd.allreduce(x)"],
        [HVD, 130, "_allreduce", ""],
    ]
    sleeps = [BELOW, [CELL, 4, "<module>", "time.sleep(9)"]]
    seen = [
        stacks(3, *waits),
        stacks(1, *sleeps, note="seen by signal"),
        stacks(0, *waits),
        stacks(2, *waits, host="b"),
    ]
    assert render_stacks(seen, 4) == (
        "Ranks 0, 2-3 of 4 on a, b\n"
        "  cell line 3: train()\n"
        "  cell line 1, in train: hvd.allreduce(x)\n"
        "    horovod/tensorflow/mpi_ops.py:130, in _allreduce\n"
        "Rank 1 of 4 on a\n"
        "  (seen by signal)\n"
        "  cell line 4: time.sleep(9)"
    )


def test_what_cannot_be_seen_is_told_with_why() -> None:
    stopped = RankStacks("look", 1, "a", (), "its process is stopped")
    assert render_stacks([stopped], 2) == "Rank 1 of 2 on a\n  (its process is stopped)"


def test_a_note_of_some_of_those_at_one_place() -> None:
    place = [CELL, 1, "<module>", "x"]
    assert "  (rank 1: slow)" in render_stacks([stacks(0, place), stacks(1, place, note="slow")], 2)


def test_long_stretches_in_libraries_are_told_in_part() -> None:
    calls = [[HVD, line, f"f{line}", ""] for line in range(1, 8)]
    lines = render_stacks([stacks(0, [CELL, 1, "<module>", "fit()"], *calls)], 1).splitlines()
    assert [line.strip() for line in lines[2:]] == [
        "horovod/tensorflow/mpi_ops.py:1, in f1",
        "… 4 more",
        "horovod/tensorflow/mpi_ops.py:6, in f6",
        "horovod/tensorflow/mpi_ops.py:7, in f7",
    ]


def test_what_faulthandler_wrote_is_read() -> None:
    threads = parse_dump(DUMP, "7fd3c8d2e740", ["import x", "  slow()"])
    assert [thread["name"] for thread in threads] == ["MainThread", "0x00007fd3a5ffb6c0", "0x00007fd3a67fc6c0"]
    assert threads[0]["frames"] == [
        [BELOW[0], 3700, "run_code", ""],
        ["/run/ipykernel_7/123.py", 2, "<module>", "slow()"],
        ["/run/ipykernel_7/99.py", 2, "slow, or not", ""],
    ]
    assert threads[1]["frames"][-1] == ["/x/lib/python3.11/threading.py", 327, "wait", ""]
