"""The switch in the notebook's toolbar: what it does to a cell, and that the cell it makes runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from lab import PANEL as BUILT
from lab import command
from panel import START_MS, ask_kernel, leave_out_tensorflow, show_panel
from playwright.sync_api import expect

if TYPE_CHECKING:
    from lab import Lab
    from playwright.sync_api import Page

SOURCES = "window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.sharedModel.getSource())"
SWITCH = ".jp-NotebookPanel-toolbar [data-command='jupyter-ddl:toggle-distributed']"
SET_SECOND = "code => window.jupyterapp.shell.currentWidget.content.widgets[1].model.sharedModel.setSource(code)"
KEYS = "Control+Alt+r"
OUTPUT = ".jp-Notebook .jp-CodeCell .jp-OutputArea"
SENT = "Ranks must run before a cell can go to them."


@pytest.fixture
def page(notebook: Page) -> Page:
    """The notebook that all tests share."""
    return notebook


def edit(page: Page, cell: int) -> None:
    page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".cm-content").click()


def wait_for_source(page: Page, cell: int, source: str) -> None:
    page.wait_for_function(f"([cell, source]) => {SOURCES}[cell] === source", arg=[cell, source])


def test_the_switch_leaves_the_cursor_where_it_is_and_sees_the_magic_below_empty_lines(lab: Lab, page: Page) -> None:
    command(page, "notebook:insert-cell-below")
    page.evaluate(SET_SECOND, "\n  \n%%distributed --auto\nb = 2")
    lab.set_code(page, "a = 1\nprint(a)")
    edit(page, 0)
    page.keyboard.press("Control+End")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press(KEYS)
    wait_for_source(page, 0, "%%distributed\na = 1\nprint(a)")
    page.keyboard.type("X")
    wait_for_source(page, 0, "%%distributed\na = 1\nprint(aX)")
    # Other ranks, too.
    field = page.get_by_label("Ranks that the cell runs on")
    field.fill("0,1")
    field.press("Enter")
    wait_for_source(page, 0, "%%distributed -r 0,1\na = 1\nprint(aX)")
    page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCell.editor.focus()")
    page.keyboard.type("Y")
    wait_for_source(page, 0, "%%distributed -r 0,1\na = 1\nprint(aXY)")
    page.keyboard.press(KEYS)
    page.keyboard.type("Z")
    wait_for_source(page, 0, "a = 1\nprint(aXYZ)")
    edit(page, 1)
    page.wait_for_selector(f"{SWITCH}[aria-pressed='true']")
    page.wait_for_selector(".jp-Cell.ddl-distributed-cell:nth-child(2)")
    page.locator(SWITCH).click()
    wait_for_source(page, 1, "\n  \nb = 2")


def test_a_cell_that_the_switch_made_runs_in_a_kernel_that_knew_nothing_of_it(lab: Lab, page: Page) -> None:
    lab.set_code(page, "print('hello')")
    lab.wait_until_idle(page)
    edit(page, 0)
    page.locator(SWITCH).click()
    told = "document.querySelector('.jp-Notebook .jp-OutputArea')?.textContent"
    for is_new in (False, True):
        if is_new:
            # A kernel that is restarted has it, too.
            page.evaluate("window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
            page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
            lab.wait_until_idle(page)
        edit(page, 0)
        page.keyboard.press("Shift+Enter")
        page.wait_for_function(f"{told}?.includes('Ranks must run before a cell can go to them.')", timeout=30_000)
        assert "Start ranks in JupyterLab's Distributed panel" in page.evaluate(told)
        expect(page.locator(".ddl-start-offer button")).to_have_count(1)


RESTART_AND_RUN = """() => void window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()
  .then(() => window.jupyterapp.commands.execute('notebook:run-all-cells'))"""
NEW_AND_RUN = """async () => {
  const { commands } = window.jupyterapp;
  const { content, context, sessionContext } = await commands.execute('notebook:create-new', { kernelName: 'python3' });
  await context.ready;
  // It has been asked for, and does not answer yet.
  const comes = resolve => sessionContext.kernelChanged.connect((_, { newValue }) => newValue && resolve());
  await (sessionContext.session?.kernel ?? new Promise(comes));
  content.widgets[0].model.sharedModel.setSource("print('hello')");
  content.activeCellIndex = 0;
  await commands.execute('jupyter-ddl:toggle-distributed');
  void commands.execute('notebook:run-cell');
}"""


def test_a_cell_that_runs_before_its_kernel_is_there_finds_the_magic(page: Page) -> None:
    page.evaluate(NEW_AND_RUN)
    output = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell .jp-OutputArea").first
    expect(output).to_contain_text(SENT, timeout=60_000)


def test_a_cell_that_runs_when_its_kernel_was_restarted_finds_the_magic(lab: Lab, page: Page) -> None:
    lab.wait_until_idle(page)
    lab.set_code(page, "print('hello')")
    command(page, "notebook:clear-all-cell-outputs")
    edit(page, 0)
    page.locator(SWITCH).click()
    page.evaluate(RESTART_AND_RUN)
    expect(page.locator(OUTPUT).first).to_contain_text(SENT, timeout=60_000)


def test_the_whole_notebook_runs_on_ranks_also_after_a_reload_and_a_restart(lab: Lab, page: Page) -> None:
    lab.wait_until_idle(page)
    lab.run_code(page, "print('here')")
    output = page.locator(OUTPUT).first
    expect(output).to_contain_text("here", timeout=30_000)
    mode = page.get_by_label("Which cells run on ranks")
    mode.select_option("Whole notebook")
    edit(page, 0)
    page.wait_for_selector(f"{SWITCH}[aria-pressed='true']")
    page.wait_for_selector(".jp-Cell.ddl-distributed-cell")
    page.keyboard.press("Control+End")
    page.keyboard.press(KEYS)
    wait_for_source(page, 0, "%%local\nprint('here')")
    page.wait_for_selector(f"{SWITCH}[aria-pressed='false']")
    page.keyboard.press(KEYS)
    page.keyboard.type("#")
    wait_for_source(page, 0, "print('here')#")
    lab.run_all(page)
    expect(output).to_contain_text(SENT, timeout=30_000)
    lab.save(page)
    lab.open(page, "shared.ipynb")
    expect(mode).to_have_value("notebook")
    command(page, "notebook:clear-all-cell-outputs")
    lab.wait_until_idle(page)
    page.evaluate(RESTART_AND_RUN)
    expect(output).to_contain_text(SENT, timeout=60_000)
    expect(page.locator(".ddl-start-offer button").first).to_be_visible()
    # What a cell does shows, too.
    lab.run_code(page, "%ddl auto off")
    expect(mode).to_have_value("cell")
    mode.select_option("Whole notebook")
    mode.select_option("This cell")
    lab.run_code(page, "print('here')")
    expect(output).to_contain_text("here", timeout=30_000)
    lab.save(page)
    assert "jupyter_ddl" not in nbformat.read(lab.folder / "shared.ipynb", as_version=4).metadata


# As a kernel is that has not loaded jupyter_ddl.
FORGETS = """
shell = get_ipython()
shell.magics_manager.magics["cell"].pop("distributed", None)
shell.extension_manager.loaded.discard("jupyter_ddl")
"""
CANNOT_START = """
from jupyter_ddl.kernel import current
start = current.start
def without_room(*_, **__):
    raise RuntimeError("no room")
