"""How far a training is, where it is seen with the notebook out of sight: status bar, tab's title, desktop."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import recorded
from lab import command
from panel import show_panel
from playwright.sync_api import expect
from told_kernel import ToldKernel, rank

if TYPE_CHECKING:
    from lab import Lab
    from playwright.sync_api import Page

KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id"
TOGGLE = "jupyter-ddl:toggle-desktop-notifications"
# In place of the browser's own, whose answer and whose desktop are not the page's: what it is asked and given is noted.
STUB = """() => {
  window.asked = 0;
  window.told = [];
  window.Notification = class {
    static permission = 'default';
    static async requestPermission() {
      window.asked += 1;
      return this.permission = 'granted';
    }
    constructor(title, { body, tag }) {
      Object.assign(this, { title, body, tag });
      window.told.push(this);
    }
    close() {}
  };
}"""
HIDE = """isHidden => {
  Object.defineProperty(document, 'hidden', { value: isHidden, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
}"""


def test_progress_is_in_status_bar_and_title_and_the_end_is_told_on_the_desktop(lab: Lab, notebook: Page) -> None:
    page = notebook
    page.evaluate(STUB)
    lab.wait_until_idle(page)
    page.wait_for_function("document.title.startsWith('shared.ipynb')")
    title = page.title()
    run = recorded.record("2026-11-22T02-00-00-default-9009", 4, 40, over=False)
    ranks = [rank(at, state="running") for at in range(4)]
    with ToldKernel(lab, page.evaluate(KERNEL)) as kernel:
        kernel.tell(ranks, state="running", run=run.name)
        status = page.locator(".ddl-status-button")
        status.filter(has_text="epoch 4 of 12").wait_for()
        assert status.inner_text() == "4 ranks · epoch 4 of 12, 2 min left"
        page.wait_for_function("title => document.title === `4/12 ${title}`", arg=title)
        # JupyterLab writes the title of each page that comes to the front; no event of the run follows here.
        command(page, "launcher:create")
        page.wait_for_function("!document.title.includes('shared.ipynb')")
        command(page, "docmanager:open", path="shared.ipynb")
        page.wait_for_function("title => document.title === `4/12 ${title}`", arg=title)
        # Its title is what one sees of a page that is hidden.
        page.evaluate(HIDE, True)
        sample, *_ = recorded.second(4, 51)
        recorded.append(run, replace(sample, at_s=time.time()))
        page.wait_for_function("title => document.title === `5/12 ${title}`", arg=title)
        kernel.notice(run.name, "finished", seconds=185.0, cell="none")
        assert page.evaluate("[window.asked, window.told.length]") == [0, 0]
        command(page, TOGGLE)
        page.wait_for_function("window.asked === 1")
        kernel.notice(run.name, "finished", seconds=4.0, cell="none")
        kernel.notice(run.name, "finished", seconds=185.0, cell="none")
        page.wait_for_function("window.told.length === 1")
        text = page.evaluate("(({ title, body, tag }) => [title, body, tag])(window.told[0])")
        assert text == ["shared.ipynb", "finished after 3 min 5 s, loss 0.21", run.name]
        page.evaluate("window.told[0].onclick()")
        kernel.tell(ranks, run=None)
        page.wait_for_function("title => document.title === title", arg=title)
        page.evaluate(HIDE, False)
        kernel.notice(run.name, "finished", seconds=185.0, cell="none")
        kernel.tell(ranks, state="rebuilding")
        status.filter(has_text="4 ranks · rebuilding").wait_for()
        assert page.evaluate("window.told.length") == 1
    command(page, TOGGLE)
    # The run's dashboard says it too.
    command(page, "jupyter-ddl:open-run", run=run.name)
    expect(page.locator(".ddl-page .ddl-progress")).to_have_text(re.compile("^epoch 5 of 12, .+ left$"), timeout=60_000)


def test_what_devices_and_links_carry_is_told_with_ranks_and_hosts(lab: Lab, notebook: Page) -> None:
    page = notebook
    lab.wait_until_idle(page)
    run = recorded.record("2026-11-22T02-00-00-default-90a7", 2, 5, over=False)
    panel = show_panel(page)
    with ToldKernel(lab, page.evaluate(KERNEL)) as kernel:
        ranks = [rank(at, state="running", host=f"node{at}") for at in range(2)]
        kernel.tell(ranks, state="running", run=run.name)
        rows = panel.locator(".ddl-rank-list .ddl-rank-row:not([hidden])")
        rows.filter(has_text="/s").nth(1).wait_for(timeout=60_000)
        device = {"gpu_watts": 311.0, "gpu_celsius": 61.0, "nvlink_received_bytes_per_s": 45e9}
        links = {"nvlink_sent_bytes_per_s": 44e9, "network_received_bytes_per_s": 1.25e9}
        sample, *_ = recorded.second(2, 6)
        told = replace(sample, at_s=time.time(), **device, **links, network_sent_bytes_per_s=1.2e9)
        recorded.append(run, told)
        row = rows.filter(has=page.locator(".ddl-rank-name", has_text=re.compile("^0$")))
        carried = "311 W, 61 °C, NVLink ↓45 GB/s ↑44 GB/s\nnetwork ↓1.25 GB/s ↑1.2 GB/s"
        expect(row).to_have_attribute("title", re.compile(f"{re.escape(carried)}$"), timeout=60_000)
        # A heading for each host has its network.
        heading = panel.locator(".ddl-host-heading:not([hidden])").filter(has_text="node0")
        expect(heading).to_contain_text("network ↓1.25 GB/s ↑1.2 GB/s")
