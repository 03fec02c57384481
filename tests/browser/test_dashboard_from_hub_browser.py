"""The dashboard under a cell comes from the hub: to a page that is loaded in the middle of a run, or a day later."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from lab import command, jupyterlab, number
from panel import START_MS, leave_out_tensorflow, training
from servers import TOKEN

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Browser, Page

NAME = "hub.ipynb"
STATE = ".jp-Notebook .ddl-run-output .ddl-run-state"
COUNT = ".jp-Notebook .ddl-run-output .ddl-count"
FOLD = ".jp-Notebook .ddl-run-output .ddl-fold"
IS_ABOVE = """() => {
  const area = document.querySelector('.jp-Notebook .ddl-run-output').closest('.jp-OutputArea');
  const of = [...area.querySelectorAll('.jp-OutputArea-child')].filter(one => one.textContent.includes('of rank 1'));
  return of.length === 2 && of[0].querySelector('.ddl-run-output') !== null;
}"""
HAS_PICTURE = """() => window.jupyterapp.shell.currentWidget.content.widgets
  .some(cell => JSON.stringify(cell.model.toJSON()).includes('jupyter-ddl-final-state'))"""
NO_KERNEL = "(window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel ?? null) === null"

# Notebook 7's own, with no extension too: a toolbar's settings are loaded while it asks for another plugin's.
# Source: jupyterlab 4, packages/apputils/src/toolbar/factory.ts, setToolbarItems
NOTEBOOK_7S_OWN = re.compile(r"reading 'schema'\)[\s\S]*? at \S+/static/notebook/notebook_core\.")
NOTEBOOK_7 = pytest.mark.skipif(
    find_spec("notebook") is None, reason="Notebook 7 is not installed: pip install notebook"
)
MODULES = ["jupyterlab", pytest.param("notebook", marks=[pytest.mark.slow, NOTEBOOK_7])]


def load(lab: Lab, page: Page, module: str) -> None:
    """Load the notebook in JupyterLab, or in Notebook 7."""
    place = f"lab/workspaces/{id(page)}/tree" if module == "jupyterlab" else "notebooks"
    page.goto(f"{lab.url}/{place}/{NAME}?token={TOKEN}")
    page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell", timeout=60_000)
    page.wait_for_function("window.jupyterapp.shell.currentWidget?.context?.isReady")


def see_it_train(page: Page) -> None:
    """Wait until the dashboard shows that the run trains, and has more lines than it had."""
    page.locator(STATE).filter(has_text="Training").wait_for(timeout=60_000)
    page.locator(COUNT).filter(has_text="lines").wait_for(timeout=30_000)
    before = number(page.locator(COUNT).inner_text())
    more = f"before => parseFloat(document.querySelector('{COUNT}').textContent.replace(',', '')) > before"
    page.wait_for_function(more, arg=before, timeout=30_000)


def see_the_end(page: Page) -> None:
    page.locator(STATE).filter(has_text="finished").wait_for(timeout=60_000)
    page.locator(FOLD).filter(has_text=re.compile(r"\d+ lines of output")).wait_for(timeout=30_000)
    assert page.evaluate(IS_ABOVE)


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.parametrize("module", MODULES)
def test_a_second_tab_a_reload_and_a_notebook_without_a_kernel_show_the_run(
    module: str, browser: Browser, tmp_path: Path
) -> None:
    end = tmp_path / "end"
    with jupyterlab(tmp_path, module=module) as lab:
        lab.write(NAME, "%load_ext jupyter_ddl\n%ddl start -n 2", training(end))
        context = browser.new_context(viewport={"width": 1400, "height": 1200})
        raised: list[str] = []
        context.on("weberror", lambda error: raised.append(f"{error.error}\n{error.error.stack}"))
        page = context.new_page()
        load(lab, page, module)
        lab.wait_until_idle(page)
        leave_out_tensorflow(page, tmp_path)
        lab.run_all(page)
        page.locator(STATE).filter(has_text="Training").wait_for(timeout=START_MS)
        lab.save(page)
        other = context.new_page()
        load(lab, other, module)
        see_it_train(other)
        page.reload()
        page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell", timeout=60_000)
        for tab in (page, other):
            see_it_train(tab)
        end.touch()
        for tab in (page, other):
            see_the_end(tab)
        # The second tab must not find that the first one has saved the same file.
        other.close()
        page.wait_for_function(HAS_PICTURE, timeout=30_000)
        command(page, "docmanager:save")
        context.close()
        assert [error for error in raised if not NOTEBOOK_7S_OWN.search(error)] == []
        # The next day: another server, and no kernel starts there.
        lab.end_kernels()
        lab.server.stop()
        lab.server.start()
        context = browser.new_context(viewport={"width": 1400, "height": 1200})
        context.route(
            "**/api/sessions*", lambda route: route.abort() if route.request.method == "POST" else route.fallback()
        )
        page = context.new_page()
        load(lab, page, module)
        see_the_end(page)
        assert page.evaluate(NO_KERNEL)
        assert lab.api("GET", "kernels") == []
        context.close()
