from __future__ import annotations

import json
import math
import re
from dataclasses import fields
from functools import reduce
from operator import or_
from typing import Any

import pytest
from whole_fault import FAULT

from jupyter_ddl.protocol import (
    events,
    hub_messages,
    rank_answers,
    rank_life,
    requests,
    script_frames,
    task_requests,
    value_requests,
)
from jupyter_ddl.protocol.cell_options import AutoOptions, CellOptions
from jupyter_ddl.protocol.codec import Wire, as_line, decode, encode
from jupyter_ddl.protocol.faults import Facts, Fault, Frame
from jupyter_ddl.protocol.host_topology import HostGpu, HostTopology, Interface

EXAMPLES = (
    rank_life.RankReady(1, 2, 1, "node-a", 4711, "GPU 1 (NVIDIA H200)", 8, uses_horovod=True),
    rank_life.RankWarm(0, {"tensorflow": "2.21.0"}, 3.5, "ImportError: no horovod"),
    events.RunStarted("run-1", (0, 2), 4, 1.5),
    events.OutputChunk("run-1", 0, "stderr", "é<script>\x1b[1m\r", 17),
    events.RichOutput("run-1", 0, "result", {"text/plain": "1"}, {"image/png": {"width": 3}}, "id"),
    events.OutputCleared("run-1", 0, wait=True),
    events.MetricsSample("run-1", 1, 2.0, 99.5, 2**30, n=3, step=7, steps=5, loss=0.5, metrics={"acc": 0.9}),
    events.EpochEnded("run-1", 0, 2.5, 1, 8, {"loss": 0.5, "val_loss": 0.25}, n=4),
    events.ParametersLogged("run-1", 1, {"epochs": 3, "rate": 0.5, "name": "x", "none": None, "is_on": True}),
    events.StragglerMarked("run-1", 1, 2.0, is_straggler=True, ratio=1.5, spends_on="input"),
    events.RankFinished("run-1", 0, 2.5, uses_horovod=True, horovod_runs=True),
    events.RankFailed("run-1", 0, "node-a", "ValueError", "no", ("line", "line"), released=True, at_s=2.0),
    rank_life.RankLost(None, FAULT, 3.0),
    rank_life.RankAlive(1, "run-1"),
    rank_life.RankSilent(1, 10.5, FAULT, 3.0),
    events.CollectiveStalled("run-1", 0, 3.0, 2.0, ("HorovodAllreduce",), {"1": ["HorovodAllreduce"]}, n=4),
    events.StallReported("run-1", (0, 1), 3.0, FAULT),
    rank_answers.RankStacks("look", 1, "node-a", ({"name": "MainThread", "frames": [["a.py", 3, "f", ""]]},), "a note"),
    rank_answers.RankProfile(
        "look", 1, "node-a", 500, 498, (Frame("a.py", 3, "f", "x"),), (-1,), (0,), (498,), "a note", "why"
    ),
    rank_answers.LookedUp("look", 0, {"data": {}, "found": False}),
    rank_answers.RankDebugged("look", 1, {"command": "threads", "success": True}),
    events.RankHeld("run-1", 1, 3.0, "ipykernel_1/2.py", 3, "<module>", n=8),
    rank_answers.HostDescribed(
        1,
        "node-a",
        HostTopology(
            (HostGpu(0, "NVIDIA H200", "00000000:1a:00.0", ("X",), "0", "0-31"),),
            None,
            (Interface("ib0", "10.1.0.1", 400_000, is_infiniband=True),),
        ),
    ),
    events.RunFinished("run-1", "failed", 0.25, FAULT),
    requests.RunCell("run-1", "1", (0, 1), True, "/runs/run-1"),
    requests.RunScript(
        "run-1", "/runs/run-1", "/pipes", 2, ("0", "1"), 4, CellOptions(auto=AutoOptions(warmup_epochs=1.5))
    ),
    script_frames.Connection("tcp://10.0.0.1:5555", "key", "token", 3),
    script_frames.Hello("token", 3, "node-a"),
    script_frames.RankEnded(3, "node-a", 4711, 2.0, -9, 1, asked=False),
    requests.PrepareHorovod("run-1"),
    requests.RestHorovod(),
    requests.Describe(),
    requests.Ping(),
    requests.Release("run-1", "interrupted"),
    requests.LookAtStacks("look"),
    requests.ProfileRank("look", 10.0, 50.0),
    requests.EndProfile("look"),
    requests.ReportStall(events.CollectiveStalled("run", 0, 1.0, 2.0, ("loss",), {"1": ["loss"]})),
    requests.LookUp("look", "inspect", "tf.ones", 3, 1),
    requests.DebugRank("look", {"command": "threads", "seq": 3}),
    requests.DescribeHost(),
    value_requests.PushValues("move", ("x", "y"), (1, 2)),
    value_requests.PullValue("move", "x"),
    value_requests.SaveVariables("move", "/folder"),
    value_requests.StageVariables("move", "/folder", ("lock",)),
    value_requests.UseVariables("move", True),
    value_requests.ValuesMoved("move", 1, "KeyboardInterrupt: ", "the panel"),
    task_requests.RunTask("serving", 3),
    task_requests.KeepArray("serving", "ddl-arrays-1", "0f"),
    task_requests.DropArrays("ddl-arrays-1"),
    task_requests.EndTasks("serving"),
    task_requests.TaskEnded("serving", 3, 1, "ValueError: no"),
    requests.ReleaseAsked("kernel-1", "the panel", 3.0),
    requests.HorovodAsked("run-1", 1),
    requests.CellRaised("run-1", 1),
    requests.EndAsked("kernel-1"),
    hub_messages.KernelState("kernel-1", 4700, None, "run-1", Fault("raised", ranks=(1,), text="no")),
    hub_messages.KernelGone("kernel-1"),
    hub_messages.RunNotice("kernel-1", "run-1", "failed", "cell", "0-1", 4.5, Fault("silent", ranks=(1,))),
    hub_messages.RunLabelled("run-1"),
    hub_messages.Control("1", "kernel-1", "stacks", {"ranks": "0"}),
    hub_messages.Answer("1", {"text": "idle"}),
    hub_messages.BoardAsked(run="run-1"),
    hub_messages.Watch("run-1", 3),
    hub_messages.Taken("run-1", 4),
    hub_messages.Unwatch("run-1"),
)


