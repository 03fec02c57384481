"""What users do with the panel, which several tests do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lab import ROOT, command
from playwright.sync_api import TimeoutError as Timeout
from playwright.sync_api import expect

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Locator, Page

PANEL = "#jupyter-ddl-panel"
AXE = ROOT / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
# Ranks come up in some seconds on a free machine.
START_MS = 120_000
# Runs code in the notebook's kernel, and returns what it prints.
_ASK_KERNEL = """async code => {
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  const future = kernel.requestExecute({ code, silent: true });
  let text = '';
  future.onIOPub = message => { text += message.content.text ?? ''; };
  await future.done;
  return text;
}"""
_WITHOUT = "import os; os.environ['PYTHONPATH'] = {folder!r} + os.pathsep + os.environ['PYTHONPATH']"
_TRAINING = """%%distributed
import os, time
import jupyter_ddl
for step in range(4000):
    time.sleep(0.05)
    jupyter_ddl.report(samples=64 + step % 32, loss=1 / (1 + step))
    if step % 10 == 0:
        print("step", step, "of rank", rank)
    if os.path.exists({end!r}):
        break
"""


def training(end: Path) -> str:
    """Return a cell that trains until a file is there."""
    return _TRAINING.format(end=str(end))


def show_panel(page: Page, *, more: bool = True) -> Locator:
    """Show the sidebar, and in its form all fields."""
    command(page, "jupyter-ddl:show-panel")
    panel = page.locator(PANEL)
    panel.wait_for()
    panel.locator(".ddl-more").evaluate("(details, more) => { details.open = more; }", more)
    return panel


def menu(page: Page) -> list[str]:
    """Return what `Run > Distributed` has."""
    page.locator(".lm-MenuBar-item").get_by_text("Run", exact=True).click()
    page.locator(".lm-Menu-item[data-type='submenu']").get_by_text("Distributed", exact=True).hover()
    items = page.locator("#jp-mainmenu-run-distributed .lm-Menu-item[data-type='command']:visible .lm-Menu-itemLabel")
    items.first.wait_for()
    found = items.all_inner_texts()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    return found


def search_runs(panel: Locator, text: str, count: int) -> None:
    """Search the list, and wait until it shows `count` runs.

    Args:
        panel: the sidebar's.
        text: not of hexadecimal digits alone, which the random end of any other run's name may have in it, too.
        count: of rows, no more than fit.
    """
    panel.get_by_label("Search runs").fill(text)
    expect(panel.locator(".ddl-run-row:not([hidden])")).to_have_count(count, timeout=30_000)


def ask_kernel(page: Page, code: str) -> str:
    """Return what code prints in the kernel of the notebook that is open."""
    printed: str = page.evaluate(_ASK_KERNEL, code)
    return printed


def leave_out_tensorflow(page: Page, folder: Path) -> None:
    """Have the ranks that the notebook's kernel starts come up without TensorFlow, whose import is most of a start.

    Args:
        page: whose notebook has a kernel that is idle.
        folder: of the test, which stays while the ranks run.
    """
    (folder / "tensorflow.py").write_text("raise ImportError('no such library')\n")
    ask_kernel(page, _WITHOUT.format(folder=str(folder)))


def start_ranks(lab: Lab, page: Page, name: str, *cells: str, keep: bool = False) -> Locator:
    """Open a notebook, and start 2 ranks in its kernel from the form."""
    lab.write(name, *cells)
    lab.open(page, name)
    return start_here(lab, page, keep=keep)


def start_here(lab: Lab, page: Page, *, keep: bool = False) -> Locator:
    """Start 2 ranks in the notebook that is open."""
    lab.wait_until_idle(page)
    panel = show_panel(page)
    panel.get_by_label("Ranks", exact=True).and_(page.locator("input")).fill("2")
    panel.get_by_label("keep the ranks when the kernel ends").set_checked(keep)
    panel.get_by_role("button", name="Start ranks").click()
    try:
        panel.locator(".ddl-rank-row:not([hidden])").nth(1).wait_for(timeout=START_MS)
    except Timeout as error:
        raise AssertionError(f"No ranks. The panel says: {panel.inner_text()}\n{lab.server.last_words()}") from error
    panel.locator(".ddl-cluster-idle").wait_for(timeout=START_MS)
    return panel


def choose_of_ranks(page: Page, panel: Locator, label: str) -> None:
    """Choose from the menu of what ends ranks: Restart, Stop."""
    panel.locator(".ddl-cluster").get_by_role("button", name="More").click()
    page.locator(".lm-Menu-item").filter(has_text=label).click()


def delete_ticked(page: Page, panel: Locator) -> None:
    """Ask that the runs that are ticked be deleted; a dialog comes."""
    panel.locator(".ddl-run-search").get_by_role("button", name="More").click()
    page.locator(".lm-Menu-item").filter(has_text="Delete…").click()


def run_cell(page: Page) -> None:
    """Run the cell, and do not wait for its end."""
    page.evaluate("void window.jupyterapp.commands.execute('notebook:run-cell')")


def axe_findings(page: Page, within: str) -> list[str]:
    """Return what axe-core finds, of any level."""
    if not page.evaluate("typeof window.axe === 'object'"):
        page.add_script_tag(path=str(AXE))
    found: list[dict[str, Any]] = page.evaluate("within => axe.run(within).then(found => found.violations)", within)
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary']}" for one in found]
