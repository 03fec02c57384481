"""Keys: JupyterLab's work wherever the focus is in what is ours, and the list of runs is one stop of the Tab key.

And pages come back when JupyterLab is loaded again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import recorded
from lab import command, number
from panel import PANEL, axe_findings, show_panel
from told_kernel import ToldKernel, rank

from jupyter_ddl.protocol.faults import Frame
from jupyter_ddl.protocol.rank_answers import RankProfile
from jupyter_ddl.views.merged_profile import merge
from jupyter_ddl.views.profile_text import panel_profile

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Locator, Page

# Notes which keys no command took, as the browser would act on them, until `window.watching` is aborted.
WATCH = """() => {
  window.untaken = [];
  window.watching = new AbortController();
  const note = event => {
    if (!event.defaultPrevented && event.key.length === 1) {
      window.untaken.push(event.key);
    }
    event.preventDefault();
  };
  window.addEventListener('keydown', note, { signal: window.watching.signal });
}"""
FOCUSED = "document.activeElement.closest('.ddl-run-row')?.querySelector('button').title.split('\\n')[0]"
SHOWN = ".jp-MainAreaWidget:not(.lm-mod-hidden) .ddl-page"
KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id"


@pytest.fixture
def page(notebook: Page) -> Page:
    """The notebook that all tests share."""
    return notebook


def test_keys_of_jupyterlab_work_in_a_runs_page_its_log_and_the_field_of_a_cell(lab: Lab, page: Page) -> None:
    run = recorded.record("2026-11-13T02-00-00-default-4e45", 2, 5)
    lab.set_code(page, "%%distributed\na = 1")
    command(page, "notebook:insert-cell-below")
    page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0")
    # JupyterLab closes its palette when any command has run, and its help menu runs one when a notebook gets a kernel.
    # Source: jupyterlab 4.6, ModalCommandPalette in packages/apputils/src/commandpalette.ts, and help-extension
    lab.wait_until_idle(page)
    show_panel(page)
    cells = "window.jupyterapp.shell.currentWidget.content.widgets.length"
    palette = page.locator(".jp-modal-command-palette, #modal-command-palette")

    def check(where: str) -> None:
        page.evaluate("window.untaken = []")
        page.keyboard.press("Control+s")
        assert page.evaluate("window.untaken") == [], where

    def check_palette() -> None:
        page.keyboard.press("Control+Shift+c")
        palette.locator("input").wait_for(timeout=30_000)
        page.keyboard.press("Escape")
        palette.locator("input").wait_for(state="hidden")

    # In the toolbar's field.
    field = page.get_by_label("Ranks that the cell runs on")
    field.click()
    page.evaluate(WATCH)
    check("the field")
    check_palette()
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
    # In the field of a log. Which other keys go through, labextension/test/keys.test.ts holds.
    check_palette()
    page.evaluate("window.watching.abort()")


def test_the_list_of_runs_is_one_stop_with_arrows_and_all_of_it_has_names(lab: Lab, page: Page) -> None:
    for at in range(30):
        recorded.record(f"2026-09-01T02-00-{at:02d}-arrows-{at:04x}", 2, 1)
    panel = show_panel(page)
    search = panel.get_by_label("Search runs")
    search.fill("arrows")
    page.wait_for_function("document.querySelector('.ddl-run-list .ddl-space').offsetHeight === 30 * 42 + 26")
    # Nothing is chosen: after what is beside the field the next stop is the list, and the one after it is beyond.
    search.focus()
    for _ in ("clear", "filter", "the list"):
        page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == "2026-09-01T02-00-29-arrows-001d"
    for key, at in (("ArrowDown", 28), ("ArrowDown", 27), ("End", 0), ("ArrowUp", 1), ("Home", 29), ("ArrowDown", 28)):
        page.keyboard.press(key)
        assert page.evaluate(FOCUSED) == f"2026-09-01T02-00-{at:02d}-arrows-{at:04x}", key
    # Scrolled out of sight it is where it was, and comes back with the next key.
    body = panel.locator(".ddl-run-list")
    body.evaluate("list => { list.scrollTop = list.scrollHeight; }")
    panel.get_by_role("checkbox", name="arrows-0000").wait_for()
    assert page.evaluate(FOCUSED) == "2026-09-01T02-00-28-arrows-001c"
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
        page.wait_for_function("document.querySelector('.ddl-run-list .ddl-space').offsetHeight === 31 * 42 + 26")
        assert page.evaluate(FOCUSED) == "2026-09-01T02-00-28-arrows-001c"
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) is None
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(FOCUSED) == "2026-09-01T02-00-28-arrows-001c"
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(FOCUSED) is None
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator(f"{SHOWN} .ddl-value").first.wait_for()
    assert axe_findings(page, PANEL) == []
    rules = "within => axe.run(within, {runOnly: ['heading-order', 'landmark-banner-is-top-level']})"
    for within in (SHOWN, PANEL):
        found = page.evaluate(f"within => ({rules})(within).then(found => found.violations.map(one => one.id))", within)
        assert found == []


def open_stacks(page: Page, kernel_id: str) -> Locator:
    """Open the page of where a kernel's ranks are; return its heading."""
    command(page, "jupyter-ddl:stacks-of", kernel=kernel_id)
    heading = page.locator(".ddl-page h2").filter(has_text="Where the ranks of default are")
    heading.wait_for()
    return heading


