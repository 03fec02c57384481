"""A run in TensorBoard: as a tab of JupyterLab, below a cell, and below another base URL."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import recorded
from lab import command, jupyterlab
from panel import search_runs, show_panel

pytest.importorskip("tensorboard")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab import Lab
    from playwright.sync_api import Browser, FrameLocator, Page

# TensorBoard's page is 3 MB of scripts, on a machine with other work.
TIMEOUT_MS = 90_000


def see_a_chart(board: FrameLocator, tag: str) -> None:
    """Wait until a chart of a scalar has lines."""
    # It draws what is in sight: the others go.
    board.get_by_role("combobox", name="Filter tags (regex)").fill(tag, timeout=TIMEOUT_MS)
    card = board.locator("scalar-card").filter(has=board.locator(f"tb-truncated-path[title='{tag}']")).first
    # The table below the lines has their last values, once they are drawn.
    for name in ("all ranks", "rank 0", "rank 1"):
        card.get_by_text(name, exact=True).wait_for(timeout=TIMEOUT_MS)
    # Lines are drawn on a canvas, or as paths where the browser has no WebGL.
    assert card.locator("line-chart :is(canvas, svg path)").count() > 0


def test_a_run_opens_in_a_tab_and_below_a_cell(lab: Lab, notebook: Page) -> None:
    page = notebook
    run = recorded.record("2026-11-13T02-00-00-board-91c2", 2, 30, parameters={"epochs": 12})
    panel = show_panel(page)
    search_runs(panel, "board-91c2", 1)
    panel.locator(".ddl-run-row:not([hidden]) .ddl-run-open").click()
    page.locator(".ddl-page-bar").get_by_role("button", name="TensorBoard", exact=True).click()
    tab = page.frame_locator(".ddl-board iframe")
    for tag in ("metrics/loss", "speed/samples_per_s"):
        see_a_chart(tab, tag)
    assert page.locator(".lm-TabBar-tabLabel").get_by_text("TensorBoard 91c2").is_visible()
    # A second open has the page that is there.
    page.evaluate("window.jupyterapp.shell.activateById(document.querySelector('.jp-NotebookPanel').id)")
    command(page, "jupyter-ddl:open-tensorboard", run=run.name)
    assert page.locator(".ddl-board").count() == 1
    page.evaluate("window.jupyterapp.shell.activateById(document.querySelector('.jp-NotebookPanel').id)")
    lab.set_code(page, f"%load_ext jupyter_ddl\n%ddl tensorboard {run.name}")
    lab.run_all(page)
    see_a_chart(page.frame_locator(".jp-OutputArea iframe"), "metrics/loss")


def test_what_is_not_there_is_said_in_the_page(notebook: Page) -> None:
    command(notebook, "jupyter-ddl:open-tensorboard", folder="/no/such/folder")
    notebook.locator(".ddl-board").get_by_role("alert").filter(has_text="which does not exist").wait_for()


@pytest.fixture(scope="module")
def below(needed: None) -> Iterator[Lab]:
    """A JupyterLab as JupyterHub serves it."""
    with (
        tempfile.TemporaryDirectory(prefix="ddl-lab-") as folder,
        jupyterlab(Path(folder), base_url="/user/x/") as running,
    ):
        yield running


@pytest.mark.slow
def test_below_another_base_url(browser: Browser, below: Lab) -> None:
    run = recorded.record("2026-11-13T02-00-00-board-91c3", 2, 30)
    context = browser.new_context(viewport={"width": 1400, "height": 1200})
    try:
        page = context.new_page()
        below.write("below.ipynb", "1")
        below.open(page, "below.ipynb")
        command(page, "jupyter-ddl:open-tensorboard", run=run.name)
        see_a_chart(page.frame_locator(".ddl-board iframe"), "metrics/loss")
        assert (
            page.locator(".ddl-board iframe")
            .get_attribute("src", timeout=30_000)
            .endswith(f"/user/x/jupyter-ddl/tensorboard/{run.name}/")
        )
        # It comes back with the page.
        below.wait_until_restorable(page, "jupyter-ddl-boards")
        page.goto(page.url.replace("&reset", "").partition("?")[0])
        see_a_chart(page.frame_locator(".ddl-board iframe"), "metrics/loss")
    finally:
        context.close()
        below.end_kernels()
