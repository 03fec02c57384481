"""The list of runs while runs begin and end elsewhere, and a fault beside the next cell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import recorded
from panel import PANEL, serious, show_panel
from told_kernel import ToldKernel, rank

if TYPE_CHECKING:
    from lab import Lab
    from playwright.sync_api import Page

KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id"
TOAST = ".Toastify__toast"


@pytest.fixture
def page(notebook: Page) -> Page:
    """The notebook that all tests share."""
    return notebook


def make_runs(count: int) -> None:
    for at in range(count):
        name = f"2026-10-0{1 + at // 100}T02-{at // 60 % 60:02d}-{at % 60:02d}-manyruns-{at:04x}"
        folder = recorded.paths.runs_dir() / name
        folder.mkdir(parents=True, exist_ok=True)
        content = {"run": name, "ranks": [0, 1], "world_size": 2, "outcome": "finished", "seconds": at}
        (folder / "run.json").write_text(json.dumps(content))


def test_a_run_that_begins_leaves_the_list_where_it_is_and_what_is_chosen_chosen(lab: Lab, page: Page) -> None:
    make_runs(260)
    panel = show_panel(page)
    # A list of all runs has as many rows at first as the one that is searched for, and gives way to it.
    panel.get_by_label("Search runs").fill("no such run")
    panel.get_by_text("No run has that in it.").wait_for()
    panel.get_by_label("Search runs").fill("manyruns")
    body = panel.locator(".ddl-run-list")
    height = "document.querySelector('.ddl-run-list .ddl-space').offsetHeight"
    page.wait_for_function(f"{height} === 50 * 42")
    for count in (100, 150, 200, 250, 260):
        body.evaluate("list => { list.scrollTop = list.scrollHeight; }")
        page.wait_for_function(f"{height} === {count} * 42")
    body.evaluate("list => { list.scrollTop = list.scrollHeight; }")
    last = panel.locator(".ddl-run-row:not([hidden])").filter(has=page.get_by_title("manyruns-0000"))
    last.wait_for()
    for name in ("manyruns-0000", "manyruns-0001"):
        panel.get_by_role("checkbox", name=name).check()
    compare = panel.get_by_role("button", name="Compare")
    assert compare.is_enabled()
    top = "document.querySelector('.ddl-run-list').scrollTop"
    before = page.evaluate(top)
    begun = recorded.record("2026-11-15T02-00-00-manyruns-beef", 2, 5)
    with ToldKernel(lab, "list") as kernel:
        kernel.notice(begun.name)
        page.wait_for_function(f"{height} === 261 * 42")
        # What was in sight is, below one more.
        assert page.evaluate(top) == before + 42
        assert panel.get_by_role("checkbox", name="manyruns-0000").is_checked()
        assert compare.is_enabled()
        # One that is further down ends.
        changed = recorded.paths.runs_dir() / "2026-10-01T02-00-00-manyruns-0000"
        content = json.loads((changed / "run.json").read_text())
        (changed / "run.json").write_text(json.dumps({**content, "outcome": "stalled"}))
        kernel.notice(changed.name, "stalled", seconds=2.0)
        last.get_by_text("stalled").wait_for()
    # Another search shows other runs, and lets nothing go.
    panel.get_by_label("Search runs").fill("no such run")
    panel.get_by_text("No run has that in it.").wait_for()
    assert serious(page, PANEL) == []
    panel.get_by_label("Search runs").fill("manyruns-0001")
    panel.get_by_role("checkbox", name="manyruns-0001").wait_for()
    assert panel.get_by_role("checkbox", name="manyruns-0001").is_checked()
    assert compare.is_enabled()


def test_a_fault_is_notified_once_and_a_stall_goes_with_its_run(lab: Lab, page: Page) -> None:
    panel = show_panel(page)
    toasts = page.locator(TOAST)
    failed = recorded.record("2026-11-14T02-00-00-default-fa17", 2, 5)
    hung = recorded.record("2026-11-14T02-00-01-default-4096", 2, 5, over=False)
    with ToldKernel(lab, "once") as kernel:
        ranks = [rank(0), rank(1)]
        kernel.tell(ranks)
        panel.locator(".ddl-cluster").wait_for()
        # In both orders, with a cell and without one.
        for at, cell in enumerate(("cell-1", None)):
            fault = f"Rank 1 of 2 on node7: ValueError: no such file {at}"
            kernel.notice(failed.name, "failed", fault=fault, cell_id=cell, seconds=2.0)
            kernel.tell(ranks, fault=fault)
            toasts.filter(has_text=f"no such file {at}").wait_for()
            panel.locator(".ddl-cluster .ddl-fault-box").filter(has_text=f"no such file {at}").wait_for()
        page.wait_for_timeout(500)
        assert toasts.count() == 2
        assert toasts.get_by_role("button", name="Open").count() == 2
        # The next cell hangs: the panel says so, and nothing of the old fault.
        kernel.notice(hung.name, cell_id="cell-2")
        running = [rank(0, state="running"), rank(1, state="running")]
        kernel.tell(running, state="running", run=hung.name)
        panel.locator(".ddl-cluster .ddl-fault-box").wait_for(state="hidden")
        stall = "The cell has stalled: not every rank has entered alone: rank 0 waits in it for rank 1."
        kernel.tell(running, state="running", run=hung.name, fault=stall)
        box = panel.locator(".ddl-cluster .ddl-fault-box")
        box.filter(has_text=stall).wait_for()
        assert panel.get_by_role("button", name="Show where the ranks are").is_visible()
        page.locator(".ddl-status.ddl-has-fault").filter(has_text=stall).wait_for()
        toasts.filter(has_text=stall).get_by_role("button", name="Stacks").wait_for()
        assert serious(page, PANEL) == []
        kernel.notice(hung.name, "interrupted", cell_id="cell-2", seconds=9.0)
        kernel.tell(ranks)
        toasts.filter(has_text=stall).wait_for(state="detached")
        box.wait_for(state="hidden")
        page.locator(".ddl-status.ddl-has-fault").wait_for(state="detached")