def open_log_of_rank_1(page: Page, run: Path) -> None:
    page.evaluate("run => void window.jupyterapp.commands.execute('jupyter-ddl:open-log', {run})", run.name)
    ranks = page.locator(".ddl-log-page select")
    page.wait_for_function("document.querySelector('.ddl-log-page select')?.value === '0'")
    # One that is open shows the rank that is asked for, and how long logs are by now.
    ask = "run => void window.jupyterapp.commands.execute('jupyter-ddl:open-log', {run, rank: 1})"
    page.evaluate(ask, run.name)
    page.wait_for_function("document.querySelector('.ddl-log-page select').value === '1'")
    (run / "rank-1.log").write_text("x" * 4_999 + "\n")
    ranks.focus()
    page.wait_for_function("document.querySelector('.ddl-log-page select').selectedOptions[0].text.includes('5 kB')")


def open_run_without_training(page: Page, run: Path) -> None:
    command(page, "jupyter-ddl:open-run", run=run.name)
    page.locator(SHOWN).get_by_text("This cell did not train.").first.wait_for()
    # It has no empty charts.
    for part in (".ddl-tiles", ".ddl-charts"):
        page.locator(f"{SHOWN} {part}").wait_for(state="hidden")
    assert page.locator(f"{SHOWN} .ddl-lines").is_visible()
    # How much there is, whatever of it the page has.
    (run / "rank-0.log").write_text("x" * 2_000_000)
    page.locator(SHOWN).get_by_role("button", name="Whole logs (0 B)").wait_for()


def see_the_whole_run_and_more(page: Page, run: Path) -> None:
    """See the lines of a run that is not over, from its first second on, and that more come."""
    lines = page.locator(f"{SHOWN} .ddl-line-text")
    lines.first.wait_for(timeout=60_000)
    page.locator(SHOWN).get_by_role("checkbox", name="follow").uncheck()
    page.locator(f"{SHOWN} .ddl-lines").evaluate("lines => { lines.scrollTop = 0; }")
    for step in (8, 16, 40):
        of_both = lines.filter(has_text=re.compile(f"^step {step} loss "))
        of_both.nth(1).wait_for(timeout=30_000)
    count = f"{SHOWN} .ddl-count"
    before = number(page.locator(count).inner_text())
    recorded.append(run, *recorded.second(2, 61))
    more = "([count, before]) => parseFloat(document.querySelector(count).textContent) > before"
    page.wait_for_function(more, arg=[count, before])


def profile_of(ranks: int, odd: int) -> dict[str, Any]:
    """Return a profile of ranks, one of which loads while the others wait for it."""
    file = "/tmp/ipykernel_7/1.py"
    library = "/x/lib/python3.11/site-packages/keras/src/backend/tensorflow/trainer.py"
    frames = (
        Frame(file, 9, "<module>", "train(model, data)"),
        Frame(file, 4, "train", "batch = load(data, step)"),
        Frame(file, 5, "train", "model.train_on_batch(*batch) & <b>more</b>"),
        Frame(library, 121, "one_step_on_data"),
        Frame(library, 77, "train_step"),
    )

    def of(rank: int) -> RankProfile:
        loads = 400 if rank == odd else 20
        counts = (0, loads, 10, 90, 395 - loads)
        return RankProfile("look", rank, "a", 500, 495, frames, (-1, 0, 0, 2, 3), (0, 1, 2, 3, 4), counts)

    return panel_profile(merge([of(rank) for rank in range(ranks)]), ["Kept as profile.folded."])


