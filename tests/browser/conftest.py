from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lab import CHROMIUM, PANEL, chromium, jupyterlab

from jupyter_ddl.views.browser_files import ESM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab import Lab
    from playwright.sync_api import Browser, Page


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("browser")


@pytest.fixture(scope="session", autouse=True)
def needed() -> None:
    if not Path(CHROMIUM).exists():
        pytest.skip(f"{CHROMIUM} is not there: apt-get install chromium")
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


@pytest.fixture
def page(browser: Browser, lab: Lab) -> Iterator[Page]:
    """A page that must not raise, nor others of its browser, and kernels that end with the test."""
    context = browser.new_context(viewport={"width": 1400, "height": 1200})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    raised: list[str] = []
    context.on("weberror", lambda error: raised.append(str(error.error)))
    yield context.new_page()
    context.close()
    lab.end_kernels()
    assert not raised