ALL: Any = reduce(or_, {type(example) for example in EXAMPLES})


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: message.type)
def test_a_message_survives_json(message: events.Event | requests.Request) -> None:
    assert decode(json.dumps(encode(message)), ALL) == decode(as_line(message), ALL) == message
    assert json.loads(as_line(message)) == encode(message)


def test_every_message_has_an_example_and_a_type_of_its_own() -> None:
    assert {type(example) for example in EXAMPLES} == set(Wire.__subclasses__())
    assert len({wire.type for wire in Wire.__subclasses__()}) == len(Wire.__subclasses__())


def test_a_newer_ranks_extra_field_is_left_out() -> None:
    lost = {"type": "rank_lost", "rank": 1, "at_s": 1.0, "new": 5, "fault": {"kind": "lost", "facts": {"new": 5}}}
    assert decode(lost, events.Event) == rank_life.RankLost(1, Fault("lost"), 1.0)


def test_every_message_can_be_read_without_its_defaults() -> None:
    lost = encode(events.OutputChunk("r", 0, "stdout", "x"))
    del lost["skipped_bytes"]
    assert decode(lost, events.Event).skipped_bytes == 0
    assert any(f.name == "skipped_bytes" for f in fields(events.OutputChunk))


@pytest.mark.parametrize("content", [{}, {"type": "gossip"}, {"type": "rank_alive", "rank": 1}])
def test_a_type_that_does_not_cross_the_border_is_named(content: dict[str, object]) -> None:
    for data in (content, json.dumps(content)):
        with pytest.raises(ValueError, match=r"A message's type must be one of .*'run_cell'.*\. Received: "):
            decode(data, requests.Request)


def test_a_missing_field_is_an_error() -> None:
    said = r"A release message must be what its class says\. Received: Object missing required field `reason`\."
    with pytest.raises(ValueError, match=said):
        decode({"type": "release", "run": "run-1"}, requests.Request)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"rank": "1"}, "Expected `int | null`, got `str` - at `$.rank`"),
        ({"rank": 1 << 63}, "Expected `int` <= 9223372036854775807 - at `$.rank`"),
        ({"fault": {"kind": "broken"}}, "Invalid enum value 'broken' - at `$.fault.kind`"),
        ({"fault": {"kind": "lost", "facts": {"waits": [{}]}}}, "field `tensors` - at `$.fault.facts.waits[0]`"),
    ],
)
def test_what_is_wrong_names_the_field(content: dict[str, object], said: str) -> None:
    lost = encode(rank_life.RankLost(1, Fault("lost"), 1.0)) | content
    for data in (lost, json.dumps(lost)):
        with pytest.raises(ValueError, match=re.escape(said)):
            decode(data, events.Event)


def test_words_stand_for_numbers_also_in_a_fault() -> None:
    lost = rank_life.RankLost(1, Fault("lost", at_s=math.inf, facts=Facts(seconds=-math.inf)), 1.0)
    assert decode(as_line(lost), events.Event) == lost
