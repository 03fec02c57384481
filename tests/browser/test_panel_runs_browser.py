"""The list of runs while runs begin and end elsewhere, and a fault beside the next cell."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
import recorded
from lab import command
from panel import PANEL, axe_findings, search_runs, show_panel
from playwright.sync_api import expect
from told_kernel import ToldKernel, rank

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Locator, Page, Route

ACTIVE = "window.jupyterapp.shell.currentWidget.content?.activeCell?.model.id"
CELL = "window.jupyterapp.shell.currentWidget.content.widgets[0].model.id"
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
    # Each day has a heading.
    for count, days in ((50, 1), (100, 2), (150, 2), (200, 3), (250, 3), (260, 3)):
        page.wait_for_function(f"{height} === {count} * 42 + {days} * 26")
        body.evaluate("list => { list.scrollTop = list.scrollHeight; }")
    body.evaluate("list => { list.scrollTop = list.scrollHeight; }")
    last = panel.locator(".ddl-run-row:not([hidden])").filter(has=page.get_by_title("manyruns-0000"))
    last.wait_for()
    for name in ("manyruns-0000", "manyruns-0001"):
        panel.get_by_role("checkbox", name=name).check()
    compare = panel.get_by_role("button", name="Compare", exact=True)
    assert compare.is_enabled()
    top = "document.querySelector('.ddl-run-list').scrollTop"
    before = page.evaluate(top)
    begun = recorded.record("2026-11-15T02-00-00-manyruns-beef", 2, 5)
    with ToldKernel(lab, "list") as kernel:
        kernel.notice(begun.name)
        page.wait_for_function(f"{height} === 261 * 42 + 4 * 26")
        # What was in sight is, below one more, and its day.
        assert page.evaluate(top) == before + 42 + 26
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
    assert axe_findings(page, PANEL) == []
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
        assert axe_findings(page, PANEL) == []
        kernel.notice(hung.name, "interrupted", cell_id="cell-2", seconds=9.0)
        kernel.tell(ranks)
        toasts.filter(has_text=stall).wait_for(state="detached")
        box.wait_for(state="hidden")
        page.locator(".ddl-status.ddl-has-fault").wait_for(state="detached")


def test_a_name_has_its_line_where_the_list_is_narrow(lab: Lab, page: Page) -> None:
    name, given = "2026-11-09T02-00-00-narrowed-4a13", "a tenth of the rate"
    record_of_cell(name, lab.folder / "shared.ipynb", "no-such-cell")
    panel = show_panel(page)
    search_runs(panel, "narrowed", 1)
    row = panel.locator(".ddl-run-row").filter(has=page.get_by_title(name))
    label(page, row, "Rename…", given)
    row.get_by_text(f"{given} · shared.ipynb").wait_for()
    page.evaluate(f"document.querySelector('{PANEL}').style.width = '270px'")
    expect(row.locator(".ddl-run-word")).to_have_css("position", "absolute")
    right = row.locator(".ddl-run-title").evaluate(RIGHT_END_OF, len(given))
    assert right <= row.locator(".ddl-run-title").evaluate("title => title.getBoundingClientRect().right")
    # Below it, and whole.
    for part in (".ddl-rank-rate", ".ddl-rank-place"):
        assert row.locator(part).evaluate("part => part.scrollWidth <= part.clientWidth"), part
    assert row.evaluate("row => row.scrollHeight <= row.clientHeight")
    page.evaluate(f"document.querySelector('{PANEL}').style.width = ''")


# Where the first characters of an element's text end, in pixels.
RIGHT_END_OF = """(element, count) => {
  const text = document.createRange();
  text.setStart(element.firstChild, 0);
  text.setEnd(element.firstChild, count);
  return text.getBoundingClientRect().right;
}"""


def record_of_cell(name: str, notebook: Path, cell: str) -> None:
    """Record a run of a notebook's cell."""
    file = recorded.record(name, 2, 5) / "run.json"
    told = {"notebook": str(notebook), "cell_id": cell, "cell_number": 7}
    file.write_text(json.dumps(json.loads(file.read_text()) | told))


def choose(page: Page, row: Locator, item: str) -> None:
    """Choose from a run's menu."""
    row.get_by_title("More for this run").click()
    page.locator(".lm-Menu-item").get_by_text(item, exact=True).click()


def label(page: Page, row: Locator, item: str, text: str) -> None:
    """Write a label in the dialog that a run's menu opens."""
    choose(page, row, item)
    page.locator(".jp-Dialog").get_by_role("textbox").fill(text)
    page.locator(".jp-Dialog").get_by_role("button", name="Save").click()


