"""Two tabs of one browser side by side, on one notebook and its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from lab import number
from panel import run_cell, show_panel, start_ranks, training

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Page

MARK = "document.querySelector('.jp-Notebook .jp-Cell').dataset.ddlMark"
COUNT = ".jp-MainAreaWidget:not(.lm-mod-hidden) .ddl-page .ddl-count"


def wait_for_mark(page: Page, sign: str) -> None:
    page.wait_for_function(f"sign => {MARK}?.startsWith(sign)", arg=sign, timeout=30_000)


def see_it_train(page: Page) -> None:
    """Wait until the sidebar, the status bar and the cell tell of the run."""
    page.locator(".ddl-cluster-running").wait_for(timeout=60_000)
    page.locator(".ddl-status-button").filter(has_text="samples/s").wait_for(timeout=60_000)
    page.locator(".ddl-rank-rate").filter(has_text="/s").nth(1).wait_for()
    wait_for_mark(page, "● 0-1")


def see_lines_come(page: Page) -> None:
    """Wait until the run's page has more lines than it has now."""
    before = number(page.locator(COUNT).inner_text())
    more = f"before => parseFloat(document.querySelector('{COUNT}').textContent) > before"
    page.wait_for_function(more, arg=before, timeout=30_000)


@pytest.mark.slow
def test_two_tabs_show_one_run_and_each_controls_it(lab: Lab, page: Page, tmp_path: Path) -> None:
    start_ranks(lab, page, "tabs.ipynb", training(tmp_path / "end"))
    other = page.context.new_page()
    lab.open(other, "tabs.ipynb", workspace="other")
    panel = show_panel(other)
    panel.locator(".ddl-rank-row:not([hidden])").nth(1).wait_for(timeout=30_000)
    assert panel.locator(".ddl-start").is_hidden()
    run_cell(page)
    for tab in (page, other):
        see_it_train(tab)
        tab.locator(".ddl-cluster .ddl-run-link").click()
        tab.locator(COUNT).filter(has_text="lines").wait_for(timeout=30_000)
    for tab in (page, other):
        see_lines_come(tab)
    panel.get_by_role("button", name="Interrupt", exact=True).click()
    for tab in (page, other):
        tab.locator(".ddl-cluster-idle").wait_for(timeout=30_000)
        wait_for_mark(tab, "◇ 0-1")
    page.evaluate("window.jupyterapp.shell.activateById(document.querySelector('.jp-NotebookPanel').id)")
    run_cell(page)
    for tab in (page, other):
        see_it_train(tab)
    other.close()
    page.locator(".ddl-cluster .ddl-run-link").click()
    page.locator(COUNT).filter(has_text="lines").wait_for(timeout=30_000)
    see_lines_come(page)
