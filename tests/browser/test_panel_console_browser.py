"""A console on one of a notebook's ranks, and a selection that runs there: real ranks, in Chromium."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from panel import START_MS, axe_findings, leave_out_tensorflow, run_cell, show_panel, start_here
from playwright.sync_api import expect

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Locator, Page

CONSOLE = ".ddl-rank-console:not(.lm-mod-hidden)"
SELECT = """([from, to]) => window.jupyterapp.shell.currentWidget.content.activeCell.editor
  .setSelection({start: {line: from[0], column: from[1]}, end: {line: to[0], column: to[1]}})"""


@pytest.fixture
def page(notebook: Page) -> Page:
    """The notebook that all tests share."""
    return notebook


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("without")


@pytest.fixture
def panel(lab: Lab, page: Page, folder: Path) -> Locator:
    """The panel, with the 2 ranks of the notebook that all tests share; they are started where there are none."""
    shown = show_panel(page)
    if shown.locator(".ddl-cluster").count() == 0:
        lab.wait_until_idle(page)
        leave_out_tensorflow(page, folder)
        start_here(lab, page)
    shown.locator(".ddl-cluster-idle").wait_for(timeout=START_MS)
    return shown


def run_in_notebook(page: Page, lab: Lab, panel: Locator, code: str) -> None:
    lab.set_code(page, code)
    run_cell(page)
    lab.wait_until_ended(page)
    panel.locator(".ddl-cluster-idle").wait_for()


def open_console(page: Page, panel: Locator, rank: int) -> Locator:
    """Open one from the menu of a rank's row."""
    panel.locator(".ddl-rank-row:not([hidden])").nth(rank).click(button="right")
    page.locator(".lm-Menu-item").filter(has_text=f"Open a Console on Rank {rank}").click()
    console = page.locator(CONSOLE)
    console.locator(".jp-CodeConsole-promptCell .cm-content").wait_for()
    return console


def enter(page: Page, console: Locator, code: str) -> Locator:
    """Run code at the prompt; return its cell."""
    before = console.locator(".jp-Console-cell").count()
    console.locator(".jp-CodeConsole-promptCell .cm-content").click()
    page.keyboard.insert_text(code)
    page.keyboard.press("Shift+Enter")
    return console.locator(".jp-Console-cell").nth(before)


def test_a_console_runs_completes_and_inspects_on_its_rank(lab: Lab, page: Page, panel: Locator) -> None:
    code = "%%distributed\nif rank == 1:\n    def only_here(there):\n        'Known on rank 1.'"
    run_in_notebook(page, lab, panel, code)
    console = open_console(page, panel, 1)
    expect(page.locator(".lm-TabBar-tabLabel").filter(has_text="Rank 1 of default").first).to_be_visible()
    expect(console.locator(".jp-CodeConsole-banner")).to_contain_text("runs on rank 1 alone")
    cell = enter(page, console, "print('this is', rank); rank + 40")
    expect(cell.locator(".jp-OutputArea-output")).to_have_text("[1] this is 1\n[1] 41", timeout=30_000)
    # Its run has no number of a cell. What the notebook has counted stays.
    newest = panel.locator(".ddl-run-row:not([hidden])").first
    expect(newest).to_contain_text("shared.ipynb")
    expect(newest).not_to_contain_text("[1]")
    expect(page.locator(".jp-Notebook .jp-InputPrompt").first).to_have_text("[1]:")
    console.locator(".jp-CodeConsole-promptCell .cm-content").click()
    page.keyboard.type("only_he")
    page.keyboard.press("Tab")
    page.locator(".jp-Completer-item").filter(has_text="only_here").wait_for()
    page.keyboard.press("Enter")
    expect(console.locator(".jp-CodeConsole-promptCell .cm-content")).to_have_text("only_here")
    page.keyboard.press("Shift+Tab")
    expect(page.locator(".jp-Tooltip")).to_contain_text("Known on rank 1.")
    page.keyboard.press("Escape")
    assert axe_findings(page, f"{CONSOLE} > .jp-Toolbar") == []


def test_it_waits_for_the_notebooks_cell_and_interrupts_only_its_own(lab: Lab, page: Page, panel: Locator) -> None:
    console = open_console(page, panel, 0)
    state, stop = console.locator(".ddl-console-state"), console.get_by_role("button", name="Interrupt")
    expect(stop).to_be_disabled()
    page.evaluate(
        "void window.jupyterapp.shell.activateById([...window.jupyterapp.shell.widgets('main')]"
        ".find(one => one.context?.path === 'shared.ipynb').id)"
    )
    lab.set_code(page, "%%distributed\nimport time\ntime.sleep(4)\nprint('slept')")
    run_cell(page)
    expect(state).to_have_text("A cell runs on the ranks: what you run here waits for its end.", timeout=30_000)
    cell = enter(page, console, "import time; print('turn'); time.sleep(600)")
    expect(state).to_have_text("Waits for a cell of the notebook, which runs first.")
    expect(stop).to_be_disabled()
    expect(state).to_have_text("Runs on rank 0.", timeout=30_000)
    expect(page.locator(".jp-Notebook .jp-OutputArea-output").filter(has_text="slept").first).to_be_visible()
    expect(cell).to_contain_text("turn", timeout=30_000)
    stop.click()
    expect(cell).to_contain_text("interrupted", timeout=30_000)
    expect(state).to_have_text("")
    cell = enter(page, console, "print('alive', rank)")
    expect(cell).to_contain_text("alive 0", timeout=30_000)


def test_a_selection_runs_on_the_rank_that_is_chosen(lab: Lab, page: Page, panel: Locator) -> None:
    code = "%%distributed\nchosen = rank\nprint('chosen', rank)"
    lab.set_code(page, code)
    page.locator(".jp-Notebook .jp-Cell .cm-content").first.click()
    page.evaluate(SELECT, [[2, 0], [2, 21]])
    page.evaluate("void window.jupyterapp.commands.execute('jupyter-ddl:run-on-rank')")
    dialog = page.locator(".jp-Dialog")
    dialog.locator("select").select_option("1")
    dialog.locator(".jp-mod-accept").click()
    cell = page.locator(CONSOLE).locator(".jp-Console-cell").last
    expect(cell.locator(".jp-OutputArea-output").first).to_contain_text("chosen 1", timeout=30_000)
    expect(cell.locator(".jp-InputArea .cm-content")).to_have_text("print('chosen', rank)")
