"""A fault with all kinds of facts."""

from __future__ import annotations

from jupyter_ddl.protocol.faults import Facts, Fault, Frame, LastSample, RankProcess, Remedy, StackPlace, Thread, Wait

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
        places=(StackPlace((1,), ("node-a",), (Thread("MainThread", (Frame("a.py", 3, "f"),)),), "a note"),),
    ),
)
