from __future__ import annotations

import json
from dataclasses import fields

import pytest

from jupyter_ddl.protocol import events, hub_messages, requests
from jupyter_ddl.protocol.cell_options import AutoOptions, CellOptions
from jupyter_ddl.protocol.codec import Wire, decode, encode
from jupyter_ddl.protocol.faults import Facts, Fault, Frame, LastSample, Place, RankProcess, Remedy, Thread, Wait

FAULT = Fault(
    "stalled",
    "ranks",
    (0, 1),
    "node-a",
    3.0,
    "signal",
    Remedy("replaced", 2, 1),
    Facts(
        world_size=2,
        last=LastSample(0.5, 2**30, step=7),
        waits=(Wait(("HorovodAllreduce",), (1,)),),
        processes=(RankProcess(1, "stopped", 77, "node-a"),),
        places=(Place((1,), ("node-a",), (Thread("MainThread", (Frame("a.py", 3, "f"),)),), "a note"),),
    ),
)
EXAMPLES = (
    events.RankReady(1, 2, 1, "node-a", 4711, "GPU 1 (NVIDIA H200)", 8, uses_horovod=True),
    events.RankWarm(0, {"tensorflow": "2.21.0"}, 3.5, "ImportError: no horovod"),
    events.RunStarted("run-1", (0, 2), 4, 1.5),
    events.OutputChunk("run-1", 0, "stderr", "é<script>\x1b[1m\r", 17),
    events.RichOutput("run-1", 0, "result", {"text/plain": "1"}, {"image/png": {"width": 3}}, "id"),
    events.OutputCleared("run-1", 0, wait=True),
    events.MetricsSample("run-1", 1, 2.0, 99.5, 2**30, n=3, step=7, steps=5, loss=0.5, metrics={"acc": 0.9}),
    events.StragglerMarked("run-1", 1, 2.0, is_straggler=True, ratio=1.5, spends_on="input"),
    events.RankFinished("run-1", 0, 2.5, uses_horovod=True, horovod_runs=True),
    events.RankFailed("run-1", 0, "node-a", "ValueError", "no", ("line", "line"), released=True, at_s=2.0),
    events.RankLost(None, FAULT, 3.0),
    events.RankAlive(1, "run-1"),
    events.RankSilent(1, 10.5, FAULT, 3.0),
    events.CollectiveStalled("run-1", 0, 3.0, 2.0, ("HorovodAllreduce",), {"1": ["HorovodAllreduce"]}, n=4),
    events.StallReported("run-1", (0, 1), 3.0, FAULT),
    events.RankStacks("look", 1, "node-a", ({"name": "MainThread", "frames": [["a.py", 3, "f", ""]]},), "a note"),
    events.LookedUp("look", 0, {"data": {}, "found": False}),
    events.RunFinished("run-1", "failed", 0.25, FAULT),
    requests.RunCell("run-1", "1", (0, 1), True, "/runs/run-1"),
    requests.RunScript(
        "run-1", "/runs/run-1", "/pipes", 2, ("0", "1"), 4, CellOptions(auto=AutoOptions(warmup_epochs=1.5))
    ),
    requests.PrepareHorovod("run-1"),
    requests.RestHorovod(),
    requests.Describe(),
    requests.Ping(),
    requests.Release("run-1", "interrupted"),
    requests.LookAtStacks("look"),
    requests.LookUp("look", "inspect", "tf.ones", 3, 1),
    requests.PushValues("move", ("x", "y"), (1, 2)),
    requests.PullValue("move", "x"),
    requests.ValuesMoved("move", 1, "KeyboardInterrupt: ", "the panel"),
    requests.ReleaseAsked("kernel-1", "the panel", 3.0),
    hub_messages.KernelState("kernel-1", 4700, None, "run-1", "Rank 1 of 2 on node-a: ValueError: no"),
    hub_messages.KernelGone("kernel-1"),
    hub_messages.RunNotice("kernel-1", "run-1", "failed", "cell", "0-1", 4.5, "no"),
    hub_messages.Control("1", "kernel-1", "stacks", {"ranks": "0"}),
    hub_messages.Answer("1", {"text": "idle"}),
    hub_messages.Watch("run-1", 3),
    hub_messages.Taken("run-1", 4),
    hub_messages.Unwatch("run-1"),
)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: message.type)
def test_a_message_survives_json(message: events.Event | requests.Request) -> None:
    assert decode(json.loads(json.dumps(encode(message)))) == message


def test_every_message_has_an_example_and_a_type_of_its_own() -> None:
    assert {type(example) for example in EXAMPLES} == set(Wire.__subclasses__())
    assert len({wire.type for wire in Wire.__subclasses__()}) == len(Wire.__subclasses__())


def test_a_newer_ranks_extra_field_is_left_out() -> None:
    lost = {"type": "rank_lost", "rank": 1, "at_s": 1.0, "new": 5, "fault": {"kind": "lost", "facts": {"new": 5}}}
    assert decode(lost) == events.RankLost(1, Fault("lost"), 1.0)


def test_every_message_can_be_read_without_its_defaults() -> None:
    lost = encode(events.OutputChunk("r", 0, "stdout", "x"))
    del lost["skipped_bytes"]
    assert decode(lost).skipped_bytes == 0
    assert any(f.name == "skipped_bytes" for f in fields(events.OutputChunk))


@pytest.mark.parametrize("content", [{}, {"type": "gossip"}])
def test_an_unknown_type_is_named(content: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"A message's type must be one of .*'run_cell'.*\. Received: "):
        decode(content)


def test_a_missing_field_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"A release message must have all its fields\. Received: \['run'\]\."):
        decode({"type": "release", "run": "run-1"})
