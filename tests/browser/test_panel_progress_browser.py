"""How far a training is, where it is seen with the notebook out of sight: status bar, tab's title, desktop."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import recorded
from lab import command
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
