"""Ends that nobody tells: a kernel that is killed while its ranks train, and a run that ends while no page is open."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from panel import run_cell, show_panel, start_ranks, training
from servers import TOKEN

from jupyter_ddl.runs.store import newest_first

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Page

MARK = "document.querySelector('.jp-Notebook .jp-Cell').dataset.ddlMark"
IN_CELL = ".jp-Notebook .ddl-run-output .ddl-run-state"
SVG = "jupyter-ddl-final-state"
COUNT = ".jp-Notebook .ddl-run-output .ddl-count"


def pictures(lab: Lab, name: str) -> list[str]:
    """Return the pictures of runs in the saved notebook."""
    found = [str(output.get("data", {}).get("image/svg+xml", "")) for output in lab.outputs(name)]
    return [svg for svg in found if SVG in svg]


def reload(lab: Lab, page: Page, name: str) -> None:
    lab.wait_until_restorable(page, name)
    page.reload()
    page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell", timeout=60_000)


def test_a_run_goes_on_under_its_cell_when_the_page_is_loaded_again_and_leaves_its_picture(
    lab: Lab, page: Page, tmp_path: Path
) -> None:
    end = tmp_path / "end"
    start_ranks(lab, page, "reload.ipynb", training(end))
    run_cell(page)
    page.locator(IN_CELL).filter(has_text="Training").wait_for(timeout=60_000)
    lab.save(page)
    assert pictures(lab, "reload.ipynb") == []
    reload(lab, page, "reload.ipynb")
    page.locator(IN_CELL).filter(has_text="Training").wait_for(timeout=30_000)
    before = page.locator(COUNT).inner_text()
    page.wait_for_function(f"before => document.querySelector('{COUNT}').textContent !== before", arg=before)
    end.touch()
    page.locator(IN_CELL).filter(has_text="finished").wait_for(timeout=60_000)
    page.wait_for_function(f"{MARK}?.startsWith('✓ 0-1')", timeout=30_000)
    outputs = "window.jupyterapp.shell.currentWidget.content.widgets?.[0]?.model.outputs"
    page.wait_for_function(f"{outputs}?.toJSON().some(one => JSON.stringify(one).includes('{SVG}'))", timeout=30_000)
    lab.save(page)
    assert len(pictures(lab, "reload.ipynb")) == 1
    # A copy has the same cells, and none of them ran there.
    (lab.folder / "copied.ipynb").write_bytes((lab.folder / "reload.ipynb").read_bytes())
    lab.open(page, "copied.ipynb")
    page.locator(IN_CELL).filter(has_text="finished").wait_for(timeout=30_000)
    page.wait_for_selector(".jp-Cell.ddl-distributed-cell")
    page.wait_for_timeout(500)
    assert page.evaluate(MARK) is None


def test_a_run_that_ends_while_no_page_is_open_is_told_when_one_is(lab: Lab, page: Page, tmp_path: Path) -> None:
    end = tmp_path / "end"
    start_ranks(lab, page, "closed.ipynb", training(end))
    run_cell(page)
    page.wait_for_function(f"{MARK} === '● 0-1'", timeout=30_000)
    page.locator(IN_CELL).filter(has_text="Training").wait_for(timeout=60_000)
    lab.save(page)
    lab.wait_until_restorable(page, "closed.ipynb")
    url = page.url
    page.goto("about:blank")
    end.touch()
    until_s = time.monotonic() + 60
    while next(newest_first()).state == "running":
        assert time.monotonic() < until_s, "the run must end"
        time.sleep(0.2)
    page.goto(url if "token" in url else f"{url}?token={TOKEN}")
    page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell", timeout=60_000)
    page.wait_for_function(f"{MARK}?.startsWith('✓ 0-1 0:')", timeout=30_000)
    page.locator(IN_CELL).filter(has_text="finished").wait_for(timeout=30_000)


def test_a_run_whose_kernel_is_killed_is_cut_off_wherever_it_is_shown(lab: Lab, page: Page, tmp_path: Path) -> None:
    panel = start_ranks(lab, page, "cut.ipynb", training(tmp_path / "end"), "import os; print('pid', os.getpid())")
    page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1")
    run_cell(page)
    told = page.locator(".jp-OutputArea-output").filter(has_text="pid ")
    told.wait_for(timeout=30_000)
    pid = int(told.inner_text().split()[1])
    page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0")
    run_cell(page)
    page.locator(IN_CELL).filter(has_text="Training").wait_for(timeout=60_000)
    panel.locator(".ddl-run-row").first.get_by_text("running").wait_for(timeout=30_000)
    page.add_locator_handler(page.locator(".jp-Dialog"), lambda: page.keyboard.press("Escape"))
    os.kill(pid, signal.SIGKILL)
    # At once, without the list being asked for again.
    panel.locator(".ddl-run-row").first.get_by_text("cut off").wait_for(timeout=30_000)
    page.wait_for_function(f"{MARK} === '○ 0-1'", timeout=30_000)
    page.locator(IN_CELL).filter(has_text="cut off").wait_for(timeout=30_000)
    notice = page.locator(".Toastify__toast").filter(has_text="The kernel ended during this run")
    assert "cut.ipynb" in notice.inner_text()
    notice.get_by_role("button", name="Open").click()
    shown = page.locator(".ddl-page .ddl-run-state")
    shown.filter(has_text="cut off").wait_for(timeout=30_000)
    assert page.locator(".ddl-page .ddl-counts").inner_text().replace("\n", " ").strip() == "⌀ 2 lost"
    # Those who look later are told the same.
    page.evaluate("window.jupyterapp.shell.activateById(document.querySelector('.jp-NotebookPanel').id)")
    outputs = "window.jupyterapp.shell.currentWidget.content.widgets?.[0]?.model.outputs"
    page.wait_for_function(f"{outputs}?.toJSON().some(one => JSON.stringify(one).includes('{SVG}'))", timeout=30_000)
    lab.save(page)
    assert "cut off" in pictures(lab, "cut.ipynb")[0]
    reload(lab, page, "cut.ipynb")
    show_panel(page)
    page.wait_for_function(f"{MARK} === '○ 0-1'", timeout=30_000)
    page.locator(IN_CELL).filter(has_text="cut off").wait_for(timeout=30_000)