def test_a_run_is_named_tagged_filtered_reported_and_leads_back_to_its_cell(lab: Lab, page: Page) -> None:
    named, gone = "2026-11-08T02-00-00-labelled-4a11", "2026-11-08T02-00-01-labelled-4a12"
    record_of_cell(named, lab.folder / "shared.ipynb", page.evaluate(CELL))
    record_of_cell(gone, lab.folder / "gone.ipynb", "no-such-cell")
    panel = show_panel(page)
    search_runs(panel, "labelled", 2)
    row = panel.locator(".ddl-run-row").filter(has=page.get_by_title(named))
    label(page, row, "Rename…", "x" * 101)
    # What the server refuses can be mended.
    page.locator(".jp-Dialog").get_by_text("A run's name is one line of at most 100").wait_for()
    page.locator(".jp-Dialog").get_by_role("textbox").fill("small batch")
    page.locator(".jp-Dialog").get_by_role("button", name="Save").click()
    row.get_by_text("small batch · shared.ipynb [7]").wait_for()
    label(page, row, "Tags…", "paper mnist")
    row.get_by_text("paper, mnist").wait_for()
    label(page, row, "Note…", "a tenth of the rate")
    filter_runs(page, panel)

    # Back to the cell, from another one.
    command(page, "notebook:insert-cell-below")
    assert page.evaluate(f"{ACTIVE} !== {CELL}")
    choose(page, row, "Go to its cell")
    page.wait_for_function(f"{ACTIVE} === {CELL}")
    search_runs(panel, "labelled", 2)
    other = panel.locator(".ddl-run-row").filter(has=page.get_by_title(gone))
    choose(page, other, "Go to its cell")
    panel.get_by_text("The notebook was deleted, moved or renamed since:").wait_for()
    # Its name is there again, without the cell.
    lab.write("gone.ipynb", "1")
    choose(page, other, "Go to its cell")
    page.locator(TOAST).get_by_text("cell was deleted from this notebook").wait_for()
    panel.get_by_text("The notebook was deleted, moved or renamed since:").wait_for(state="hidden")
    see_and_download_the_report(page, other)
    assert axe_findings(page, PANEL) == []
    command(page, "jupyter-ddl:open-run", run=named)
    labels = page.locator(".ddl-page .ddl-run-labels")
    shown = "small batch · shared.ipynb [7] · paper, mnist · a tenth of the rate"
    expect(labels).to_contain_text(shown, timeout=30_000)


def filter_runs(page: Page, panel: Locator) -> None:
    """Filter by what is written, and by the menu of what there is."""
    search_runs(panel, "tag:paper state:fin labelled", 1)
    panel.locator(".ddl-run-count").get_by_text(re.compile("^1 of ")).wait_for()
    search = panel.get_by_label("Search runs")
    search.fill("tag:p")
    offered = "document.querySelector('.ddl-run-search datalist').options[0]?.value"
    page.wait_for_function(f"{offered} === 'tag:paper'")
    search_runs(panel, "tag:paper state:failed", 0)
    panel.get_by_role("button", name="Clear the search").click()
    assert search.input_value() == ""
    panel.get_by_role("button", name="Filter runs").click()
    page.locator(".lm-Menu-item").get_by_text("Tag", exact=True).hover()
    page.locator(".lm-Menu-item").get_by_text("mnist (1)").click()
    assert search.input_value() == "tag:mnist"
    search_runs(panel, "tag:mnist", 1)


def see_and_download_the_report(page: Page, row: Locator) -> None:
    """See what is in it, which changes with the code, and get the file; another test has the server make one."""

    def answer(route: Route) -> None:
        with_code = json.loads(route.request.post_data or "{}")["with_code"]
        names = ("run.json", "cell.py") if with_code else ("run.json",)
        parts = [{"name": name, "bytes": 2048, "note": "what it is"} for name in names]
        # "zip" in base64.
        route.fulfill(json={"file": "ddl-report.zip", "parts": parts, "zip": "emlw"})

    page.route("**/jupyter-ddl/runs/*/report*", answer)
    choose(page, row, "Report…")
    dialog = page.locator(".jp-Dialog")
    dialog.get_by_role("row").filter(has_text="run.json").get_by_text("2.05 kB").wait_for()
    assert dialog.get_by_text("cell.py").count() == 0
    dialog.get_by_role("checkbox").check()
    dialog.get_by_text("cell.py").wait_for()
    assert axe_findings(page, ".jp-Dialog") == []
    with page.expect_download() as found:
        dialog.get_by_role("button", name="Download").click()
    assert found.value.suggested_filename == "ddl-report.zip"
    assert found.value.path().read_bytes() == b"zip"
    page.unroute("**/jupyter-ddl/runs/*/report*")
