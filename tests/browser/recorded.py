"""Events of runs of any size, the same at each call: what the browser tests and the benchmark feed to a dashboard."""

from __future__ import annotations

import json
import math
import os
import random
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil

from jupyter_ddl import paths
from jupyter_ddl.protocol.codec import encode
from jupyter_ddl.protocol.events import (
    EpochEnded,
    MetricsSample,
    OutputChunk,
    RankFailed,
    RankFinished,
    RunFinished,
    RunStarted,
    StragglerMarked,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.views.view import View

RUN = "2026-11-22T02-00-00-default-3f9c"
BEGAN_S = 1_700_000_000.0
MODEL = "Sequential, 106,234 parameters, batch 128"
SLOW = 5
EPOCHS, EPOCH_STEPS = 12, 100
HOSTILE = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script> \x1b[31mred\x1b[0m \x00\x07 <b>bold</b>'


def started(ranks: int) -> RunStarted:
    return RunStarted(RUN, tuple(range(ranks)), ranks, BEGAN_S)


def second(ranks: int, at: int, *, gpu: bool = True) -> Iterator[Event]:
    """Return what all ranks tell in the second `at` of the run, from 1."""
    noise = random.Random(at)
    for rank in range(ranks):
        slow = 1.6 if rank == SLOW and at > 20 else 1.0
        own_s = 0.095 * slow * noise.uniform(0.97, 1.03)
        step_s = 0.12 * noise.uniform(0.98, 1.02) + (0.06 if at > 20 else 0)
        input_s = 0.01 + (0.05 if slow > 1 else 0)
        step = at * 8
        yield MetricsSample(
            RUN,
            rank,
            BEGAN_S + at + rank % 7 * 0.05,
            180 + 10 * noise.random(),
            int((2.5 + 0.1 * noise.random()) * 2**30),
            model=MODEL,
            step=step,
            steps=8,
            epoch=step // EPOCH_STEPS,
            epochs=EPOCHS if rank == 0 else None,
            epoch_part=step % EPOCH_STEPS / EPOCH_STEPS if rank == 0 else None,
            samples_per_s=128 / step_s,
            step_s=step_s,
            step_p50_s=step_s,
            step_p95_s=step_s * 1.2,
            input_s=input_s,
            exchange_s=max(0.0, step_s - own_s),
            loss=2.3 * math.exp(-step / 200) + 0.05 + 0.02 * noise.random(),
            metrics={"accuracy": 1 - 0.9 * math.exp(-step / 150)}
            | ({"val_loss": 0.1 + 2.3 * math.exp(-step / 180)} if at % 10 == 0 else {}),
            gpu_pct=min(100.0, 80 + 15 * noise.random()) if gpu else None,
            gpu_memory_used_bytes=int((40 + rank % 3) * 2**30) if gpu else None,
            gpu_memory_total_bytes=141 * 2**30 if gpu else None,
            n=2 * at,
        )
        yield OutputChunk(RUN, rank, "stdout", f"step {step} loss {2.3 * math.exp(-step / 200):.4f}\n", n=2 * at + 1)
    if at == 30 and ranks > SLOW:
        yield StragglerMarked(RUN, SLOW, BEGAN_S + at, is_straggler=True, ratio=1.6, spends_on="input")


def _metrics(step: int, at: int) -> dict[str, float]:
    metrics = {"accuracy": 1 - 0.9 * math.exp(-step / 150)}
    if at % 10 == 0:
        metrics["val_loss"] = 0.1 + 2.3 * math.exp(-step / 180)
    return metrics


def ended(ranks: int, seconds: int, *, fails: bool = False) -> Iterator[Event]:
    at_s = BEGAN_S + seconds
    for rank in range(ranks):
        if fails:
            kind, text = ("ValueError", "bad <batch>") if rank == 3 else ("HorovodInternalError", "shut down")
            traceback = ("Traceback (most recent call last):\n", '  File "cell", line 3\n', f"{kind}: {text}")
            yield RankFailed(RUN, rank, "node-a", kind, text, traceback, rank != 3, at_s)
        else:
            yield RankFinished(RUN, rank, at_s)
    yield RunFinished(RUN, "failed" if fails else "finished", float(seconds))


def run(ranks: int, seconds: int, *, fails: bool = False, gpu: bool = True) -> Iterator[Event]:
    """Return a whole run."""
    yield started(ranks)
    yield OutputChunk(RUN, 0, "stderr", f"{HOSTILE}\n", n=1)
    for at in range(1, seconds + 1):
        yield from second(ranks, at, gpu=gpu)
    yield from ended(ranks, seconds, fails=fails)


def epoch(at: int, slower: float) -> EpochEnded:
    """Return what the epoch came to that ends in the second `at` of the run: each has ten seconds."""
    step = 8 * at
    loss = {"loss": slower * 2.3 * math.exp(-step / 200), "val_loss": slower * (0.1 + 2.3 * math.exp(-step / 180))}
    accuracy = {"accuracy": 1 - 0.9 * math.exp(-step / 150), "val_accuracy": 1 - 0.9 * math.exp(-step / 120)}
    return EpochEnded(RUN, 0, BEGAN_S + at + 0.5, at // 10 - 1, step, loss | accuracy)


def record(
    name: str,
    ranks: int,
    seconds: int,
    *,
    slower: float = 1.0,
    fails: bool = False,
    over: bool = True,
    parameters: dict[str, float] | None = None,
) -> Path:
    """Write a run's folder as a kernel would; one that is not `over` goes on in this process.

    Args:
        name: the run's id.
        ranks: how many.
        seconds: its length.
        slower: by how much its steps take longer, and its losses are greater.
        fails: a rank raises.
        over: it has ended.
        parameters: what it was given; its epochs are recorded where they are known.
    """
    folder = paths.runs_dir() / name
    folder.mkdir(parents=True)
    (folder / "cell.py").write_text(f"model.fit(x, y, batch_size=128, epochs=12)\nslower = {slower}\n")
    began_s = time.time() - seconds
    outcome = {"outcome": "failed" if fails else "finished", "seconds": seconds} if over else {}
    content = {
        "run": name,
        "start_s": began_s,
        "ranks": list(range(ranks)),
        "world_size": ranks,
        "devices": {str(rank): f"GPU {rank % 8} (NVIDIA H200)" for rank in range(ranks)},
        "threads": 4,
        "samples_per_s": ranks * 128 / 0.12 / slower,
        "loss": 0.21 * slower,
        "model": MODEL,
        "session": {"pid": os.getpid(), "host": socket.gethostname(), "started_s": psutil.Process().create_time()},
        **outcome,
        **({} if parameters is None else {"parameters": parameters}),
    }
    (folder / "run.json").write_text(json.dumps(content))
    lines = []
    for event in run(ranks, seconds, fails=fails):
        moved = {"at_s": event.at_s - BEGAN_S + began_s} if hasattr(event, "at_s") else {}
        if isinstance(event, MetricsSample):
            assert event.samples_per_s is not None
            assert event.loss is not None
            moved |= {"samples_per_s": event.samples_per_s / slower, "loss": event.loss * slower}
            at = round(event.at_s - BEGAN_S)
            if parameters is not None and event.rank == 0 and at % 10 == 0:
                ended_s = began_s + at + 0.5
                lines.append(json.dumps(encode(replace(epoch(at, slower), run=name, at_s=ended_s))) + "\n")
        if over or not isinstance(event, RankFinished | RankFailed | RunFinished):
            lines.append(json.dumps(encode(replace(event, run=name, **moved))) + "\n")
    (folder / "events.jsonl").write_text("".join(lines))
    for rank in range(ranks):
        text = "".join(f"step {8 * at} loss {2.3 * math.exp(-8 * at / 200):.4f}\n" for at in range(1, seconds + 1))
        (folder / f"rank-{rank}.log").write_text(text)
    return folder


def append(folder: Path, *events: Event) -> None:
    """Have a run that is not over go on: its page shows what comes."""
    with (folder / "events.jsonl").open("a") as file:
        for event in events:
            named = replace(event, run=folder.name) if hasattr(event, "run") else event
            file.write(json.dumps(encode(named)) + "\n")


class Kept:
    """Hands events to a view, and writes them into the run's folder, as a kernel does: the panel has them from the hub.

    Runs on: the kernel whose run it is.
    """

    def __init__(self, view: View, ranks: int) -> None:
        self._view = view
        self._file = (record(RUN, ranks, 0, over=False) / "events.jsonl").open("w")

    def handle(self, event: Event) -> None:
        self._view.handle(event)
        self._file.write(json.dumps(encode(event)) + "\n")

    def tick(self, now_s: float) -> None:
        self._view.tick(now_s)
        self._file.flush()

    def flush(self) -> None:
        self.tick(time.monotonic())


def feed(view: View, ranks: int, seconds: int, pace_s: float = 1.0, past: int = 0, enough: Path | None = None) -> None:
    """Let a view see a run as it happens: `past` seconds at once, and then a second of it every `pace_s`.

    It ends earlier once the file `enough` is there.
    """
    view.handle(started(ranks))
    view.handle(OutputChunk(RUN, 0, "stderr", f"{HOSTILE}\n", n=1))
    for at in range(1, seconds + 1):
        if enough is not None and enough.exists():
            break
        events = list(second(ranks, at))
        began_s = time.monotonic()
        handled = 0
        while handled < len(events):
            # Ranks tell of themselves at their own times, spread over the second.
            passed = 1.0 if at <= past else (time.monotonic() - began_s) / pace_s
            due = min(len(events), int(passed * len(events)))
            for event in events[handled:due]:
                view.handle(event)
            handled = due
            if at > past:
                view.tick(time.monotonic())
                time.sleep(0.05)
    # The last of it goes out, too.
    until_s = time.monotonic() + 0.6
    while time.monotonic() < until_s:
        view.tick(time.monotonic())
        time.sleep(0.05)