def test_a_profile_is_a_flame_graph_that_keys_lead_through(lab: Lab, page: Page) -> None:
    lab.wait_until_idle(page)
    kernel_id = page.evaluate(KERNEL)
    with ToldKernel(lab, kernel_id) as kernel:
        kernel.tell([rank(0), rank(1)])
        command(page, "jupyter-ddl:stacks-of", kernel=kernel_id)
        kernel.answer("stacks", {"text": "", "ranks": []})
        page.locator(SHOWN).get_by_role("button", name="Profile 10 s").click()
        page.locator(f"{SHOWN} .ddl-profile").filter(has_text="Sampling the ranks for 10 s").wait_for()
        assert kernel.answer("profile", profile_of(4, 3)) == {"seconds": 10}
        tree = page.locator(f"{SHOWN} .ddl-flame")
        marked = tree.locator(".ddl-flame-marked")
        marked.filter(has_text="batch = load(data, step)").wait_for()
        profile = page.locator(f"{SHOWN} .ddl-profile")
        assert "1,980 of 2,000 samples taken" in profile.inner_text()
        assert "Kept as profile.folded." in profile.inner_text()
        assert axe_findings(page, SHOWN) == []
        # What differs, by its name: it fills the width, and has the focus.
        profile.get_by_role("button", name="cell line 4, in train: batch = load(data, step)").click()
        focused = "document.activeElement.textContent"
        assert page.evaluate(focused) == "≠ cell line 4, in train: batch = load(data, step)"
        detail = page.locator(f"{SHOWN} .ddl-flame-detail")
        assert [line for line in detail.inner_text().split("\n") if line] == [
            "cell line 4, in train: batch = load(data, step)",
            "23% of the time · 23% itself · 460 samples",
            "≠ rank 3: 80%, the others: 4%",
            "rank 0: 4%, rank 1: 4%, rank 2: 4%, rank 3: 80%",
        ]
        wide = tree.locator("[data-call]:focus").bounding_box()
        whole = tree.bounding_box()
        assert wide is not None
        assert whole is not None
        assert wide["width"] == pytest.approx(whole["width"], abs=1)
        # Back, and by arrows to where the others are.
        for key in ["Escape"] * 2 + ["Home"] + ["ArrowDown"] * 3 + ["Enter"]:
            page.keyboard.press(key)
        assert page.evaluate(focused) == "≠ keras/src/backend/tensorflow/trainer.py:121, in one_step_on_data"
        page.keyboard.press("ArrowUp")
        assert page.evaluate(focused) == "≠ cell line 5, in train: model.train_on_batch(*batch) & <b>more</b>"
        assert tree.locator("[tabindex='0']").count() == 1


def test_hosts_are_folded_by_keys(lab: Lab, page: Page) -> None:
    lab.wait_until_idle(page)
    panel = show_panel(page)
    with ToldKernel(lab, page.evaluate(KERNEL)) as kernel:
        kernel.tell([rank(at, host=f"node{at // 8}", state="lost" if at == 13 else "ready") for at in range(1024)])
        ranks = panel.locator(".ddl-rank-list")
        rows = ranks.locator(".ddl-rank-row:not([hidden])")
        ranks.locator(".ddl-host-heading:not([hidden])").filter(has_text="node0").wait_for()
        assert rows.count() < 40
        ranks.focus()
        told = "document.activeElement.innerText"
        for key, host in (("ArrowDown", "▾ node0"), ("ArrowLeft", "▸ node0"), ("ArrowDown", "▾ node1")):
            page.keyboard.press(key)
            assert page.evaluate(told).splitlines()[0] == host
        assert page.evaluate(told).splitlines()[1] == "8 ranks · 1 fault"
        assert ranks.locator("[aria-posinset='2']:not([hidden]) .ddl-host-name").inner_text() == "▾ node1"
        assert axe_findings(page, PANEL) == []
        # The last one is far out of sight, and a click unfolds too.
        page.keyboard.press("End")
        assert page.evaluate(told).splitlines()[0] == "▾ node127"
        page.keyboard.press("Home")
        ranks.locator(".ddl-host-heading").filter(has_text="▸ node0").click()
        assert ranks.locator("[aria-posinset='2']:not([hidden]) .ddl-rank-name").inner_text() == "0"
        # One stop of the Tab key.
        page.keyboard.press("Tab")
        assert not page.evaluate("document.activeElement.closest('.ddl-rank-list') !== null")


@pytest.mark.slow
def test_pages_come_back_as_they_were(lab: Lab, page: Page) -> None:
    of_log = recorded.record("2026-11-11T02-00-00-default-baac", 2, 5)
    bare = recorded.record("2026-11-10T02-00-00-default-ba4e", 2, 0)
    runs_on = recorded.record("2026-11-09T02-00-00-default-a9a1", 2, 60, over=False)
    lab.wait_until_idle(page)
    show_panel(page)
    kernel_id = page.evaluate(KERNEL)
    with ToldKernel(lab, kernel_id) as kernel:
        kernel.tell([rank(0), rank(1)])
        heading = open_stacks(page, kernel_id)
        open_log_of_rank_1(page, of_log)
        open_run_without_training(page, bare)
        command(page, "jupyter-ddl:open-run", run=runs_on.name)
        page.locator(f"{SHOWN} .ddl-line-text").filter(has_text="step 480 loss").first.wait_for(timeout=60_000)
        lab.wait_until_restorable(page, runs_on.name)
        page.reload()
        # The one that was in front is.
        see_the_whole_run_and_more(page, runs_on)
        heading.wait_for(state="attached")
        tabs = page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab")
        tabs.filter(has_text="Log baac").click()
        page.wait_for_function("document.querySelector('.ddl-log-page select')?.value === '1'", timeout=30_000)
        tabs.filter(has_text="Run ba4e").click()
        page.locator(SHOWN).get_by_role("button", name="Whole logs (2 MB)").wait_for(timeout=30_000)
