"""What stands in a run's output, and how often the hub is asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import recorded
from playwright.sync_api import expect

if TYPE_CHECKING:
    from lab import Lab
    from playwright.sync_api import Page, Request

pytestmark = pytest.mark.usefixtures("gone")

IS_GONE = "import shutil; shutil.rmtree(recorded.paths.runs_dir() / recorded.RUN, ignore_errors=True)"
IS_THERE = f"{IS_GONE}\nrecorded.record(recorded.RUN, 2, 20)"
# At each change of an output JupyterLab renders it again, or makes a new renderer.
CODE = """
import time
import recorded
from jupyter_ddl.views.dashboard import Dashboard
from jupyter_ddl.views.publish import JupyterPublisher
{first}
dashboard = Dashboard(JupyterPublisher(get_ipython()))
for event in recorded.run(2, 20):
    if not event.type.startswith(("run_finished", "rank_finished")):
        dashboard.handle(event)
dashboard.tick(1.0)
for _ in range(20):
    time.sleep(0.1)
    dashboard._publish(dashboard._widget.model_id)
print("all")
"""
OUTPUT = ".jp-Notebook .jp-OutputArea"
# A line of each rank and second, and one that hostile code prints.
SECONDS = 16
LIVE = f"""
import recorded
from jupyter_ddl.views.dashboard import Dashboard
from jupyter_ddl.views.publish import JupyterPublisher
{IS_GONE}
dashboard = Dashboard(JupyterPublisher(get_ipython()))
recorded.feed(recorded.Kept(dashboard, 2), 2, {SECONDS}, pace_s=0.5)
print("widget", dashboard._widget.model_id)
"""
# Counts the hub's batches and those that the page unpacks, holds their bytes, and lets a test close the hub's sockets.
COUNTED = """
window.counted = { frames: [], read: 0, sockets: [] };
const Stock = window.WebSocket;
window.WebSocket = class extends Stock {
  constructor(...of) {
    super(...of);
    if (this.url.includes('/jupyter-ddl/live')) {
      window.counted.sockets.push(this);
      this.addEventListener('message', ({ data }) => data instanceof ArrayBuffer && window.counted.frames.push(data));
    }
  }
};
const mark = performance.mark.bind(performance);
performance.mark = (name, ...more) => {
  window.counted.read += name === 'ddl-batch' ? 1 : 0;
  return mark(name, ...more);
};
"""


@pytest.mark.parametrize("is_there", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_hub_is_asked_once_however_often_the_output_changes(lab: Lab, page: Page, is_there: bool) -> None:
    asked: list[str] = []

    def note(request: Request) -> None:
        if request.url.partition("?")[0].endswith(f"/runs/{recorded.RUN}"):
            asked.append(request.url)

    page.on("request", note)
    lab.write("asked.ipynb", CODE.format(first=IS_THERE if is_there else IS_GONE))
    lab.open(page, "asked.ipynb")
    lab.run_all(page)
    page.wait_for_selector(f"{OUTPUT} .ddl-dashboard", timeout=60_000)
    expect(page.locator(OUTPUT)).to_contain_text("all", timeout=30_000)
    lab.wait_until_idle(page)
    assert len(asked) == 1


def test_each_event_is_read_once_though_hub_and_kernel_have_it_and_none_is_lost_with_the_hub(
    lab: Lab, page: Page
) -> None:
    page.add_init_script(COUNTED)
    lab.write("once.ipynb", LIVE)
    lab.open(page, "once.ipynb")
    lab.run_all(page)
    page.wait_for_selector(f"{OUTPUT} .ddl-dashboard .ddl-value", timeout=60_000)
    page.evaluate("window.counted.sockets.at(-1).close()")
    page.wait_for_function("window.counted.sockets.length > 1 && window.counted.sockets.at(-1).readyState === 1")
    told = page.locator(OUTPUT).filter(has_text="widget ")
    told.wait_for(timeout=60_000)
    expect(page.locator(".ddl-log .ddl-count")).to_have_text(f"{1 + 2 * SECONDS} lines", timeout=30_000)
    widget = told.inner_text().rpartition("widget ")[2].split()[0]
    has_widget = "id => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.hasComm(id)"
    assert page.evaluate(has_widget, widget), "the kernel has told the page of the same events"
    frames, read = page.evaluate("[window.counted.frames.map(({ byteLength }) => byteLength), window.counted.read]")
    assert len(frames) == read > 1
    assert set(frames) == {0}, "their bytes must not wait for the browser to collect garbage"


def test_a_run_that_no_server_and_no_kernel_has_says_so(lab: Lab, page: Page) -> None:
    lab.write("lost.ipynb", CODE.format(first=IS_GONE))
    lab.open(page, "lost.ipynb")
    lab.run_all(page)
    page.wait_for_selector(f"{OUTPUT} .ddl-dashboard", timeout=60_000)
    lab.wait_until_idle(page)
    lab.save(page)
    # Its kernel has the widget.
    page.reload()
    page.wait_for_selector(f"{OUTPUT} .ddl-dashboard", timeout=60_000)
    lab.end_kernels()
    page.reload()
    told = page.locator(OUTPUT).filter(has_text="This server does not have the run, and the notebook was saved")
    told.wait_for(timeout=60_000)
    assert "Error displaying" not in page.locator(".jp-Notebook").inner_text()


def test_a_page_that_is_older_than_the_panel_says_so(lab: Lab, page: Page) -> None:
    lab.write("older.ipynb", CODE.format(first=IS_THERE))
    lab.open(page, "older.ipynb")
    # As after an update: the files that the page knows of are not there any more.
    page.route("**/extensions/jupyter-ddl/static/*.js*", lambda route: route.abort())
    lab.run_all(page)
    told = page.locator(OUTPUT).filter(has_text="The panel was updated since this page was loaded.")
    told.wait_for(timeout=60_000)
    lab.wait_until_idle(page)
    page.unroute("**/extensions/jupyter-ddl/static/*.js*")
    lab.save(page)
    page.reload()
    page.wait_for_selector(f"{OUTPUT} .ddl-dashboard", timeout=60_000)
