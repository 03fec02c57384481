"""What the panel tells of ranks and does to them, in Chromium, with a real server, a real kernel and real ranks."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from panel import (
    START_MS,
    ask_kernel,
    choose_of_ranks,
    leave_out_tensorflow,
    run_cell,
    show_panel,
    start_here,
    training,
)
from playwright.sync_api import expect

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Locator, Page

HUNG = """%%distributed --stall-after 5
import time, tensorflow as tf, horovod.tensorflow as hvd
hvd.init()
if rank == 0:
    hvd.allreduce(tf.ones(3), name="alone")
time.sleep(600)
"""
# The status bar tells what the cluster's card does, both read at one moment.
SAME_FAULT = """() => {
  const fault = document.querySelector('#jupyter-ddl-panel .ddl-cluster .ddl-fault-box').innerText;
  return fault !== '' && document.querySelector('.ddl-status.ddl-has-fault').innerText.includes(fault);
}"""


@pytest.fixture
def page(notebook: Page) -> Page:
    """The notebook that all tests share."""
    return notebook


@pytest.fixture
def panel(lab: Lab, page: Page) -> Locator:
    """The panel, with the 2 ranks of the notebook that all tests share; they are started where there are none."""
    shown = show_panel(page)
    if shown.locator(".ddl-cluster").count() == 0:
        start_here(lab, page)
    shown.locator(".ddl-cluster-idle").wait_for(timeout=START_MS)
    return shown


def test_names_of_rank_0_are_completed_and_told_of(lab: Lab, page: Page, panel: Locator) -> None:
    define = "%%distributed\ndef widely_known(rank_of_it):\n    'Known on the ranks.'\nprint('defined')"
    lab.set_code(page, define)
    run_cell(page)
    page.locator(".jp-OutputArea-output").filter(has_text="defined").first.wait_for(timeout=30_000)
    panel.locator(".ddl-cluster-idle").wait_for()
    lab.set_code(page, "%%distributed\nwidely_kn")
    editor = page.locator(".jp-Notebook .jp-Cell .cm-content").first
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.press("Tab")
    page.locator(".jp-Completer-item").filter(has_text="widely_known").wait_for()
    page.keyboard.press("Enter")
    code = "window.jupyterapp.shell.currentWidget.content.widgets[0].model.sharedModel.getSource()"
    page.wait_for_function(f"{code} === '%%distributed\\nwidely_known'")
    page.keyboard.press("Shift+Tab")
    tooltip = page.locator(".jp-Tooltip")
    tooltip.filter(has_text="Known on the ranks.").wait_for()
    assert "rank_of_it" in tooltip.inner_text()
    # The inspector asks the kernel, which asks rank 0.
    page.keyboard.press("Escape")
    page.evaluate("void window.jupyterapp.commands.execute('inspector:open')")
    editor.click()
    page.keyboard.press("Control+End")
    page.locator(".jp-Inspector-content").filter(has_text="Known on the ranks.").wait_for()
    names = "import json; print(json.dumps('widely_known' in globals()))"
    assert ask_kernel(page, names) == "false\n"
    # So does a cell without a magic, where the whole notebook runs on ranks.
    page.keyboard.press("Escape")
    ask_kernel(page, "%ddl auto on")
    expect(page.get_by_label("Which cells run on ranks")).to_have_value("notebook")
    lab.set_code(page, "widely_kn")
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.press("Tab")
    page.locator(".jp-Completer-item").filter(has_text="widely_known").wait_for()
    page.keyboard.press("Escape")
    ask_kernel(page, "%ddl auto off")


def test_a_hung_collective_is_seen_and_interrupted_while_its_cell_runs(lab: Lab, page: Page, panel: Locator) -> None:
    lab.set_code(page, HUNG)
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


def test_a_rank_that_is_killed_is_told_of(lab: Lab, page: Page, panel: Locator, tmp_path: Path) -> None:
    # Those that come in their place need none: only the hung collective, above, does.
    leave_out_tensorflow(page, tmp_path)
    lab.set_code(page, training(tmp_path / "end"))
    run_cell(page)
    panel.locator(".ddl-rank-rate").filter(has_text="/s").first.wait_for(timeout=60_000)
    title = panel.locator(".ddl-rank-row:not([hidden])").nth(1).get_attribute("title") or ""
    os.kill(int(title.rpartition("pid ")[2]), signal.SIGKILL)
    fault = panel.locator(".ddl-cluster .ddl-fault-box")
    fault.filter(has_text="SIGKILL").or_(fault.filter(has_text="signal 9")).wait_for(timeout=30_000)
    page.locator(".ddl-status.ddl-has-fault").wait_for()
    # It is reported twice: by the ranks' supervisor, then by the run, which knows their last samples.
    page.wait_for_function(SAME_FAULT)


def test_ranks_are_restarted_and_stopped_when_that_is_confirmed(page: Page, panel: Locator) -> None:
    title = panel.locator(".ddl-rank-row:not([hidden])").first.get_attribute("title") or ""
    dialog = page.locator(".jp-Dialog")
    choose_of_ranks(page, panel, "Restart…")
    assert dialog.locator(".jp-Dialog-header").inner_text() == "Restart the ranks of default?"
    dialog.get_by_role("button", name="Cancel").click()
    choose_of_ranks(page, panel, "Restart…")
    dialog.get_by_role("button", name="Restart").click()
    page.wait_for_function(
        "before => document.querySelector('.ddl-rank-row:not([hidden])')?.title !== before",
        arg=title,
        timeout=START_MS,
    )
    panel.locator(".ddl-cluster-idle").wait_for(timeout=START_MS)
    choose_of_ranks(page, panel, "Stop…")
    dialog.get_by_role("button", name="Stop").click()
    panel.locator(".ddl-start").wait_for(timeout=60_000)
    assert panel.locator(".ddl-cluster").count() == 0
