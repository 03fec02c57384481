"""What a control takes from the browser to the kernel and back, while the kernel spins in pure Python.

A real Jupyter server with the hub, two kernels of it with a rank each, and a WebSocket as a browser has one. The
control is an interrupt, which goes on to the rank; that is idle, so it changes nothing there. One kernel's main thread
runs `while True: pass` in a cell, which keeps Python's lock but for its switches; the other kernel is idle. Round trips
to the two take turns in batches.

The aim is of the spinning kernel's 95th percentile, as a part of AIM_MS. Beside it, not judged: its median, and both
kernels' figures against each other, since a spinning kernel must cost a control no more than some of Python's switch
intervals (5 ms each).
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "ranks" / "hub"))

from hub_server import Server
from servers import Notebook

from benchmarks.harness import Row, report, rounds

if TYPE_CHECKING:
    from collections.abc import Iterator

AIM_MS = 50.0
ROUNDS = 9
TRIPS = 100


def main() -> None:
    """Run the benchmark."""
    with folders() as folder, Server(folder) as hub, kernel(hub, "spinning") as spinning, kernel(hub, "idle") as idle:
        spinning.send("while True: pass")
        sides = {"spinning": lambda: trips(hub, spinning), "idle": lambda: trips(hub, idle)}
        figures = rounds(sides, ROUNDS, show=lambda times_ms: f"p95 {p95(times_ms):.1f} ms")
        hub.request("POST", f"/api/kernels/{spinning.id}/interrupt", body="")
    tails = {side: tuple(map(p95, batches)) for side, batches in figures.items()}
    medians = {side: tuple(map(statistics.median, batches)) for side, batches in figures.items()}
    report(
        "hub_latency",
        [Row(f"p95 of {AIM_MS:g} ms", tails["spinning"], (AIM_MS,) * ROUNDS, "ms")],
        aim=1.0,
        better="lower",
        also=[
            Row("p95, spinning over idle", tails["spinning"], tails["idle"], "ms"),
            Row("p50, spinning over idle", medians["spinning"], medians["idle"], "ms"),
        ],
    )


def trips(hub: Server, notebook: Notebook) -> list[float]:
    """Ask TRIPS times; return milliseconds of each."""
    times_ms = []
    with hub.browser() as browser:
        browser.wait_for("kernel_state", kernel=notebook.id)
        for number in range(TRIPS):
            control: dict[str, Any] = {"id": str(number), "kernel": notebook.id, "do": "interrupt", "arguments": {}}
            text = json.dumps({"type": "control", **control})
            began_s = time.perf_counter()
            browser.socket.send(text)
            answer = browser.wait_for("answer", id=str(number))
            times_ms.append((time.perf_counter() - began_s) * 1000)
            assert answer["error"] is None, answer["error"]
    return times_ms


def p95(times_ms: list[float]) -> float:
    """Return the 95th percentile."""
    return statistics.quantiles(times_ms, n=20)[-1]


@contextmanager
def folders() -> Iterator[Path]:
    """Hold folders of this benchmark's own."""
    with tempfile.TemporaryDirectory(prefix="ddl-bench-") as folder:
        os.environ |= {"JUPYTER_DDL_RUNTIME": f"{folder}/ranks", "JUPYTER_DDL_RUNS": f"{folder}/runs"}
        yield Path(folder)


@contextmanager
def kernel(hub: Server, name: str) -> Iterator[Notebook]:
    """Hold a kernel with one rank."""
    notebook = Notebook(hub)
    try:
        notebook.do("%load_ext jupyter_ddl")
        notebook.do(f"%ddl start -n 1 --gpus none --name bench-{name}", timeout_s=180)
        notebook.do("%%distributed\nimport tensorflow", timeout_s=180)
        yield notebook
    finally:
        notebook.delete()


if __name__ == "__main__":
    main()
