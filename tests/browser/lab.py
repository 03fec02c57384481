"""A real JupyterLab in a real Chromium, with folders of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
from playwright.sync_api import TimeoutError as Timeout
from playwright.sync_api import sync_playwright
from servers import TOKEN, Server

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from playwright.sync_api import Browser, BrowserType, Page

CHROMIUM = "/usr/bin/chromium"
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PANEL = ROOT / "labextension" / "built"
_SESSION = "window.jupyterapp?.shell.currentWidget?.sessionContext?"
_PROMPT = ".jp-Notebook .jp-InputPrompt"
_SET_CODE = "code => window.jupyterapp.shell.currentWidget.content.widgets[0].model.sharedModel.setSource(code)"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Lab:
    """A running JupyterLab."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.url = server.url
        self.api = server.api
        self.end_kernels = server.end_kernels
        self.interrupt_kernels = server.interrupt_kernels
        self.folder = folder

    def write(self, name: str, *cells: str) -> None:
        """Make a notebook of code cells."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self.folder / name)

    def open(self, page: Page, name: str, workspace: str = "w") -> None:
        """Open a notebook, and wait until its cells are there, in place of the one of an empty notebook."""
        page.goto(f"{self.url}/lab/workspaces/{workspace}-{name.partition('.')[0]}/tree/{name}?token={TOKEN}&reset")
        page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell", timeout=60_000)
        page.wait_for_function("window.jupyterapp.shell.currentWidget?.context?.isReady")

    def wait_until_idle(self, page: Page) -> None:
        try:
            page.wait_for_function(f"{_SESSION}.session?.kernel?.status === 'idle'", timeout=60_000)
        except Timeout as error:
            status = page.evaluate(
                f"[{_SESSION}.session?.kernel?.status, document.querySelector('.jp-Dialog')?.innerText]"
            )
            raise AssertionError(f"The kernel is not idle: {status}\n{self.server.last_words()}") from error

    def run_all(self, page: Page) -> None:
        self.wait_until_idle(page)
        # Its promise waits for the cells to end.
        page.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")

    def wait_until_ended(self, page: Page) -> None:
        """Wait until no cell runs. A kernel that handles a widget's message says that it is idle while a cell runs."""
        page.wait_for_function(f"![...document.querySelectorAll('{_PROMPT}')].some(one => one.textContent === '[*]:')")

    def set_code(self, page: Page, code: str) -> None:
        """Put code into the notebook's first cell."""
        page.evaluate(_SET_CODE, code)

    def wait_until_restorable(self, page: Page, text: str) -> None:
        """Wait until JupyterLab has saved a layout that has some text in it: it does so within seconds of a change."""
        workspace = page.url.partition("/workspaces/")[2].partition("/")[0]
        address = f"{self.server.base_url}lab/api/workspaces/{workspace}"
        until_s = time.monotonic() + 30
        while text not in self.server.request("GET", address).body.decode():
            assert time.monotonic() < until_s, "the layout must be saved"
            time.sleep(0.1)

    def run_code(self, page: Page, code: str) -> None:
        """Run code in place of what the notebook's first cell had, with nothing of that under it."""
        self.wait_until_idle(page)
        self.set_code(page, code)
        command(page, "notebook:clear-all-cell-outputs")
        page.wait_for_selector(".ddl-dashboard", state="detached")
        self.run_all(page)

    def save(self, page: Page) -> None:
        command(page, "docmanager:save")

    def outputs(self, name: str) -> list[dict[str, Any]]:
        """Return the outputs in the saved notebook."""
        notebook = nbformat.read(self.folder / name, as_version=4)
        return [output for cell in notebook.cells for output in cell.get("outputs", [])]


@contextmanager
def jupyterlab(
    folder: Path,
    base_url: str = "/",
    module: str = "jupyterlab",
    more: Mapping[str, str] | None = None,
    disabled: Iterable[str] = (),
    enabled: Iterable[str] = (),
) -> Iterator[Lab]:
    """Run a JupyterLab whose notebooks are in folder/notebooks.

    Args:
        folder: for all its files.
        base_url: below which it serves.
        module: the program: jupyterlab, or notebook for Notebook 7.
        more: variables of its environment; folders in its PYTHONPATH come after those of this checkout.
        disabled: plugins that are not to be there.
        enabled: extensions that are to be there though our installation disables them.
    """
    # What pip puts into etc/jupyter, and beside it what `jupyter labextension disable` and `enable` write.
    installed = folder / "installed"
    shutil.copytree(ROOT / "jupyter-config", installed)
    without = dict.fromkeys(("@jupyterlab/apputils-extension:announcements", *disabled), True)
    chosen = {"disabledExtensions": {**without, **dict.fromkeys(enabled, False)}}
    (installed / "labconfig" / "page_config.json").write_text(json.dumps(chosen))
    variables = {
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        # The notebooks' kernels import recorded.py.
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(ROOT), str(HERE), (more or {}).get("PYTHONPATH"), os.environ.get("PYTHONPATH")])
        ),
        # The hub and the panel of this checkout, whatever is installed.
        "JUPYTER_CONFIG_PATH": str(installed),
        "JUPYTER_PREFER_ENV_PATH": "0",
    }
    extensions = folder / "data" / "labextensions"
    extensions.mkdir(parents=True)
    (extensions / "jupyter-ddl").symlink_to(PANEL)
    given = {**(more or {}), **variables}
    with Server(folder, "--expose-app-in-browser", module=module, variables=given, base_url=base_url) as server:
        yield Lab(server, server.notebooks)


def launch(kind: BrowserType, *, has_scroll_bars: bool = False) -> Browser:
    """Start a Chromium.

    Args:
        kind: of the one Playwright that a process can have.
        has_scroll_bars: as most desktops have them, which take room; without, they lie over what they scroll.
    """
    hides = ["--hide-scrollbars"] if has_scroll_bars else []
    return kind.launch(executable_path=CHROMIUM, args=list(FLAGS), ignore_default_args=hides)


@contextmanager
def chromium(*, has_scroll_bars: bool = False) -> Iterator[Browser]:
    """Run Playwright and a Chromium, as `launch` starts it."""
    with sync_playwright() as playwright:
        browser = launch(playwright.chromium, has_scroll_bars=has_scroll_bars)
        try:
            yield browser
        finally:
            browser.close()


def command(page: Page, name: str, **arguments: str) -> None:
    """Run one of JupyterLab's commands to its end."""
    page.evaluate("([name, args]) => window.jupyterapp.commands.execute(name, args)", [name, arguments])


def set_theme(page: Page, *, dark: bool) -> None:
    command(page, "apputils:change-theme", theme="JupyterLab Dark" if dark else "JupyterLab Light")
    page.wait_for_function(f"document.body.dataset.jpThemeLight === '{'false' if dark else 'true'}'")


def number(text: str) -> float:
    """Return the first number in a text such as '8,533 on 8 ranks'."""
    found = re.search(r"[\d,]+(?:\.\d+)?", text)
    assert found, text
    return float(found.group().replace(",", ""))
