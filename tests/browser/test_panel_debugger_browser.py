"""JupyterLab's debugger on one of a notebook's ranks: real ranks, in Chromium."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from panel import START_MS, leave_out_tensorflow, run_cell, show_panel, start_here
from playwright.sync_api import expect

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Locator, Page

CELL = """%%distributed
def twice(value):
    doubled = 2 * value
    return doubled

own = twice(rank + 20)
print('own', own)"""
OUTPUT = ".jp-Notebook .jp-OutputArea-output"
SIDEBAR = ".jp-DebuggerSidebar"
LEFT_MS = 30_000
# The place in the gutter beside a line of the first cell.
_GUTTER = """line => {
  const cell = document.querySelector('.jp-Notebook .jp-CodeCell');
  const lines = [...cell.querySelectorAll('.cm-line')];
  const gutter = cell.querySelector('.cm-breakpoint-gutter').getBoundingClientRect();
  const at = lines[line - 1].getBoundingClientRect();
  return [gutter.x + gutter.width / 2, at.y + at.height / 2];
}"""


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
        folder: Path = tmp_path_factory.mktemp("without")
        leave_out_tensorflow(page, folder)
        start_here(lab, page)
    shown.locator(".ddl-cluster-idle").wait_for(timeout=START_MS)
    return shown


def choose(page: Page, panel: Locator, rank: int, label: str) -> None:
    """Choose from the menu of a rank's row."""
    panel.locator(".ddl-rank-row:not([hidden])").nth(rank).click(button="right")
    page.locator(".lm-Menu-item").filter(has_text=label).click()
    page.locator(f"{SIDEBAR}:visible").wait_for()


def press(page: Page, command: str) -> None:
    """Press one of the sidebar's buttons."""
    page.locator(f"{SIDEBAR} [data-command='debugger:{command}']").first.click()


def end_debugging(page: Page) -> None:
    """Press the notebook's own button."""
    page.locator(".jp-NotebookPanel:visible .jp-DebuggerBugButton").first.click()
    expect(page.locator(".cm-breakpoint-gutter")).to_have_count(0, timeout=LEFT_MS)


def test_a_breakpoint_holds_rank_1_alone_and_the_cell_ends_well(lab: Lab, page: Page, panel: Locator) -> None:
    lab.set_code(page, CELL)
    choose(page, panel, 1, "Debug on Rank 1")
    page.locator(".cm-breakpoint-gutter").first.wait_for(timeout=LEFT_MS)
    page.mouse.click(*page.evaluate(_GUTTER, 3))
    expect(page.locator(f"{SIDEBAR} .jp-DebuggerBreakpoint")).to_have_count(1, timeout=LEFT_MS)
    run_cell(page)
    frames = page.locator(f"{SIDEBAR} .jp-DebuggerCallstackFrame")
    expect(frames.first).to_contain_text("twice", timeout=LEFT_MS)
    expect(page.locator(".jp-CodeCell .jp-DebuggerEditor-highlight")).to_have_text("    doubled = 2 * value")
    variables = page.locator(f"{SIDEBAR} .jp-DebuggerVariables")
    expect(variables).to_contain_text("value", timeout=LEFT_MS)
    expect(variables).to_contain_text("21")
    show_panel(page)
    expect(panel.locator(".ddl-step")).to_have_text("Rank 1 is held in the debugger, at line 3 of a cell, in twice.")
    rows = panel.locator(".ddl-rank-row:not([hidden])")
    expect(rows.nth(1)).to_contain_text("in the debugger")
    expect(rows.nth(0)).not_to_contain_text("in the debugger")
    press(page, "next")
    expect(page.locator(".jp-CodeCell .jp-DebuggerEditor-highlight")).to_have_text(
        "    return doubled", timeout=LEFT_MS
    )
    expect(variables).to_contain_text("42", timeout=LEFT_MS)
    press(page, "continue")
    lab.wait_until_ended(page)
    expect(page.locator(OUTPUT).filter(has_text="[1] own 42")).to_be_visible(timeout=LEFT_MS)
    expect(panel.locator(".ddl-step")).to_be_empty(timeout=LEFT_MS)
    end_debugging(page)
    run_cell(page)
    lab.wait_until_ended(page)
    expect(page.locator(OUTPUT).filter(has_text="[1] own 42")).to_be_visible(timeout=LEFT_MS)


def test_the_cell_in_front_is_held_at_its_first_line_and_an_interrupt_ends_it(
    lab: Lab, page: Page, panel: Locator
) -> None:
    lab.set_code(page, "%%distributed\n# What it does.\nfirst = rank\nsecond = first + 1")
    choose(page, panel, 0, "Debug This Cell on Rank 0")
    highlight = page.locator(".jp-CodeCell .jp-DebuggerEditor-highlight")
    expect(highlight).to_have_text("first = rank", timeout=LEFT_MS)
    show_panel(page)
    panel.get_by_role("button", name="Interrupt").first.click()
    lab.wait_until_ended(page)
    expect(page.locator(OUTPUT).filter(has_text="interrupted").first).to_be_visible(timeout=LEFT_MS)
    end_debugging(page)
    lab.set_code(page, "%%distributed\nprint('works', rank)")
    run_cell(page)
    lab.wait_until_ended(page)
    expect(page.locator(OUTPUT).filter(has_text="works 0").first).to_be_visible(timeout=LEFT_MS)
