"""Keys: JupyterLab's work wherever the focus is in what is ours, and the list of runs is one stop of the Tab key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import recorded
from lab import command, number
from panel import PANEL, serious, show_panel
from told_kernel import ToldKernel, rank

if TYPE_CHECKING:
    from lab import Lab
    from playwright.sync_api import Page

# Notes which keys nobody took, as the browser would act on them.
WATCH = """() => {
  window.untaken = [];
  window.addEventListener('keydown', event => {
    if (!event.defaultPrevented && event.key.length === 1) {
      window.untaken.push(event.key);
    }
    event.preventDefault();
  });
}"""
FOCUSED = "document.activeElement.closest('.ddl-run-row')?.querySelector('button').title"
KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id"


def test_keys_of_jupyterlab_work_in_a_runs_page_its_log_and_the_field_of_a_cell(lab: Lab, page: Page) -> None:
    run = recorded.record("2026-11-13T02-00-00-default-4e45", 2, 5)
    lab.write("keys.ipynb", "%%distributed\na = 1", "b = 2")
    lab.open(page, "keys.ipynb")
    # JupyterLab closes its palette when any command has run, and its help menu runs one whenever a notebook gets a kernel.
    # Source: jupyterlab 4.6, packages/apputils/src/commandpalette.ts (ModalCommandPalette), packages/help-extension/src/index.tsx
    lab.wait_until_idle(page)
    show_panel(page)
    cells = "window.jupyterapp.shell.currentWidget.content.widgets.length"
    palette = page.locator(".jp-modal-command-palette, #modal-command-palette")

    def check(where: str) -> None:
        page.evaluate("window.untaken = []")
        page.keyboard.press("Control+s")
        assert page.evaluate("window.untaken") == [], where
        page.keyboard.press("Control+Shift+c")
        palette.locator("input").wait_for(timeout=30_000)
        page.keyboard.press("Escape")
        palette.locator("input").wait_for(state="hidden")

    # In the toolbar's field.
    field = page.get_by_label("Ranks that the cell runs on")
    field.click()
    page.evaluate(WATCH)
    check("the field")
    field.click()
    page.keyboard.press("d")
    page.keyboard.press("d")
    assert page.evaluate(cells) == 2
    for name, inside in (
        (
            "jupyter-ddl:open-run",
            (".ddl-page .ddl-lines", ".ddl-page .ddl-log-bar input[type='text']", ".ddl-page .ddl-rows"),
        ),
        ("jupyter-ddl:open-log", (".ddl-log-page .ddl-lines", ".ddl-log-page input[type='text']")),
    ):
        command(page, name, run=run.name)
        for selector in inside:
            part = page.locator(f".jp-MainAreaWidget:not(.lm-mod-hidden) {selector}").first
            part.wait_for()
            part.click()
            check(selector)


def test_the_list_of_runs_is_one_stop_with_arrows_and_all_of_it_has_names(lab: Lab, page: Page) -> None:
    for at in range(30):
        recorded.record(f"2026-09-01T02-00-{at:02d}-arrows-{at:04x}", 2, 1)
    lab.write("arrows.ipynb", "1")
    lab.open(page, "arrows.ipynb")
    panel = show_panel(page)
    search = panel.get_by_label("Search runs")
    search.fill("arrows")
    page.wait_for_function("document.querySelector('.ddl-run-list .ddl-space').offsetHeight === 30 * 42")
    # Nothing is chosen: the next stop is the list, and the one after it is beyond.
    search.focus()
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == "2026-09-01T02-00-29-arrows-001d"
    for key, at in (("ArrowDown", 28), ("ArrowDown", 27), ("End", 0), ("ArrowUp", 1), ("Home", 29), ("ArrowDown", 28)):
        page.keyboard.press(key)
        assert page.evaluate(FOCUSED) == f"2026-09-01T02-00-{at:02d}-arrows-{at:04x}", key
    # Scrolled out of sight it is where it was, and comes back with the next key.
    body = panel.locator(".ddl-run-list")
    body.evaluate("list => { list.scrollTop = list.scrollHeight; }")
    page.wait_for_timeout(300)
    assert page.evaluate(FOCUSED) is None
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(FOCUSED) == "2026-09-01T02-00-28-arrows-001c"
    page.keyboard.press("Space")
    box = panel.get_by_role("checkbox", name="arrows-001c")
    assert box.is_checked()
    named = box.get_attribute("aria-label") or ""
    assert named.startswith("Choose the run of ")
    assert ", finished (" in named
    # A run that begins keeps the focus where it is.
    begun = recorded.record("2026-11-12T02-00-00-arrows-beef", 2, 1)
    with ToldKernel(lab, "arrows") as kernel:
        kernel.notice(begun.name)
        page.wait_for_function("document.querySelector('.ddl-run-list .ddl-space').offsetHeight === 31 * 42")
        assert page.evaluate(FOCUSED) == "2026-09-01T02-00-28-arrows-001c"
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) is None
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(FOCUSED) == "2026-09-01T02-00-28-arrows-001c"
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(FOCUSED) is None
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    shown = ".jp-MainAreaWidget:not(.lm-mod-hidden) .ddl-page"
    page.locator(f"{shown} .ddl-value").first.wait_for()
    assert serious(page, PANEL) == []
    rules = "within => axe.run(within, {runOnly: ['heading-order', 'landmark-banner-is-top-level']})"
    for within in (shown, PANEL):
        found = page.evaluate(f"within => ({rules})(within).then(found => found.violations.map(one => one.id))", within)
        assert found == []


def test_pages_come_back_as_they_were(lab: Lab, page: Page) -> None:
    run = recorded.record("2026-11-11T02-00-00-default-baac", 2, 5)
    lab.write("back.ipynb", "1")
    lab.open(page, "back.ipynb")
    lab.wait_until_idle(page)
    show_panel(page)
    kernel_id = page.evaluate(KERNEL)
    with ToldKernel(lab, kernel_id) as kernel:
        kernel.tell([rank(0), rank(1)])
        command(page, "jupyter-ddl:stacks-of", kernel=kernel_id)
        heading = page.locator(".ddl-page h2")
        heading.filter(has_text="Where the ranks of default are").wait_for()
        page.evaluate("run => void window.jupyterapp.commands.execute('jupyter-ddl:open-log', {run})", run.name)
        ranks = page.locator(".ddl-log-page select")
        page.wait_for_function("document.querySelector('.ddl-log-page select')?.value === '0'")
        # One that is open shows the rank that is asked for, and how long logs are by now.
        ask = "run => void window.jupyterapp.commands.execute('jupyter-ddl:open-log', {run, rank: 1})"
        page.evaluate(ask, run.name)
        page.wait_for_function("document.querySelector('.ddl-log-page select').value === '1'")
        (run / "rank-1.log").write_text("x" * 5_000 + "\n")
        ranks.focus()
        page.wait_for_function(
            "document.querySelector('.ddl-log-page select').selectedOptions[0].text.includes('5 KB')"
        )
        page.wait_for_timeout(2_000)
        page.reload()
        heading.filter(has_text="Where the ranks of default are").wait_for(state="attached", timeout=60_000)
        page.wait_for_function("document.querySelector('.ddl-log-page select')?.value === '1'", timeout=30_000)


def test_a_run_that_did_not_train_has_no_empty_charts(lab: Lab, page: Page) -> None:
    folder = recorded.record("2026-11-10T02-00-00-default-ba4e", 2, 0)
    lab.write("bare.ipynb", "1")
    lab.open(page, "bare.ipynb")
    show_panel(page)
    command(page, "jupyter-ddl:open-run", run=folder.name)
    page.locator(".ddl-page").get_by_text("This cell did not train.").first.wait_for()
    for part in (".ddl-tiles", ".ddl-charts"):
        page.locator(f".ddl-page {part}").wait_for(state="hidden")
    assert page.locator(".ddl-page .ddl-lines").is_visible()
    # How much there is, whatever of it the page has.
    (folder / "rank-0.log").write_text("x" * 2_000_000)
    page.locator(".ddl-page").get_by_role("button", name="Whole logs (0 B)").wait_for()
    page.reload()
    page.locator(".ddl-page").get_by_role("button", name="Whole logs (2 MB)").wait_for(timeout=60_000)


def test_a_page_that_is_loaded_again_has_the_run_and_its_lines(lab: Lab, page: Page) -> None:
    run = recorded.record("2026-11-09T02-00-00-default-a9a1", 2, 60, over=False)
    lab.write("again.ipynb", "1")
    lab.open(page, "again.ipynb")
    command(page, "jupyter-ddl:open-run", run=run.name)
    lines = page.locator(".ddl-page .ddl-line-text")
    lines.filter(has_text="step 480 loss").first.wait_for(timeout=60_000)
    lab.wait_until_restorable(page, run.name)
    page.reload()
    lines.first.wait_for(timeout=60_000)
    page.get_by_role("checkbox", name="follow").uncheck()
    page.locator(".ddl-page .ddl-lines").evaluate("lines => { lines.scrollTop = 0; }")
    for step in (8, 16, 40):
        of_both = lines.filter(has_text=re.compile(f"^step {step} loss "))
        of_both.nth(1).wait_for(timeout=30_000)
    # It continues.
    count = page.locator(".ddl-page .ddl-count")
    before = number(count.inner_text())
    recorded.append(run, *recorded.second(2, 61))
    page.wait_for_function(
        "before => parseFloat(document.querySelector('.ddl-page .ddl-count').textContent) > before", arg=before
    )
