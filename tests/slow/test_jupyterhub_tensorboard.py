"""TensorBoard of a user of a real JupyterHub: in that user's browser, by JupyterHub's own login, and in no other's.

It takes what `test_jupyterhub.py` takes, and Chromium.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import sync_playwright
from real_jupyterhub import PYTHON, RealJupyterHub

from jupyter_ddl.tensorboard.event_files import EventFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.slow, pytest.mark.browser]

CHROMIUM = "/usr/bin/chromium"
# As JupyterLab asks: with the cookie and its XSRF token.
OPEN = """async ([address, folder]) => {
  const token = document.cookie.split('; ').filter(one => one.startsWith('_xsrf=')).map(one => one.slice(6)).pop();
  const body = JSON.stringify({ folder });
  const answer = await fetch(address, { method: 'POST', body, headers: { 'X-XSRFToken': token } });
  return [answer.status, await answer.json()];
}"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealJupyterHub]:
    python = os.environ.get(PYTHON)
    if not python or shutil.which("configurable-http-proxy") is None or not Path(CHROMIUM).exists():
        pytest.skip(f"{PYTHON} names no python with jupyterhub, or configurable-http-proxy or Chromium is not there")
    with RealJupyterHub(tmp_path_factory.mktemp("jupyterhub"), python) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


def page_of(browser: Browser, hub: RealJupyterHub, user: str) -> Page:
    """Log in as a user does."""
    page = browser.new_context(viewport={"width": 1400, "height": 1000}).new_page()
    page.goto(f"{hub.url}/hub/login")
    page.get_by_label("Username").fill(user)
    page.get_by_label("Password").fill("any")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{hub.server(user)}/**")
    # A page that the server shows to its user alone: the server then has JupyterHub say who it is.
    page.goto(f"{hub.server(user)}/files/none")
    page.wait_for_url(f"{hub.server(user)}/files/none")
    # That one may run no scripts that know its cookies.
    page.goto(f"{hub.server(user)}/")
    return page


def test_a_user_sees_charts_and_another_user_nothing(hub: RealJupyterHub, browser: Browser, tmp_path: Path) -> None:
    files = EventFiles(tmp_path)
    for step in range(5):
        files.add("train", 1_700_000_000.0 + step, step, {"loss": 1 / (step + 1)})
    files.flush()
    page = page_of(browser, hub, "alice")
    opened: Any = page.evaluate(OPEN, ["/user/alice/jupyter-ddl/boards", str(tmp_path)])
    status, answer = opened
    assert status == 200, answer
    assert answer["path"].startswith("/user/alice/jupyter-ddl/tensorboard/")
    page.goto(f"{hub.url}{answer['path']}")
    card = page.locator("scalar-card").first
    card.get_by_text("train", exact=True).wait_for(timeout=90_000)
    assert card.locator("line-chart :is(canvas, svg path)").count() > 0
    other = page_of(browser, hub, "bob")
    for address in (answer["path"], f"{answer['path']}data/runs"):
        reply = other.goto(f"{hub.url}{address}")
        assert reply is not None
        assert reply.status == 403
        assert "train" not in other.content()
