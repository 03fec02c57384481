"""What both languages hold of events.py and hub_messages.py: a JSON schema and examples of each. Run by `make schema`.

The Python classes are the one definition; TypeScript's types, and what it checks of them, are written too. All of it is
committed, and a test in each language reads it.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from json_schema import schema
from typescript import event_fields_ts, events_ts, hub_ts

from jupyter_ddl.protocol import events, hub_messages, rank_answers, rank_life
from jupyter_ddl.protocol.codec import encode
from jupyter_ddl.protocol.faults import (
    Facts,
    Fault,
    Frame,
    LastSample,
    RankProcess,
    Remedy,
    StackPlace,
    Thread,
    Wait,
)
from jupyter_ddl.protocol.host_topology import HostGpu, HostTopology, Interface
from jupyter_ddl.views.fault import in_short
from jupyter_ddl.views.run_output import log_mark, run_bundle

HERE = Path(__file__).resolve().parent
SCHEMA = HERE / "events.schema.json"
FIXTURE = HERE / "events.fixture.json"
TYPES = HERE.parent / "src" / "model" / "events.ts"
FIELDS = TYPES.with_name("event_fields.ts")
HUB_TYPES = HERE.parent / "src" / "model" / "hub_messages.ts"
HUB_SCHEMA = HERE / "hub.schema.json"
HUB_FIXTURE = HERE / "hub.fixture.json"
OUTPUT_FIXTURE = HERE / "run_output.fixture.json"

LOST = Fault(
    "lost",
    "rank",
    (1,),
    "node-a",
    1_700_000_005.0,
    "out of memory killer",
    facts=Facts(world_size=2, pid=4711, signum=9, oom_kills=1, last=LastSample(0.5, 2**30, 2**33, 2**36, 7)),
)
RAISED = Fault("raised", "ranks", (1,), "node-a", 1.5, facts=Facts(world_size=2, error="ValueError", message="no"))
SILENT = Fault("silent", "rank", (1,), "node-a", facts=Facts(processes=(RankProcess(1, "stopped", 4711, "node-a"),)))
_PLACE = StackPlace(
    (1,), ("node-a",), (Thread("MainThread", (Frame("ipykernel_1/2.py", 3, "<module>", "pass"),)),), "idle"
)
STALLED = Fault("stalled", ranks=(0, 1), facts=Facts(seconds=5.0, waits=(Wait(("loss",), (1,)),), places=(_PLACE,)))

# Each class at least once: with all its fields, and with its defaults where it has some.
EXAMPLES: tuple[events.Event, ...] = (
    rank_life.RankReady(1, 2, 1, "node-a", 4711, "GPU 1 (NVIDIA H200)", 8, uses_horovod=True),
    rank_life.RankReady(0, 2, 0, "node-a", 4710, "CPU", 2),
    rank_life.RankWarm(0, {"tensorflow": "2.21.0", "keras": "3.12.0"}, 3.5, "ImportError: no horovod"),
    rank_life.RankWarm(1, {}, 3.25),
    events.RunStarted("run-1", (0, 1), 2, 1_700_000_000.5),
    events.OutputChunk("run-1", 0, "stdout", "Epoch 1\n 1/4 \r 2/4 \r", n=1),
    events.OutputChunk("run-1", 1, "stderr", "é<script>alert(1)</script>\x1b[1mbold\x1b[0m\n", 17, 1),
    events.RichOutput("run-1", 0, "result", {"text/plain": "1"}, {"image/png": {"width": 3}}, "id", 2),
    events.OutputCleared("run-1", 0, wait=True, n=3),
    events.MetricsSample("run-1", 0, 1_700_000_001.0, 12.5, 2**30),
    events.MetricsSample(
        "run-1",
        1,
        1_700_000_002.0,
        99.5,
        2**30,
        model="Sequential, 106,234 parameters, batch 128",
        step=7,
        steps=5,
        epoch=0,
        samples_per_s=1000.0,
        step_s=0.128,
        step_p50_s=0.125,
        step_p95_s=0.25,
        input_s=0.01,
        exchange_s=0.02,
        loss=0.5,
        metrics={"accuracy": 0.9},
        gpu_pct=87.5,
        gpu_memory_used_bytes=2**33,
        gpu_memory_total_bytes=2**36,
        gpu_watts=310.5,
        gpu_celsius=61.0,
        epochs=3,
        epoch_part=0.25,
        nvlink_received_bytes_per_s=45e9,
        nvlink_sent_bytes_per_s=44e9,
        network_received_bytes_per_s=1.25e9,
        network_sent_bytes_per_s=1.2e9,
        fabric_received_bytes_per_s=24e9,
        fabric_sent_bytes_per_s=23.5e9,
        n=4,
    ),
    # JSON has neither: both cross as words.
    events.MetricsSample(
        "run-1",
        0,
        1_700_000_002.5,
        50.0,
        2**30,
        step=8,
        steps=1,
        samples_per_s=math.inf,
        step_s=-math.inf,
        loss=math.nan,
        metrics={"auc": math.nan, "learning_rate": math.inf, "gap": -math.inf},
    ),
    events.EpochEnded("run-1", 0, 1_700_000_003.0, 2, 24, {"loss": 0.25, "val_loss": math.inf}, is_last=True, n=5),
    events.ParametersLogged("run-1", 0, {"epochs": 3, "learning_rate": 0.01, "optimizer": "Adam"}, n=5),
    events.ParametersLogged("run-1", 1, {}),
    events.StragglerMarked("run-1", 1, 1_700_000_003.0, is_straggler=True, ratio=1.5, spends_on="input"),
    events.RankFinished("run-1", 0, 1_700_000_004.0, uses_horovod=True, horovod_runs=True, n=5),
    events.RankFailed(
        "run-1", 1, "node-a", "ValueError", "no", ("Traceback", "ValueError: no"), False, 1_700_000_004.0, n=6
    ),
    rank_life.RankLost(None, Fault("lost", "mpiexec", facts=Facts(status=213, output="no slots")), 1_700_000_005.0),
    rank_life.RankLost(1, LOST, 1_700_000_005.0),
    rank_life.RankAlive(0),
    rank_life.RankAlive(1, "run-1"),
    rank_life.RankSilent(1, 10.5, SILENT, 1_700_000_005.0),
    rank_life.RankSilent(1, 0.0, None, 1_700_000_006.0, is_back=True),
    events.CollectiveStalled("run-1", 0, 1_700_000_005.0, 2.0, ("HorovodAllreduce",), {"1": ["HorovodAllreduce"]}, n=7),
    events.StallReported("run-1", (0, 1), 1_700_000_005.0, STALLED),
    rank_answers.RankStacks(
        "look-1",
        1,
        "node-a",
        ({"name": "MainThread", "frames": [["ipykernel_1/2.py", 3, "<module>", "hvd.allreduce(x)"]]},),
        "it held Python's lock",
    ),
    rank_answers.RankStacks("look-1", 0, "node-a", ()),
    rank_answers.RankProfile(
        "look-3",
        1,
        "node-a",
        500,
        498,
        (Frame("ipykernel_1/2.py", 3, "<module>", "hvd.allreduce(x)"), Frame("x/mpi_ops.py", 130, "_allreduce")),
        (-1, 0),
        (0, 1),
        (8, 490),
        "ended after 2 s: the run was released",
    ),
    rank_answers.RankProfile("look-3", 0, "node-a", problem="another profile is being taken"),
    rank_answers.LookedUp("look-2", 0, {"matches": ["keras"], "start": 3, "end": 6}),
    rank_answers.RankDebugged("look-4", 1, {"command": "threads", "success": True, "body": {"threads": []}}),
    events.RankHeld("run-1", 1, 1_700_000_005.0, "ipykernel_1/2.py", 3, "<module>", n=8),
    events.RankHeld("run-1", 1, 1_700_000_006.0),
    rank_answers.HostDescribed(
        0,
        "node-a",
        HostTopology(
            (HostGpu(0, "NVIDIA H200", "00000000:1a:00.0", ("X",), "0", "0-31"),),
            None,
            (Interface("ib0", "10.1.0.1", 400_000, is_infiniband=True), Interface("eth0", "10.0.0.1", None)),
        ),
    ),
    rank_answers.HostDescribed(1, "node-b", HostTopology((), "NVML finds none", ())),
    events.RunFinished("run-1", "lost", 4.5, replace(LOST, remedy=Remedy("replaced", 2, 1))),
    events.RunFinished("run-1", "failed", 4.5),
)

_RUN = "2026-11-20T18-03-07-default-3f9c"
_RANKS: list[hub_messages.RankState] = [
    {"rank": 0, "local_rank": 0, "host": "node-a", "pid": 4710, "device": "CPU", "threads": 2, "state": "running"},
    {"rank": 1, "local_rank": 1, "host": "node-a", "pid": 4711, "device": "CPU", "threads": 2, "state": "silent"},
]
_CLUSTER: hub_messages.ClusterState = {
    "name": "default",
    "state": "running",
    "note": "2 ranks on 4 cores",
    "step": None,
    "world_size": 2,
    "ranks": _RANKS,
    "ends_at_s": 1767182640.0,
    "idle_ends_at_s": 1767182700.0,
    "keeps_variables": True,
    "job": "Slurm job 12",
    "held": "Rank 1 is held in the debugger, at line 3 of a cell.",
}
HUB_EXAMPLES: tuple[hub_messages.HubMessage, ...] = (
    hub_messages.KernelState("kernel-1", 4700),
    hub_messages.KernelState("kernel-1", 4700, whole_notebook=True),
    hub_messages.KernelState("kernel-1", 4700, _CLUSTER, _RUN, replace(RAISED, text="Rank 1 of 2: <b>no</b>")),
    hub_messages.KernelState("kernel-1", 4700, {**_CLUSTER, "state": "starting", "step": "starting", "ranks": []}),
    hub_messages.KernelGone("kernel-1"),
    hub_messages.RunNotice("kernel-1", _RUN, "running", "9e8a-cell", "0-1"),
    hub_messages.RunNotice("kernel-1", _RUN, "failed", "9e8a-cell", "0-1", 4.5, in_short(RAISED)),
    hub_messages.RunLabelled(_RUN),
    hub_messages.Control("1", "kernel-1", "interrupt", {}),
    hub_messages.Control("2", "kernel-1", "stacks", {"ranks": "0,2-3"}),
    hub_messages.Control("4", "kernel-1", "profile", {"seconds": 10}),
    hub_messages.Control("5", "kernel-1", "debug", {"rank": 1, "message": {"command": "threads", "seq": 3}}),
    hub_messages.Control("3", "kernel-1", "complete", {"code": "tf.ker", "cursor": 6}),
    hub_messages.BoardAsked("/home/ada/logs"),
    hub_messages.BoardAsked(run=_RUN),
    hub_messages.Answer("1"),
    hub_messages.Answer("3", {"matches": ["keras"], "start": 3, "end": 6}),
    hub_messages.Answer("2", None, "A control must be for a kernel that runs. Received: kernel-1. Start it."),
    hub_messages.Watch(_RUN),
    hub_messages.Watch(_RUN, 17),
    hub_messages.Taken(_RUN, 18),
    hub_messages.Unwatch(_RUN),
)


def files() -> dict[Path, str]:
    """Return what each of the files must hold."""
    kinds, messages = get_args(events.Event), get_args(hub_messages.HubMessage)
    return {
        SCHEMA: _json(schema(kinds, "An event of jupyter_ddl", "events.py")),
        FIXTURE: _json([encode(example) for example in EXAMPLES]),
        TYPES: events_ts(kinds),
        FIELDS: event_fields_ts(kinds),
        HUB_SCHEMA: _json(schema(messages, "A message between kernel, hub and browser", "hub_messages.py")),
        HUB_TYPES: hub_ts(),
        HUB_FIXTURE: _json([encode(example) for example in HUB_EXAMPLES]),
        OUTPUT_FIXTURE: _json(_outputs()),
    }


def _outputs() -> dict[str, Any]:
    """Return what a run's outputs carry: while it runs, the final state, once it is over, and the mark of lines."""
    final = {"image/svg+xml": "<svg/>", "text/plain": "rank  state"}
    return {
        "run": _RUN,
        "running": run_bundle(_RUN, "widget-1"),
        "final": final,
        "over": run_bundle(_RUN, final=final),
        "mark": log_mark(_RUN, 12),
    }


def _json(content: Any) -> str:
    return json.dumps(content, indent=1) + "\n"


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
        sys.stdout.write(f"{path.name}\n")
