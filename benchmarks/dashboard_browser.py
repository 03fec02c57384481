"""What an update of the dashboard costs the browser: CPU time of the page's main thread, in JupyterLab in Chromium.

A kernel feeds a run of 8, 64 or 1,024 ranks at one sample a rank and second, with 50,000 log lines already there; the
dashboard is updated twice a second. As in every JupyterLab with the panel, its events come from the hub, and the
kernel's widget gets the same. Chromium's own trace says what the main thread does from one update to the next, while
nobody inspects the page (`unwatched_chromium`):

- `total`: CPU time of all its tasks. JupyterLab's message handling, its timers and the garbage collector are in it, and
  reading, drawing, style, layout and paint. What the same page uses without a dashboard is told beside it, and not
  taken off. This is what the aim is for.
- `longest`: of its longest single task, which is what could make typing or scrolling wait.

Prints a JSON line for each number of ranks, and exits with 1 if one misses the aim.
"""

from __future__ import annotations

import bisect
import json
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "browser"))

from lab import jupyterlab

from benchmarks.unwatched_chromium import unwatched_chromium

if TYPE_CHECKING:
    from lab import Lab

    from benchmarks.unwatched_chromium import UnwatchedChromium

RANKS = (8, 64, 1024)
UPDATES = 240
# The first updates compile code and make charts; and V8 collects twice in the half minute after a page was loaded.
WARM = 60
SETTLE_S = 3.0
INTERVAL_S = 0.5
AIM_MS = 12.0
LOG_LINES = 50_000
CODE = """
import recorded
from jupyter_ddl.protocol.events import OutputChunk
from jupyter_ddl.views.dashboard import Dashboard
from jupyter_ddl.views.publish import JupyterPublisher
dashboard = recorded.Kept(Dashboard(JupyterPublisher(get_ipython()), single_rank=lambda _: 1100.0), {ranks})
for at in range({lines} // 100):
    text = "".join(f"a line of the log, number {{at * 100 + line:6d}}\\n" for line in range(100))
    dashboard.handle(OutputChunk(recorded.RUN, at % {ranks}, "stdout", text))
recorded.feed(dashboard, {ranks}, 10_000, past=60)
"""


def main() -> None:
    """Run the benchmark."""
    missed = False
    with tempfile.TemporaryDirectory(prefix="ddl-bench-") as name:
        folder = Path(name)
        places = {"JUPYTER_DDL_RUNS": str(folder / "runs"), "JUPYTER_DDL_RUNTIME": str(folder / "runtime")}
        with jupyterlab(folder, more=places) as lab:
            for ranks in RANKS:
                line = measure(lab, folder, ranks)
                missed = missed or line["total_ms"]["p95"] >= AIM_MS
                print(json.dumps(line), flush=True)
    sys.exit(int(missed))


def measure(lab: Lab, folder: Path, ranks: int) -> dict[str, Any]:
    """Return the figures of one number of ranks."""
    name = f"ranks{ranks}.ipynb"
    lab.write(name, CODE.format(ranks=ranks, lines=LOG_LINES))
    with unwatched_chromium(folder / f"chromium{ranks}") as browser:
        with browser.page() as page:
            lab.open(page, name)
            lab.wait_until_idle(page)
        time.sleep(SETTLE_S)
        idle = traced(browser, 10.0)
        with browser.page() as page:
            lab.run_all(page)
            page.wait_for_selector(".ddl-dashboard .ddl-value", timeout=120_000)
            page.locator(".ddl-log").scroll_into_view_if_needed()
        time.sleep(WARM * INTERVAL_S)
        busy = traced(browser, UPDATES * INTERVAL_S)
        with browser.page() as page:
            lines = page.locator(".ddl-count").inner_text()
    lab.end_kernels()
    # The next one's events are of a run of the same name.
    shutil.rmtree(folder / "runs")
    updates = by_update(busy)
    assert len(updates) > UPDATES * 0.7, f"it must have been updated twice a second. Received: {len(updates)} times"
    totals = [sum(tasks) for tasks in updates]
    longest = [max(tasks) for tasks in updates]
    return {
        "benchmark": "dashboard_browser",
        "ranks": ranks,
        "updates": len(updates),
        "log": lines,
        "aim_ms": AIM_MS,
        "total_ms": {"median": median(totals), "p95": p95(totals)},
        "longest_ms": {"median": median(longest), "p95": p95(longest)},
        "without_dashboard_ms": round(sum(ms for _, ms in idle.tasks) / 10.0 * INTERVAL_S, 2),
    }


@dataclass
class Trace:
    """The tasks of the page's main thread, as (begin in ms, CPU ms), and when batches came."""

    tasks: list[tuple[float, float]]
    batches: list[float]


def traced(browser: UnwatchedChromium, seconds: float) -> Trace:
    """Return what the page's main thread does in so many seconds."""
    events = browser.trace(seconds, ["__metadata", "toplevel", "blink.user_timing"])
    mains = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in events:
        thread = event["pid"], event["tid"]
        if event["name"] == "ThreadControllerImpl::RunTask" and event["ph"] == "X" and thread in mains:
            tasks.setdefault(thread, []).append((event["ts"] / 1000, event.get("tdur", 0) / 1000))
    # Chromium keeps a renderer in reserve, which does next to nothing.
    page_tasks = max(tasks.values(), key=lambda own: sum(ms for _, ms in own))
    batches = [event["ts"] / 1000 for event in events if event["name"] == "ddl-batch"]
    return Trace(sorted(page_tasks), sorted(batches))


def by_update(trace: Trace) -> list[list[float]]:
    """Return the CPU times of the tasks of each update: from a batch's task to the next one's."""
    begins = [begin for begin, _ in trace.tasks]
    # The task that a batch came in began before the mark in it.
    edges = [max(0, bisect.bisect_right(begins, at) - 1) for at in trace.batches]
    return [[ms for _, ms in trace.tasks[begin:end]] for begin, end in pairwise(edges) if end > begin]


def median(values: list[float]) -> float:
    """Return the median, to a hundredth."""
    return round(statistics.median(values), 2)


def p95(values: list[float]) -> float:
    """Return the 95th percentile, to a hundredth."""
    return round(statistics.quantiles(values, n=20)[-1], 2)


if __name__ == "__main__":
    main()
