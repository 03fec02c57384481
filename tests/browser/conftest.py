from __future__ import annotations

import re
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import recorded
from lab import CHROMIUM, PANEL, chromium, jupyterlab

from jupyter_ddl.views.browser_files import ESM

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from lab import Lab
    from playwright.sync_api import Browser, Page, WebError


CLOSE_ALL_BUT_THE_NOTEBOOK = """() => {
  const { shell } = window.jupyterapp;
  for (const widget of [...shell.widgets('main')]) {
    if (widget.context?.path === 'shared.ipynb') {
      shell.activateById(widget.id);
    } else {
      widget.dispose();
    }
  }
}"""


# JupyterLab's own: a splash that is shown twice within 200 ms, as on a slow machine, is removed twice, in a timer that
# nothing else calls. Source: jupyterlab 4, packages/apputils-extension/src/index.ts, Private.createSplash
SPLASH = re.compile(r"'removeChild' on 'Node'[^\n]*\n[^\n]*\n +at \S+/static/lab/jlab_core\.\S+$")
# JupyterLab's own too: a test that ends closes pages whose session is still starting.
# Source: jupyterlab 4, packages/apputils/src/sessioncontext.tsx, SessionContext._handleNewSession
CLOSED = re.compile(r"^Disposed\nError: Disposed\n +at \S+\._handleNewSession \(\S+/static/lab/jlab_core\.")


# Characters of a page with a failure.
SHOWN = 6000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("browser")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with each failure what its pages showed: they are closed when it is read."""
    report = yield
    if report.failed:
        report.sections.extend(("A page", shown) for shown in _shown_pages(item))
    return report


def _shown_pages(item: pytest.Item) -> Iterator[str]:
    from playwright.sync_api import Error, Page

    for page in {value for value in getattr(item, "funcargs", {}).values() if isinstance(value, Page)}:
        try:
            yield f"{page.url}\n{page.locator('body').inner_text(timeout=5000)[:SHOWN]}"
        except Error as error:
            yield f"{page.url}: {error.message}"


@pytest.fixture(scope="session", autouse=True)
def needed() -> None:
    if not Path(CHROMIUM).exists():
        pytest.skip(f"{CHROMIUM} is not there: apt-get install chromium")
    from playwright.sync_api import expect

    # As long as Playwright waits for all else: its own 5 s are over where a search starts a process on a busy machine.
    expect.set_options(timeout=30_000)
    assert ESM.is_file(), "the dashboard is not built: make dashboard"
    assert (PANEL / "package.json").is_file(), "the panel is not built: make dashboard"


@pytest.fixture(scope="session")
def lab(needed: None) -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="ddl-lab-") as folder, jupyterlab(Path(folder)) as running:
        yield running


@pytest.fixture(scope="session")
def browser(needed: None) -> Iterator[Browser]:
    with chromium() as running:
        yield running


@contextmanager
def own_page(browser: Browser) -> Iterator[tuple[Page, list[str]]]:
    """Give a page of a browser of its own, and a list of what it and others of its browser raise."""
    context = browser.new_context(viewport={"width": 1400, "height": 1200})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    raised: list[str] = []

    def note(error: WebError) -> None:
        told = f"{error.error}\n{error.error.stack}"
        if not SPLASH.search(told) and not CLOSED.search(told):
            raised.append(told)

    context.on("weberror", note)
    yield context.new_page(), raised
    context.close()


@pytest.fixture
def gone() -> Iterator[None]:
    """Leave no run of this id: other files' pages would show it in place of their kernel's."""
    yield
    shutil.rmtree(recorded.paths.runs_dir() / recorded.RUN, ignore_errors=True)


@pytest.fixture
def page(browser: Browser, lab: Lab) -> Iterator[Page]:
    """A page that must not raise, nor others of its browser, and kernels that end with the test."""
    with own_page(browser) as (page, raised):
        yield page
    lab.end_kernels()
    assert not raised


@pytest.fixture(scope="session")
def tab(browser: Browser) -> Iterator[tuple[Page, list[str]]]:
    """A page for all files: what it has compiled of JupyterLab once, it has when it loads it again."""
    with own_page(browser) as found:
        yield found


@pytest.fixture(scope="module")
def shared(tab: tuple[Page, list[str]], lab: Lab) -> Iterator[tuple[Page, list[str]]]:
    """A notebook of one cell for all tests of a file: JupyterLab takes seconds to come up, and its kernel another."""
    page, raised = tab
    lab.write("shared.ipynb", "1")
    lab.open(page, "shared.ipynb")
    yield page, raised
    page.goto("about:blank")
    lab.end_kernels()
    raised.clear()


@pytest.fixture
def notebook(lab: Lab, shared: tuple[Page, list[str]]) -> Iterator[Page]:
    """The file's notebook, which must not raise, and which the next test has as this one had it."""
    page, raised = shared
    yield page
    for other in page.context.pages:
        if other is not page:
            other.close()
    lab.interrupt_kernels()
    lab.wait_until_ended(page)
    page.evaluate(CLOSE_ALL_BUT_THE_NOTEBOOK)
    page.set_viewport_size({"width": 1400, "height": 1200})
    found = raised.copy()
    raised.clear()
    assert not found
