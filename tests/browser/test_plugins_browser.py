"""The extension's plugins: one that is disabled takes its part away, and the rest works."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import recorded
from lab import command, jupyterlab
from panel import menu, show_panel
from told_kernel import ToldKernel, rank

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab import Lab
    from playwright.sync_api import Browser, Page

DISABLED = ("jupyter-ddl:status", "jupyter-ddl:controls")
IPYPARALLEL = "ipyparallel-labextension"
OF_IPYPARALLEL = "window.jupyterapp.commands.listCommands().filter(id => id.startsWith('ipyparallel:')).length"
COMMANDS = "() => window.jupyterapp.commands.listCommands().filter(id => id.startsWith('jupyter-ddl:'))"


@pytest.fixture(scope="module")
def partial_lab(needed: None) -> Iterator[Lab]:
    """A JupyterLab without some plugins of ours, below another base URL, as JupyterHub serves it."""
    with (
        tempfile.TemporaryDirectory(prefix="ddl-lab-") as folder,
        jupyterlab(Path(folder), base_url="/user/ada/", disabled=DISABLED, enabled=[IPYPARALLEL]) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def partial_page(browser: Browser, partial_lab: Lab) -> Iterator[Page]:
    """A notebook in it, for all tests."""
    context = browser.new_context(viewport={"width": 1400, "height": 1200})
    raised: list[str] = []
    context.on("weberror", lambda error: raised.append(str(error.error)))
    page = context.new_page()
    partial_lab.write("partial.ipynb", "1")
    partial_lab.open(page, "partial.ipynb")
    yield page
    context.close()
    partial_lab.end_kernels()
    assert not raised


def test_below_another_base_url(partial_lab: Lab, partial_page: Page) -> None:
    panel = show_panel(partial_page)
    panel.locator(".ddl-start-line").filter(has_text="%ddl start").wait_for()
    with ToldKernel(partial_lab, "other") as kernel:
        kernel.tell([rank(0), rank(1)])
        panel.locator(".ddl-rank-row:not([hidden])").nth(1).wait_for()


def test_ipyparallels_own_panel_is_there_where_it_was_enabled_again(partial_page: Page, notebook: Page) -> None:
    assert notebook.evaluate(OF_IPYPARALLEL) == 0
    assert partial_page.evaluate(OF_IPYPARALLEL) > 0


def test_a_plugin_that_is_disabled_takes_its_part_and_no_other(partial_lab: Lab, partial_page: Page) -> None:
    page = partial_page
    run = recorded.record("2026-11-12T02-00-00-default-9a27", 2, 5)
    panel = show_panel(page)
    with ToldKernel(partial_lab, "partial") as kernel:
        card = panel.locator(".ddl-cluster")
        kernel.tell([rank(0), rank(1)])
        card.wait_for()
        kernel.tell([rank(0), rank(1)], state="running", run=run.name, fault="Rank 1 is silent.")
        card.get_by_text("Rank 1 is silent.").wait_for()
        # Its buttons are of the plugin that is not there.
        for name in ("Interrupt", "Stacks", "Show where the ranks are"):
            assert card.get_by_role("button", name=name, exact=True).count() == 0
        assert page.locator(".ddl-status").count() == 0
        found = set(page.evaluate(COMMANDS))
        assert {"jupyter-ddl:open-run", "jupyter-ddl:toggle-distributed", "jupyter-ddl:show-panel"} <= found
        assert not found & {"jupyter-ddl:interrupt", "jupyter-ddl:stop", "jupyter-ddl:restart", "jupyter-ddl:stacks"}
        start = ["Show Distributed Ranks", "Start Ranks…"]
        cells = ["Run Cell on Ranks", "Run Whole Notebook on Ranks"]
        consoles = ["Run Selected Text or Cell on One Rank…", "Open a Console on a Rank…"]
        debugger = ["Debug This Cell on a Rank…", "Debug on a Rank…"]
        assert menu(page) == [*start, *cells, *consoles, *debugger]
        # Pages, cells and notifications are there.
        card.get_by_role("button", name="Open the run").click()
        page.locator(".ddl-dashboard .ddl-run-state").filter(has_text="finished").wait_for()
        page.locator(".Toastify__toast").filter(has_text="Rank 1 is silent.").wait_for()
    command(page, "application:activate-previous-tab")
    page.locator(".jp-NotebookPanel-toolbar [data-command='jupyter-ddl:toggle-distributed']").click()
    assert page.evaluate(
        "window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel.getSource().startsWith('%%distributed')"
    )
