"""How long a beginner's first minute takes, step by step, in JupyterLab in Chromium, with nothing but clicks and keys.

A new notebook with no magic: *Distributed*, two ranks, *Start*, *Insert as a cell*, and the training cell of the
example, made a cell of the ranks by the toolbar's switch. Then the example notebook itself, from the launcher's card.

Prints a JSON line for each way: the seconds of each step, and of all.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "browser"))

from lab import TOKEN, chromium, jupyterlab

from jupyter_ddl.server.example import notebook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab import Lab
    from playwright.sync_api import Page

TURNS = 3
LONG_MS = 180_000
SWITCH = ".jp-NotebookPanel-toolbar [data-command='jupyter-ddl:toggle-distributed']"
STATE = ".jp-Notebook .ddl-run-state"
TRAINS = f"{STATE}:has-text('training'), {STATE}:has-text('finished')"
IS_IDLE = "window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
ENDED = "![...document.querySelectorAll('.jp-Notebook .jp-InputPrompt')].some(one => one.textContent === '[*]:')"


class Steps:
    """The seconds of the steps so far, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step."""
        began_s = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - began_s, 2)


def main() -> None:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory(prefix="ddl-bench-") as folder, jupyterlab(Path(folder)) as lab:
        for _ in range(TURNS):
            for name, way in (("a new notebook", new_notebook), ("the launcher's card", card)):
                with chromium() as browser:
                    page = browser.new_page(viewport={"width": 1440, "height": 900})
                    page.goto(f"{lab.url}/lab?token={TOKEN}&reset")
                    page.wait_for_selector(".jp-Launcher .jp-LauncherCard", timeout=LONG_MS)
                    steps = Steps()
                    way(lab, page, steps)
                lab.end_kernels()
                total = round(sum(steps.seconds.values()), 2)
                told = {"benchmark": "first_minute", "way": name, "steps_s": steps.seconds, "all_s": total}
                print(json.dumps(told), flush=True)


def new_notebook(_: Lab, page: Page, steps: Steps) -> None:
    """Train in a new notebook, from the panel."""
    with steps.step("new notebook, until its kernel is idle"):
        page.locator(".jp-LauncherCard[data-category='Notebook']").filter(has_text="Python 3").first.click()
        page.wait_for_function(IS_IDLE, timeout=LONG_MS)
    with steps.step("Distributed: the form"):
        page.locator(".jp-SideBar [data-id='jupyter-ddl-panel']").click()
        panel = page.locator("#jupyter-ddl-panel")
        start = panel.get_by_role("button", name="Start ranks")
        start.wait_for()
    with steps.step("2 ranks, Start, until they are ready"):
        panel.get_by_label("Ranks", exact=True).and_(page.locator("input")).fill("2")
        start.click()
        panel.locator(".ddl-cluster-idle").wait_for(timeout=LONG_MS)
    with steps.step("Insert as a cell"):
        panel.get_by_role("button", name="Insert as a cell").click()
        page.locator(".jp-Notebook .jp-Cell").first.filter(has_text="%ddl start -n 2").wait_for()
    with steps.step("the cell's code, the switch"):
        page.locator(".jp-Notebook .jp-Cell").last.locator(".cm-content").click()
        page.keyboard.insert_text(training_code())
        page.locator(SWITCH).click()
        page.locator(f"{SWITCH}[aria-pressed='true']").wait_for()
    with steps.step("run, until the dashboard shows that it trains"):
        page.locator(".jp-Notebook .jp-Cell").last.locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
        page.locator(TRAINS).first.wait_for(timeout=LONG_MS)
    with steps.step("until it has trained"):
        page.locator(f"{STATE}:has-text('finished')").first.wait_for(timeout=LONG_MS)


def card(_: Lab, page: Page, steps: Steps) -> None:
    """Run the example notebook."""
    with steps.step("Distributed training, until its kernel is idle"):
        page.locator(".jp-LauncherCard").filter(has_text="Distributed training").first.click()
        page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell", timeout=LONG_MS)
        page.wait_for_function(IS_IDLE, timeout=LONG_MS)
    with steps.step("run all, until the dashboard shows that it trains"):
        page.locator(".lm-MenuBar-item").get_by_text("Run", exact=True).click()
        page.locator(".lm-Menu-item").get_by_text("Run All Cells", exact=True).click()
        page.locator(TRAINS).first.wait_for(timeout=LONG_MS)
    with steps.step("until all cells have run"):
        page.wait_for_function(ENDED, timeout=LONG_MS)
    assert page.locator(".jp-Notebook").get_by_text("of the points are on the right spiral").count() > 0


def training_code() -> str:
    """Return the example's cell that trains, without its magic."""
    sources = [str(cell["source"]) for cell in notebook()["cells"]]
    return next(source for source in sources if "model.fit" in source).partition("\n")[2]


if __name__ == "__main__":
    main()
