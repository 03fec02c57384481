"""JupyterLab's panel as users see it: in Chromium, with a real server, real kernels and real ranks."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING

import pytest
import recorded
from lab import jupyterlab, number, set_theme
from panel import PANEL, START_MS, TRAINING, run_cell, search_runs, serious, show_panel, start_ranks
from told_kernel import ToldKernel, rank

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Browser, Page

HUNG = """%%distributed
import time, tensorflow as tf, horovod.tensorflow as hvd
hvd.init()
if rank == 0:
    hvd.allreduce(tf.ones(3), name="alone")
time.sleep(600)
"""
# Runs code in the notebook's kernel, and returns what it prints.
ASK_KERNEL = """async code => {
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  const future = kernel.requestExecute({ code, silent: true });
  let text = '';
  future.onIOPub = message => { text += message.content.text ?? ''; };
  await future.done;
  return text;
}"""


def test_ranks_start_from_the_form_and_train(lab: Lab, page: Page) -> None:
    lab.write("train.ipynb", TRAINING.format(steps=160))
    lab.open(page, "train.ipynb")
    lab.wait_until_idle(page)
    panel = show_panel(page)
    ranks = panel.locator(".ddl-start input[type='text']").first
    start = panel.get_by_role("button", name="Start ranks")
    ranks.fill("two")
    assert panel.locator(".ddl-field-fault").first.inner_text() == "Ranks must be a whole number of at least 1."
    assert start.is_disabled()
    ranks.fill("2")
    assert panel.locator(".ddl-start-line").inner_text() == "%ddl start -n 2"
    assert panel.locator(".ddl-start-runs").inner_text() == "Runs in train.ipynb:"
    start.click()
    rows = panel.locator(".ddl-rank-row:not([hidden])")
    rows.nth(1).wait_for(timeout=START_MS)
    panel.locator(".ddl-cluster-idle").wait_for(timeout=START_MS)
    assert panel.locator(".ddl-cluster-name").inner_text() == "default"
    assert panel.locator(".ddl-cluster-count").inner_text().strip() == "· 2 ranks"
    assert panel.locator(".ddl-start").is_hidden()
    run_cell(page)
    rates = panel.locator(".ddl-rank-rate")
    rates.filter(has_text="/s").first.wait_for(timeout=60_000)
    status = page.locator(".ddl-status-button")
    status.filter(has_text="samples/s").wait_for()
    told = {status.inner_text()}
    page.wait_for_function("told => document.querySelector('.ddl-status-button').textContent !== told", arg=told.pop())
    assert re.fullmatch(r"2 ranks · [\d,]+ samples/s", status.inner_text())
    mark = "document.querySelector('.jp-Notebook .jp-Cell').dataset.ddlMark"
    page.wait_for_function(f"{mark} === '● 0-1'")
    page.wait_for_function(f"/^✓ 0-1 0:\\d\\d$/.test({mark})", timeout=60_000)
    panel.locator(".ddl-run-row").first.get_by_text("finished").wait_for()
    # The ranks end with their kernel, and what ran is still there.
    lab.api("POST", f"kernels/{lab.api('GET', 'kernels')[0]['id']}/restart")
    panel.locator(".ddl-start").wait_for(timeout=60_000)
    assert panel.locator(".ddl-cluster").count() == 0
    panel.locator(".ddl-run-row").first.get_by_text("finished").wait_for()


def test_names_of_rank_0_are_completed_and_told_of(lab: Lab, page: Page) -> None:
    define = "%%distributed\ndef widely_known(rank_of_it):\n    'Known on the ranks.'\n"
    start_ranks(lab, page, "names.ipynb", define, "%%distributed\nwidely_kn")
    run_cell(page)
    page.wait_for_function("document.querySelector('.jp-Notebook .jp-Cell').dataset.ddlMark?.startsWith('✓')")
    editor = page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".cm-content")
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.press("Tab")
    page.locator(".jp-Completer-item").filter(has_text="widely_known").wait_for(timeout=10_000)
    page.keyboard.press("Enter")
    code = "window.jupyterapp.shell.currentWidget.content.widgets[1].model.sharedModel.getSource()"
    page.wait_for_function(f"{code} === '%%distributed\\nwidely_known'", timeout=10_000)
    page.keyboard.press("Shift+Tab")
    tooltip = page.locator(".jp-Tooltip")
    tooltip.filter(has_text="Known on the ranks.").wait_for(timeout=10_000)
    assert "rank_of_it" in tooltip.inner_text()
    # The inspector asks the kernel, which asks rank 0.
    page.keyboard.press("Escape")
    page.evaluate("void window.jupyterapp.commands.execute('inspector:open')")
    editor.click()
    page.keyboard.press("Control+End")
    page.locator(".jp-Inspector-content").filter(has_text="Known on the ranks.").wait_for(timeout=10_000)
    names = "import json; print(json.dumps('widely_known' in globals()))"
    assert page.evaluate(ASK_KERNEL, names) == "false\n"


def test_ranks_are_restarted_and_stopped_when_that_is_confirmed(lab: Lab, page: Page) -> None:
    panel = start_ranks(lab, page, "stop.ipynb", "1")
    title = panel.locator(".ddl-rank-row:not([hidden])").first.get_attribute("title") or ""
    dialog = page.locator(".jp-Dialog")
    panel.get_by_role("button", name="Restart").click()
    assert dialog.locator(".jp-Dialog-header").inner_text() == "Restart the ranks of default?"
    dialog.get_by_role("button", name="Cancel").click()
    panel.get_by_role("button", name="Restart").click()
    dialog.get_by_role("button", name="Restart").click()
    page.wait_for_function(
        "before => document.querySelector('.ddl-rank-row:not([hidden])')?.title !== before",
        arg=title,
        timeout=START_MS,
    )
    panel.locator(".ddl-cluster-idle").wait_for(timeout=START_MS)
    panel.get_by_role("button", name="Stop").click()
    dialog.get_by_role("button", name="Stop").click()
    panel.locator(".ddl-start").wait_for(timeout=60_000)
    assert panel.locator(".ddl-cluster").count() == 0


def test_a_hung_collective_is_seen_and_interrupted_while_its_cell_runs(lab: Lab, page: Page) -> None:
    panel = start_ranks(lab, page, "hung.ipynb", HUNG)
    run_cell(page)
    panel.locator(".ddl-cluster-running").wait_for(timeout=60_000)
    panel.get_by_role("button", name="Stacks").click()
    places = page.locator(".ddl-place")
    look = page.get_by_role("button", name="Look again")
    # Until both have come as far: TensorFlow's import takes seconds.
    for _ in range(60):
        places.first.wait_for(timeout=60_000)
        page.wait_for_function("!document.querySelector('.ddl-page button').disabled")
        texts = places.all_inner_texts()
        if len(texts) == 2 and "allreduce" in texts[0] and "time.sleep(600)" in texts[1]:
            break
        look.click()
        page.wait_for_timeout(500)
    assert [text.split()[:2] for text in places.all_inner_texts()] == [["Rank", "0"], ["Rank", "1"]]
    assert lab.api("GET", "kernels")[0]["execution_state"] == "busy"
    fault = panel.locator(".ddl-cluster .ddl-fault-box")
    fault.filter(has_text="rank 0 waits in it for rank 1").wait_for(timeout=60_000)
    panel.get_by_role("button", name="Interrupt", exact=True).click()
    panel.locator(".ddl-cluster-idle").wait_for(timeout=30_000)
    fault.wait_for(state="hidden")
    # Told with what it is, should it be another.
    mark = "document.querySelector('.jp-Notebook .jp-Cell').dataset.ddlMark"
    page.wait_for_function(f"!{mark}?.startsWith('●')")
    assert page.evaluate(mark).startswith("◇")


def test_a_rank_that_is_killed_is_told_of(lab: Lab, page: Page) -> None:
    panel = start_ranks(lab, page, "killed.ipynb", TRAINING.format(steps=2000))
    run_cell(page)
    panel.locator(".ddl-rank-rate").filter(has_text="/s").first.wait_for(timeout=60_000)
    title = panel.locator(".ddl-rank-row:not([hidden])").nth(1).get_attribute("title") or ""
    os.kill(int(title.rpartition("pid ")[2]), signal.SIGKILL)
    fault = panel.locator(".ddl-cluster .ddl-fault-box")
    fault.filter(has_text="SIGKILL").or_(fault.filter(has_text="signal 9")).wait_for(timeout=30_000)
    status = page.locator(".ddl-status.ddl-has-fault")
    status.wait_for()
    assert fault.inner_text() in status.inner_text()


def test_a_page_that_is_loaded_again_has_the_run_and_its_lines(lab: Lab, page: Page) -> None:
    panel = start_ranks(lab, page, "again.ipynb", TRAINING.format(steps=600))
    lab.save(page)
    run_cell(page)
    panel.locator(".ddl-run-link").click()
    page.locator(".ddl-page .ddl-line-text").filter(has_text="step 50 of rank 1").wait_for(timeout=60_000)
    # JupyterLab saves what is open once a second.
    page.wait_for_timeout(2_500)
    page.reload()
    lines = page.locator(".ddl-page .ddl-line-text")
    lines.first.wait_for(timeout=60_000)
    page.get_by_role("checkbox", name="follow").uncheck()
    page.locator(".ddl-page .ddl-lines").evaluate("lines => { lines.scrollTop = 0; }")
    for step in (0, 10, 50):
        for of in (0, 1):
            lines.filter(has_text=re.compile(f"^step {step} of rank {of}$")).wait_for(timeout=30_000)
    before = number(page.locator(".ddl-page .ddl-count").inner_text())
    page.wait_for_function(
        "before => parseFloat(document.querySelector('.ddl-page .ddl-count').textContent) > before", arg=before
    )


@pytest.fixture
def two_runs() -> list[str]:
    names = [f"2026-11-2{day}T02-00-00-compared-{day}f9c" for day in (0, 1)]
    for name, slower in zip(names, (1.0, 1.5), strict=True):
        if not (recorded.paths.runs_dir() / name).exists():
            recorded.record(name, 8, 120, slower=slower)
    return names


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_two_runs_are_compared(lab: Lab, page: Page, two_runs: list[str], dark: bool) -> None:
    lab.write("compare.ipynb", "1")
    lab.open(page, "compare.ipynb")
    set_theme(page, dark=dark)
    panel = show_panel(page)
    search_runs(panel, "compared", 2)
    assert panel.get_by_role("button", name="Compare").is_disabled()
    for name in two_runs:
        panel.get_by_role("checkbox", name=name).check()
    panel.get_by_role("button", name="Compare").click()
    page.wait_for_function("document.querySelectorAll('.ddl-page .u-wrap canvas').length === 2")
    rates = page.locator(".ddl-compare tr").filter(has_text="samples/s").locator("td").all_inner_texts()
    assert rates[2] == "−33.3%"
    assert number(rates[0]) == pytest.approx(8 * 128 / 0.12, rel=0.01)
    blue = "rgb(86, 180, 233)" if dark else "rgb(0, 114, 178)"
    swatch = "document.querySelector('.ddl-page .ddl-swatch').style.background"
    page.wait_for_function(f"blue => {swatch} === blue", arg=blue)
    assert serious(page, PANEL) == []
    assert serious(page, ".ddl-page") == []
    panel.locator(".ddl-run-open").first.click()
    page.locator(".ddl-page .ddl-value").first.wait_for()
    assert serious(page, ".jp-MainAreaWidget:not(.lm-mod-hidden) .ddl-page") == []
    set_theme(page, dark=False)


def test_a_run_is_deleted_when_that_is_confirmed(lab: Lab, page: Page) -> None:
    folder = recorded.record("2026-11-19T02-00-00-deleted-4f21", 2, 5)
    lab.write("delete.ipynb", "1")
    lab.open(page, "delete.ipynb")
    panel = show_panel(page)
    search_runs(panel, "deleted", 1)
    panel.get_by_role("checkbox", name=folder.name).check()
    panel.get_by_role("button", name="Delete").click()
    page.locator(".jp-Dialog").get_by_role("button", name="Cancel").click()
    assert folder.exists()
    panel.get_by_role("button", name="Delete").click()
    page.locator(".jp-Dialog").get_by_role("button", name="Delete").click()
    panel.get_by_text("No run has that in it.").wait_for()
    assert not folder.exists()


def big_log(lines: int) -> Path:
    folder = recorded.record("2026-11-18T02-00-00-default-b16b", 2, 5)
    with (folder / "rank-0.log").open("w") as log:
        for first in range(0, lines, 10_000):
            log.write("".join(f"line {at:09d} of a long log\n" for at in range(first, first + 10_000)))
    return folder


def test_a_log_of_any_size_opens_at_once_and_is_searched(lab: Lab, page: Page) -> None:
    folder = big_log(10_000_000)
    assert (folder / "rank-0.log").stat().st_size > 280_000_000
    lab.write("log.ipynb", "1")
    lab.open(page, "log.ipynb")
    show_panel(page)
    page.evaluate("run => void window.jupyterapp.commands.execute('jupyter-ddl:open-log', {run})", folder.name)
    lines = page.locator(".ddl-log-page .ddl-line:not([hidden])")
    lines.filter(has_text="line 009999999 ").wait_for(timeout=5_000)
    assert lines.count() < 200
    page.get_by_label("Find a text").fill("LINE 004200000 ")
    page.keyboard.press("Enter")
    page.locator(".ddl-found").filter(has_text="line 004200000 ").wait_for(timeout=20_000)
    body = page.locator(".ddl-log-page .ddl-lines")
    for _ in range(5):
        body.evaluate("body => { body.scrollTop = 0; }")
        page.wait_for_timeout(200)
    shown = sorted(int(text.split()[1]) for text in lines.all_inner_texts())
    assert shown == list(range(shown[0], shown[0] + len(shown)))
    assert shown[0] < 4_199_000


def test_the_switch_lets_a_cell_run_on_ranks_and_back(lab: Lab, page: Page) -> None:
    lab.write("switch.ipynb", "a = 1")
    lab.open(page, "switch.ipynb")
    source = "window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel.getSource()"
    switch = page.locator(".jp-NotebookPanel-toolbar [data-command='jupyter-ddl:toggle-distributed']")
    field = page.get_by_label("Ranks that the cell runs on")
    assert field.is_hidden()
    switch.click()
    assert page.evaluate(source) == "%%distributed\na = 1"
    field.fill("0, 1")
    field.press("Enter")
    assert page.evaluate(source) == "%%distributed -r 0,1\na = 1"
    page.wait_for_selector(".jp-Cell.ddl-distributed-cell")
    switch.click()
    assert page.evaluate(source) == "a = 1"
    assert field.is_hidden()


def test_below_another_base_url(tmp_path: Path, browser: Browser) -> None:
    """As JupyterHub serves it."""
    with jupyterlab(tmp_path, base_url="/user/ada/") as lab:
        page = browser.new_page()
        lab.write("base.ipynb", "1")
        lab.open(page, "base.ipynb")
        panel = show_panel(page)
        panel.locator(".ddl-start-line").filter(has_text="%ddl start").wait_for()
        with ToldKernel(lab, "other") as kernel:
            kernel.tell([rank(0), rank(1)])
            panel.locator(".ddl-rank-row:not([hidden])").nth(1).wait_for()
        page.close()


def test_64_ranks_with_long_names_and_some_in_trouble(lab: Lab, page: Page) -> None:
    lab.write("many.ipynb", "1")
    lab.open(page, "many.ipynb")
    panel = show_panel(page)
    long = "gpu-node-with-a-long-name-0042.cluster.example.org"
    states = {3: "silent", 5: "lost"}
    ranks = [rank(at, state=states.get(at, "running"), host=long) for at in range(64)]
    run = recorded.record("2026-11-22T02-00-00-default-6464", 64, 40, over=False)
    with ToldKernel(lab, "many") as kernel:
        kernel.tell(ranks, state="running", name="a-name-of-some-length.2", run=run.name, fault="Rank 5 of 64 is gone.")
        panel.get_by_text("a-name-of-some-length.2").wait_for()
        assert panel.locator(".ddl-cluster-count").inner_text().strip() == "· 64 ranks"
        panel.locator(".ddl-rank-rate").filter(has_text="/s").first.wait_for()
        assert panel.locator(".ddl-rank-row").count() < 40
        assert panel.locator(".ddl-rank-list").get_by_text("⌀ lost").count() == 1
        overflow = "panel => panel.scrollWidth > panel.clientWidth"
        assert not page.locator(".ddl-ranks-section").evaluate(overflow)
        assert serious(page, PANEL) == []
        # A run of which nothing more comes is drawn wholly all the same.
        panel.locator(".ddl-run-link").click()
        page.locator(".ddl-page .ddl-strip-box").wait_for()
        page.locator(".ddl-page .ddl-value").first.filter(has_text=re.compile(r"^[\d,]+$")).wait_for()
        page.wait_for_function("document.querySelectorAll('.ddl-page .u-wrap canvas').length === 4")
    panel.get_by_text("a-name-of-some-length.2").wait_for(state="detached")