current.start = without_room
"""


@pytest.mark.mpi
def test_the_button_under_a_cell_without_ranks_starts_them_and_runs_it(lab: Lab, page: Page, tmp_path: Path) -> None:
    lab.wait_until_idle(page)
    leave_out_tensorflow(page, tmp_path)
    ask_kernel(page, FORGETS)
    lab.set_code(page, "%%distributed\nprint('I am', rank, 'of', world_size)")
    edit(page, 0)
    page.keyboard.press("Shift+Enter")
    offer = page.locator(".ddl-start-offer").first
    expect(offer).to_be_visible(timeout=30_000)
    expect(page.locator(OUTPUT).first).to_contain_text("Cell magic `%%distributed` not found", timeout=30_000)
    # What cannot start says so, and can be tried again.
    ask_kernel(page, CANNOT_START)
    button = offer.get_by_role("button", name="Start ranks and run the cell")
    button.click()
    fault = offer.get_by_role("alert")
    expect(fault).to_contain_text("RuntimeError: no room", timeout=30_000)
    expect(page.locator(".jp-Notebook .jp-InputPrompt").first).to_have_text("[ ]:")
    page.screenshot(path=tmp_path / "fault.png")
    ask_kernel(page, "current.start = start")
    button.click()
    expect(button).to_be_disabled()
    page.screenshot(path=tmp_path / "starts.png")
    expect(page.locator(OUTPUT).first).to_contain_text("I am 0 of 2", timeout=START_MS)
    expect(page.locator(OUTPUT).first).to_contain_text("I am 1 of 2")
    expect(offer).to_have_count(0)
    assert page.evaluate(SOURCES)[0] == "%%distributed\nprint('I am', rank, 'of', world_size)"


@pytest.mark.mpi
def test_a_start_is_put_into_the_notebook_as_a_cell(lab: Lab, page: Page, tmp_path: Path) -> None:
    lab.wait_until_idle(page)
    leave_out_tensorflow(page, tmp_path)
    ask_kernel(page, "%load_ext jupyter_ddl\nget_ipython().run_line_magic('ddl', 'stop')")
    lab.set_code(page, "%%distributed\n1")
    panel = show_panel(page, more=False)
    panel.get_by_label("Ranks", exact=True).and_(page.locator("input")).fill("1")
    panel.get_by_role("button", name="Start ranks").click()
    insert = panel.get_by_role("button", name="Insert as a cell")
    insert.click(timeout=START_MS)
    wait_for_source(page, 0, "%load_ext jupyter_ddl\n%ddl start -n 1")
    wait_for_source(page, 1, "%%distributed\n1")
    expect(insert).to_be_hidden()
    ask_kernel(page, "get_ipython().run_line_magic('ddl', 'stop')")
    page.evaluate("window.jupyterapp.shell.currentWidget.content.model.sharedModel.deleteCell(0)")


def test_our_keys_are_no_other_commands() -> None:
    # Each plugin has the keys of its own commands.
    ours = shortcuts_below(BUILT / "schemas" / "jupyter-ddl")
    # In a console of a rank's the keys are those of JupyterLab's consoles, and nowhere else.
    in_consoles = [one for one in ours if one["selector"].startswith(".ddl-rank-console ")]
    assert {" ".join(one["keys"]) for one in in_consoles} == {"Shift Enter", "Tab", "Enter", "Shift Tab", "I I"}
    ours = [one for one in ours if one not in in_consoles]
    assert {" ".join(one["keys"]) for one in ours} == {"Ctrl Alt R", "Shift Tab"}
    others = {" ".join(one["keys"]) for one in jupyterlabs_shortcuts()}
    assert len(others) > 50
    # In a cell that runs on ranks, Shift Tab asks these in place of the kernel.
    taken = {" ".join(one["keys"]) for one in ours} - {"Shift Tab"}
    assert not {as_ctrl(keys) for keys in taken} & {as_ctrl(keys) for keys in others}


def as_ctrl(keys: str) -> frozenset[str]:
    return frozenset(keys.replace("Accel", "Ctrl").upper().split())


def jupyterlabs_shortcuts() -> list[dict[str, Any]]:
    from jupyterlab.commands import get_app_dir

    return [one for one in shortcuts_below(Path(get_app_dir(), "schemas")) if not one.get("disabled")]


def shortcuts_below(folder: Path) -> list[dict[str, Any]]:
    """Return the shortcuts of all settings in a folder."""
    found = []
    for path in sorted(folder.glob("**/*.json")):
        found += json.loads(path.read_text()).get("jupyter.lab.shortcuts", [])
    return found
