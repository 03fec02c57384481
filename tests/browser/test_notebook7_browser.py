"""What of the panel fits Notebook 7, which shows one notebook and no status bar."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from lab import jupyterlab
from panel import run_cell, start_here, training
from playwright.sync_api import expect
from servers import TOKEN

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

KNOWN = "def widely_known(rank_of_it):\n    'Known on the ranks.'\nimport os, time"
MARK = "document.querySelector('.jp-Notebook .jp-Cell').dataset.ddlMark"
SOURCE = "window.jupyterapp.shell.currentWidget.content.widgets[1].model.sharedModel.getSource()"


@pytest.mark.slow
@pytest.mark.skipif(find_spec("notebook") is None, reason="Notebook 7 is not installed: pip install notebook")
def test_in_notebook_7(tmp_path: Path, browser: Browser) -> None:
    with jupyterlab(tmp_path, module="notebook") as lab:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        lab.write("one.ipynb", training(tmp_path / "end").replace("import os, time", KNOWN), "widely_kn")
        page.goto(f"{lab.url}/notebooks/one.ipynb?token={TOKEN}")
        page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell", timeout=60_000)
        panel = start_here(lab, page)
        run_cell(page)
        panel.locator(".ddl-rank-rate").filter(has_text="/s").nth(1).wait_for(timeout=60_000)
        page.wait_for_function(f"{MARK} === '● 0-1'")
        # The dashboard is the hub's, and its lines are folded below it.
        page.locator(".ddl-run-output .ddl-run-state").filter(has_text="Training").wait_for(timeout=30_000)
        page.locator(".ddl-run-output .ddl-fold").filter(has_text="lines of output").wait_for(timeout=30_000)
        # Its pages come up below the notebook, one in front of the other.
        page.locator(".ddl-run-output .ddl-rank-tabs").get_by_role("tab", name="rank 1").click()
        page.locator(".ddl-run-output .ddl-rank-output").wait_for()
        # So does a console on a rank.
        panel.locator(".ddl-rank-row:not([hidden])").nth(1).click(button="right")
        page.locator(".lm-Menu-item").filter(has_text="Open a Console on Rank 1").click()
        page.locator("#jp-down-stack .ddl-rank-console .jp-CodeConsole-promptCell .cm-content").wait_for()
        panel.locator(".ddl-cluster .ddl-run-link").click()
        page.locator("#jp-down-stack .ddl-value").first.wait_for()
        panel.get_by_role("button", name="Stacks").click()
        page.locator("#jp-down-stack .ddl-place").first.wait_for(timeout=30_000)
        assert page.locator("#jp-down-stack .ddl-page:visible").count() == 1
        panel.get_by_role("button", name="Interrupt", exact=True).click()
        panel.locator(".ddl-cluster-idle").wait_for(timeout=30_000)
        page.wait_for_function(f"{MARK}.startsWith('◇ 0-1')")
        # So does the debugger, with the lines' gutters and the sidebar.
        panel.locator(".ddl-rank-row:not([hidden])").nth(1).click(button="right")
        page.locator(".lm-Menu-item").filter(has_text="Debug on Rank 1").click()
        page.locator(".cm-breakpoint-gutter").first.wait_for(timeout=30_000)
        page.locator(".jp-DebuggerSidebar:visible").wait_for()
        # It is in the toolbar's menu of what has no room.
        page.locator(".jp-DebuggerBugButton").first.dispatch_event("click")
        expect(page.locator(".cm-breakpoint-gutter")).to_have_count(0, timeout=30_000)
        page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".cm-content").click()
        page.locator(".jp-NotebookPanel-toolbar [data-command='jupyter-ddl:toggle-distributed']").click()
        page.wait_for_selector(".jp-Cell.ddl-distributed-cell:nth-child(2)")
        page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".cm-content").click()
        page.keyboard.press("Control+End")
        page.keyboard.press("Tab")
        page.locator(".jp-Completer-item").filter(has_text="widely_known").wait_for()
        page.keyboard.press("Enter")
        page.wait_for_function(f"{SOURCE} === '%%distributed\\nwidely_known'")
        page.keyboard.press("Shift+Tab")
        page.locator(".jp-Tooltip").filter(has_text="Known on the ranks.").wait_for()
        page.close()
