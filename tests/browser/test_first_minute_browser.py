"""What a beginner does first: a new notebook from the launcher, the form, a cell of their own; or the example."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest
from lab import ROOT, jupyterlab
from panel import PANEL, START_MS, leave_out_tensorflow
from playwright.sync_api import expect
from servers import TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab import Lab
    from playwright.sync_api import Browser, Page

SWITCH = ".jp-NotebookPanel-toolbar [data-command='jupyter-ddl:toggle-distributed']"
OUTPUT = ".jp-Notebook .jp-OutputArea"
STATE = ".jp-Notebook .ddl-run-state"
MODE = "Which cells run on ranks"
# Importing TensorFlow takes most of it, on a machine that has other work to do too.
TRAINED_MS = 240_000
TRAINING = """\
import time, jupyter_ddl
for step in range(20):
    time.sleep(0.1)
    jupyter_ddl.report(samples=64, loss=1 / (1 + step))
print("trained", rank)"""
ENDED = "![...document.querySelectorAll('.jp-Notebook .jp-InputPrompt')].some(one => one.textContent === '[*]:')"
SOURCES = "window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.sharedModel.getSource())"

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def fresh(needed: None) -> Iterator[Lab]:
    """A JupyterLab of a user who has no run yet."""
    with tempfile.TemporaryDirectory(prefix="ddl-lab-") as folder:
        runs = Path(folder) / "runs"
        with jupyterlab(Path(folder), more={"JUPYTER_DDL_RUNS": str(runs)}) as running:
            yield running


@pytest.fixture
def page(browser: Browser, fresh: Lab) -> Iterator[Page]:
    """JupyterLab as it comes up for the first time: the launcher."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    raised: list[str] = []
    context.on("weberror", lambda error: raised.append(f"{error.error}\n{error.error.stack}"))
    page = context.new_page()
    page.goto(f"{fresh.url}/lab?token={TOKEN}&reset")
    page.wait_for_selector(".jp-Launcher .jp-LauncherCard", timeout=60_000)
    yield page
    context.close()
    fresh.end_kernels()
    assert not raised


def new_notebook(lab: Lab, page: Page, tmp_path: Path) -> None:
    page.locator(".jp-LauncherCard[data-category='Notebook']").filter(has_text="Python 3").first.click()
    page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell").wait_for(timeout=60_000)
    lab.wait_until_idle(page)
    leave_out_tensorflow(page, tmp_path)


def wait_for_example(page: Page) -> None:
    """Wait until the example's cells are there: JupyterLab shows an empty one until it has the file's."""
    cell = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell").filter(has_text="%ddl start -n 2")
    cell.wait_for(timeout=60_000)


def start(page: Page) -> None:
    """Start 2 ranks in the notebook, from the icon in the left bar, and do not wait for them."""
    page.locator(".jp-SideBar [data-id='jupyter-ddl-panel']").click()
    panel = page.locator(PANEL)
    panel.get_by_label("Ranks", exact=True).and_(page.locator("input")).fill("2")
    panel.get_by_role("button", name="Start ranks").click()


def write(page: Page, code: str) -> None:
    page.locator(".jp-Notebook .jp-Cell").last.locator(".cm-content").click()
    page.keyboard.insert_text(code)


def wait_until_trained(page: Page) -> None:
    page.locator(STATE).filter(has_text="finished").first.wait_for(timeout=START_MS)
    expect(page.locator(OUTPUT).filter(has_text="trained 1").first).to_be_attached()


# The first one: no run is there yet.
@pytest.mark.timeout(600)
def test_the_example_of_an_empty_list_trains_to_its_end(fresh: Lab, page: Page) -> None:
    page.locator(".jp-SideBar [data-id='jupyter-ddl-panel']").click()
    panel = page.locator(PANEL)
    panel.get_by_text("No run yet. A cell that begins with %%distributed is one.").wait_for(timeout=30_000)
    panel.get_by_role("button", name="Open an example notebook").click()
    wait_for_example(page)
    fresh.run_all(page)
    finished = page.locator(STATE).filter(has_text="finished")
    finished.first.wait_for(timeout=TRAINED_MS)
    page.wait_for_function(ENDED, timeout=TRAINED_MS)
    said = page.locator(OUTPUT).all_inner_texts()
    assert any("of the points are on the right spiral" in text for text in said), said
    assert page.locator(f"{OUTPUT} [data-mime-type='application/vnd.jupyter.error']").count() == 0, said
    # Its ranks are stopped, and its runs are there: two cells for all ranks, and one for rank 0.
    expect(panel.locator(".ddl-cluster")).to_have_count(0)
    expect(panel.locator(".ddl-run-row:not([hidden])")).to_have_count(3)
    expect(panel.get_by_role("button", name="Open an example notebook")).to_be_hidden()


