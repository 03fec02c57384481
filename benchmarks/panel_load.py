"""What the panel adds to JupyterLab's start: the same page with the extension and without it, by turns.

- `wall_ms`: from the request until JupyterLab has restored its layout, in a browser with an empty cache.
- `main_ms`: what the page's main thread did until then.

Prints a JSON line, and exits with 1 if either is more with the panel by over the aim's share.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "browser"))

from lab import TOKEN, chromium, jupyterlab

if TYPE_CHECKING:
    from lab import Lab
    from playwright.sync_api import Browser

TURNS = 15
AIM = 0.05
EXTENSION = "jupyter-ddl"


def main() -> None:
    """Run the benchmark."""
    figures: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    with tempfile.TemporaryDirectory(prefix="ddl-bench-") as name, jupyterlab(Path(name)) as lab, chromium() as browser:
        page_config = Path(name) / "config" / "labconfig" / "page_config.json"
        before = json.loads(page_config.read_text())
        for turn in range(TURNS + 1):
            for has_panel in (turn % 2 == 0, turn % 2 == 1):
                disabled = before["disabledExtensions"] | ({} if has_panel else {EXTENSION: True})
                page_config.write_text(json.dumps({"disabledExtensions": disabled}))
                measured = load(browser, lab, has_panel=has_panel)
                if turn > 0:
                    # The first turn fills the server's caches.
                    figures[has_panel].append(measured)
    parts = {name: summary(figures, at) for at, name in enumerate(("wall_ms", "main_ms"))}
    print(json.dumps({"benchmark": "panel_load", "turns": TURNS, "aim": AIM, **parts}), flush=True)
    sys.exit(int(max(part["added"] for part in parts.values()) > AIM))


def summary(figures: dict[bool, list[tuple[float, float]]], at: int) -> dict[str, float]:
    """Return one figure without the panel, and the share that the panel adds; turn by turn, as the load changes."""
    without = [measured[at] for measured in figures[False]]
    more = [measured[at] - before for measured, before in zip(figures[True], without, strict=True)]
    usual = statistics.median(without)
    return {"without": round(usual, 1), "added": round(statistics.median(more) / usual, 4)}


def load(browser: Browser, lab: Lab, *, has_panel: bool) -> tuple[float, float]:
    """Return how long JupyterLab took to come up, and how long its main thread was busy, in milliseconds."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.enable")
    began_s = time.monotonic()
    page.goto(f"{lab.url}/lab?token={TOKEN}&reset")
    page.wait_for_function("window.jupyterapp?.restored.then(() => true)", timeout=120_000)
    wall_ms = (time.monotonic() - began_s) * 1000
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    there = page.evaluate("window.jupyterapp.hasPlugin('jupyter-ddl:panel')")
    assert there == has_panel, f"the panel must be loaded where it is measured. Received: {there}"
    context.close()
    return wall_ms, metrics["TaskDuration"] * 1000


if __name__ == "__main__":
    main()
