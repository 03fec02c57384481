"""A training from the panel's form to its end, with a real server, a real kernel and real ranks.

And ends that no event reports: a kernel that is killed while its ranks train, and a run that ends while no page is
open.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from typing import TYPE_CHECKING

import pytest
from lab import command
from panel import START_MS, ask_kernel, leave_out_tensorflow, run_cell, show_panel, start_here, training
from servers import TOKEN

from jupyter_ddl.runs.store import newest_first
from jupyter_ddl.views.run_output import RUN_MIME

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Locator, Page

NAME = "shared.ipynb"
MARK = "document.querySelector('.jp-Notebook .jp-Cell').dataset.ddlMark"
IN_CELL = ".jp-Notebook .ddl-run-output .ddl-run-state"
SVG = "jupyter-ddl-final-state"
FOLD = ".jp-Notebook .ddl-run-output .ddl-fold"
COUNT = ".jp-Notebook .ddl-run-output .ddl-count"


# Brings a notebook that is open to the front.
SHOW = """path => {
  const { shell } = window.jupyterapp;
  shell.activateById([...shell.widgets('main')].find(one => one.context?.path === path).id);
}"""
OUTPUTS = "window.jupyterapp.shell.currentWidget.content.widgets?.[0]?.model.outputs"
LEFT = f"{OUTPUTS}?.toJSON().some(one => JSON.stringify(one).includes('{SVG}'))"


@pytest.fixture
def page(notebook: Page) -> Page:
    """The notebook that all tests share."""
    return notebook


@pytest.fixture
def panel(lab: Lab, page: Page, tmp_path_factory: pytest.TempPathFactory) -> Locator:
    """The panel, with the 2 ranks of the notebook that all tests share; they are started where there are none."""
    shown = show_panel(page)
    if shown.locator(".ddl-cluster").count() == 0:
        lab.wait_until_idle(page)
        leave_out_tensorflow(page, tmp_path_factory.mktemp("without"))
        start_here(lab, page)
    shown.locator(".ddl-cluster-idle").wait_for(timeout=START_MS)
    return shown


def pictures(lab: Lab, name: str = NAME) -> list[str]:
    """Return the pictures of runs in the saved notebook."""
    found = [str(output.get("data", {}).get("image/svg+xml", "")) for output in lab.outputs(name)]
    return [svg for svg in found if SVG in svg]


def reload(lab: Lab, page: Page) -> None:
    lab.wait_until_restorable(page, NAME)
    page.reload()
    page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell", timeout=60_000)


def train(lab: Lab, page: Page, end: Path) -> None:
    """Run a cell that trains until a file is there, and wait until it does."""
    lab.set_code(page, training(end))
    run_cell(page)
    page.locator(IN_CELL).filter(has_text="Training").wait_for(timeout=60_000)


# The first one: it starts the ranks.
def test_ranks_start_from_the_form_and_train(lab: Lab, page: Page, tmp_path: Path) -> None:
    end = tmp_path / "end"
    lab.set_code(page, training(end))
    lab.wait_until_idle(page)
    leave_out_tensorflow(page, tmp_path)
    panel = show_panel(page)
    ranks = panel.get_by_label("Ranks", exact=True).and_(page.locator("input"))
    start = panel.get_by_role("button", name="Start ranks")
    ranks.fill("two")
    assert panel.locator("#ddl-fault-ranks").inner_text() == "Ranks must be a whole number of at least 1."
    assert start.is_disabled()
    ranks.fill("2")
    assert panel.locator(".ddl-start-line").inner_text() == "%ddl start -n 2"
    assert panel.locator(".ddl-start-runs").inner_text() == "Runs in shared.ipynb:"
    start.click()
    rows = panel.locator(".ddl-rank-row:not([hidden])")
    rows.nth(1).wait_for(timeout=START_MS)
    panel.locator(".ddl-cluster-idle").wait_for(timeout=START_MS)
    assert panel.locator(".ddl-cluster-name").inner_text() == "default"
    assert panel.locator(".ddl-cluster-count").inner_text().strip() == "· 2 ranks"
    assert panel.locator(".ddl-start").is_hidden()
    run_cell(page)
    rates = panel.locator(".ddl-rank-rate")
    rates.filter(has_text="/s").first.wait_for(timeout=60_000)
    status = page.locator(".ddl-status-button")
    status.filter(has_text="samples/s").wait_for()
    told = {status.inner_text()}
    page.wait_for_function("told => document.querySelector('.ddl-status-button').textContent !== told", arg=told.pop())
    assert re.fullmatch(r"2 ranks · [\d,]+ samples/s", status.inner_text())
    mark = "document.querySelector('.jp-Notebook .jp-Cell').dataset.ddlMark"
    page.wait_for_function(f"{mark} === '● 0-1'")
    end.touch()
    page.wait_for_function(f"/^✓ 0-1 \\d[\\d.]* s$/.test({mark})", timeout=60_000)
    panel.locator(".ddl-run-row").first.get_by_text("finished").wait_for()
    # The ranks end with their kernel, and what ran is still there.
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    panel.locator(".ddl-start").wait_for(timeout=60_000)
    assert panel.locator(".ddl-cluster").count() == 0
    panel.locator(".ddl-run-row").first.get_by_text("finished").wait_for()
    lab.wait_until_idle(page)


def opened(lab: Lab, page: Page, name: str, notebook: str) -> Locator:
    """Write a notebook, and bring it to the front."""
    (lab.folder / name).write_text(notebook)
    command(page, "docmanager:open", path=name)
    page.evaluate(SHOW, name)
    return page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")


@pytest.mark.usefixtures("panel")
def test_a_run_goes_on_under_its_cell_when_the_page_is_loaded_again_and_leaves_its_picture(
    lab: Lab, page: Page, tmp_path: Path
) -> None:
    end = tmp_path / "end"
    # It prints before its first step.
    lab.set_code(page, training(end).replace("for step", "print('begin')\ntime.sleep(0.5)\nfor step"))
    run_cell(page)
    page.locator(IN_CELL).filter(has_text="Training").wait_for(timeout=60_000)
    fold = page.locator(FOLD)
    fold.filter(has_text=re.compile(r"^\d+ lines of output$")).wait_for(timeout=30_000)
    told = fold.inner_text()
    page.wait_for_function(f"told => document.querySelector('{FOLD}').textContent !== told", arg=told)
    text = page.locator(".jp-Notebook .jp-OutputArea-child").filter(has_text="[0-1] begin")
    assert text.is_hidden()
    fold.press("Enter")
    assert "of rank 1" in text.inner_text()
    assert text.evaluate("text => text.previousElementSibling.querySelector('.ddl-dashboard') !== null")
    lab.save(page)
    assert pictures(lab) == []
    reload(lab, page)
    page.locator(IN_CELL).filter(has_text="Training").wait_for(timeout=30_000)
    before = page.locator(COUNT).inner_text()
    page.wait_for_function(f"before => document.querySelector('{COUNT}').textContent !== before", arg=before)
    end.touch()
    page.locator(IN_CELL).filter(has_text="finished").wait_for(timeout=60_000)
    page.wait_for_function(f"{MARK}?.startsWith('✓ 0-1')", timeout=30_000)
    page.wait_for_function(LEFT, timeout=30_000)
    lab.save(page)
    assert len(pictures(lab)) == 1
    # All in the output that the dashboard had, and the lines after it.
    first, second = (output["data"] for output in lab.outputs(NAME))
    assert list(first) == [RUN_MIME, "image/svg+xml", "text/plain"]
    assert second["text/plain"].startswith("[0-1] begin\n")
    # A copy has the same cells, and none of them ran there; its kernel has not heard of the run, as on the next day.
    copy = opened(lab, page, "copied.ipynb", (lab.folder / NAME).read_text())
    copy.locator(".ddl-run-output .ddl-run-state").filter(has_text="finished").wait_for(timeout=30_000)
    assert copy.get_by_text("[0-1] begin").is_hidden()
    cell = copy.locator(".jp-Cell.ddl-distributed-cell")
    cell.wait_for()
    page.wait_for_timeout(500)
    assert cell.get_attribute("data-ddl-mark") is None
    shutil.rmtree(next(newest_first()).path)
    kept = opened(lab, page, "kept.ipynb", (lab.folder / NAME).read_text())
    kept.get_by_text("This server does not have the run").wait_for(timeout=30_000)
    kept.locator(f"svg.{SVG}, img[src*='{SVG}']").wait_for()
    assert kept.get_by_text("[0-1] begin").is_visible()
    assert kept.locator(".ddl-dashboard, .ddl-fold").count() == 0
    # What came from elsewhere is not trusted: no picture, and nothing of it is markup or a path.
    hostile = (lab.folder / NAME).read_text().replace(first[RUN_MIME]["run"], "../<img src=x onerror='window.pwned=1'>")
    foreign = opened(lab, page, "foreign.ipynb", hostile)
    foreign.get_by_text("This server does not have the run").wait_for(timeout=30_000)
    foreign.get_by_text("finished after").wait_for()
    assert foreign.locator(".ddl-run-output :is(svg, img)").count() == 0
    assert page.evaluate("window.pwned") is None


@pytest.mark.usefixtures("panel")
def test_a_run_that_ends_while_no_page_is_open_is_told_when_one_is(lab: Lab, page: Page, tmp_path: Path) -> None:
    end = tmp_path / "end"
    train(lab, page, end)
    page.wait_for_function(f"{MARK} === '● 0-1'", timeout=30_000)
    lab.save(page)
    lab.wait_until_restorable(page, NAME)
    url = page.url
    page.goto("about:blank")
    end.touch()
    until_s = time.monotonic() + 60
    while next(newest_first()).state == "running":
        assert time.monotonic() < until_s, "the run must end"
        time.sleep(0.2)
    page.goto(url if "token" in url else f"{url}?token={TOKEN}")
    page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell", timeout=60_000)
    page.wait_for_function(f"{MARK}?.startsWith('✓ 0-1 ')", timeout=30_000)
    page.locator(IN_CELL).filter(has_text="finished").wait_for(timeout=30_000)
    show_panel(page).locator(".ddl-cluster-idle").wait_for(timeout=30_000)


def test_a_run_whose_kernel_is_killed_is_cut_off_wherever_it_is_shown(
    lab: Lab, page: Page, panel: Locator, tmp_path: Path
) -> None:
    pid = int(ask_kernel(page, "import os; print(os.getpid())"))
    train(lab, page, tmp_path / "end")
    panel.locator(".ddl-run-row").first.get_by_text("running").wait_for(timeout=30_000)
    os.kill(pid, signal.SIGKILL)
    # JupyterLab says so, some seconds later. While it does, no click brings another page to the front.
    dialog = page.locator(".jp-Dialog").filter(has_text="Kernel Restarting")
    dialog.wait_for(timeout=30_000)
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    # At once, without the list being asked for again.
    panel.locator(".ddl-run-row").first.get_by_text("cut off").wait_for(timeout=30_000)
    page.wait_for_function(f"{MARK} === '○ 0-1'", timeout=30_000)
    page.locator(IN_CELL).filter(has_text="cut off").wait_for(timeout=30_000)
    notice = page.locator(".Toastify__toast").filter(has_text="The kernel ended during this run")
    assert NAME in notice.inner_text()
    notice.get_by_role("button", name="Open").click()
    shown = page.locator(".ddl-page .ddl-run-state")
    shown.filter(has_text="cut off").wait_for(timeout=30_000)
    assert page.locator(".ddl-page .ddl-counts").inner_text().replace("\n", " ").strip() == "⌀ 2 lost"
    # A page that is loaded later shows the same.
    page.evaluate("window.jupyterapp.shell.activateById(document.querySelector('.jp-NotebookPanel').id)")
    page.wait_for_function(LEFT, timeout=30_000)
    lab.save(page)
    assert "cut off" in pictures(lab)[0]
    reload(lab, page)
    show_panel(page)
    page.wait_for_function(f"{MARK} === '○ 0-1'", timeout=30_000)
    page.locator(IN_CELL).filter(has_text="cut off").wait_for(timeout=30_000)