def test_old_runs_and_no_notebook_lead_to_the_example_too(fresh: Lab, page: Page) -> None:
    folder = fresh.folder.parent / "runs" / "2026-10-01T02-00-00-default-01d0"
    folder.mkdir(parents=True)
    content = {"run": folder.name, "ranks": [0, 1], "world_size": 2, "outcome": "finished", "seconds": 1}
    (folder / "run.json").write_text(json.dumps(content))
    page.locator(".jp-SideBar [data-id='jupyter-ddl-panel']").click()
    panel = page.locator(PANEL)
    panel.locator(".ddl-run-row:not([hidden])").last.wait_for(timeout=120_000)
    expect(panel.get_by_text("Open a notebook: the ranks are its kernel’s.")).to_be_visible()
    offer = panel.get_by_role("button", name="Open an example notebook")
    offer.click()
    wait_for_example(page)
    # There the form starts ranks.
    expect(offer).to_have_count(0)


def test_a_cell_that_is_run_while_the_ranks_start_trains_when_they_are_there(
    fresh: Lab, page: Page, tmp_path: Path
) -> None:
    new_notebook(fresh, page, tmp_path)
    start(page)
    write(page, TRAINING)
    page.locator(SWITCH).click()
    # The switch leaves the focus in the cell.
    page.keyboard.press("Shift+Enter")
    page.locator(PANEL).get_by_role("button", name="Insert as a cell").click(timeout=START_MS)
    wait_until_trained(page)
    assert page.evaluate(SOURCES)[:2] == ["%load_ext jupyter_ddl\n%ddl start -n 2", f"%%distributed\n{TRAINING}"]
    # The cell that was put there starts nothing where its ranks run, and the cells after it run.
    page.evaluate("window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    expect(page.locator(STATE)).to_have_count(0)
    fresh.run_all(page)
    expect(page.locator(OUTPUT).first).to_contain_text("runs already, by the same line", timeout=START_MS)
    wait_until_trained(page)


@pytest.mark.slow
def test_a_whole_notebook_that_was_started_from_the_panel_runs_again_in_nbconvert(
    fresh: Lab, page: Page, tmp_path: Path
) -> None:
    new_notebook(fresh, page, tmp_path)
    start(page)
    page.get_by_label(MODE).select_option("Whole notebook")
    page.locator(PANEL).get_by_role("button", name="Insert as a cell").click(timeout=START_MS)
    write(page, TRAINING)
    page.keyboard.press("Shift+Enter")
    wait_until_trained(page)
    # JupyterLab's command asks for the name of a new notebook.
    page.evaluate("window.jupyterapp.shell.currentWidget.context.save()")
    path = fresh.folder / page.evaluate("window.jupyterapp.shell.currentWidget.context.path")
    notebook = nbformat.read(path, as_version=4)
    assert notebook.metadata["jupyter_ddl"] == {"auto": True}
    sources = [cell.source for cell in notebook.cells]
    assert sources[:2] == ["%load_ext jupyter_ddl\n%ddl start -n 2", TRAINING]
    # Elsewhere: without this kernel and its ranks.
    fresh.end_kernels()
    again = tmp_path / "again.ipynb"
    for cell in notebook.cells:
        cell.outputs = []
    nbformat.write(notebook, again)
    command_line = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", again.name]
    # Without TensorFlow, as before.
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        command_line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    outputs = nbformat.read(again, as_version=4).cells[1].outputs
    text = "\n".join(str(output.get("data", {}).get("text/plain", "")) for output in outputs)
    assert {"[0] trained 0", "[1] trained 1"} <= {" ".join(line.split()) for line in text.splitlines()}
