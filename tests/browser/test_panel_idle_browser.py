"""Ranks that no cell uses: the panel counts down, and keeps them; where they were ended a button starts them again."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest
from panel import START_MS, ask_kernel, leave_out_tensorflow, run_cell, show_panel
from playwright.sync_api import expect
from told_kernel import ToldKernel, rank

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Page

KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id"


def test_the_panel_counts_down_and_keeps_the_ranks(lab: Lab, notebook: Page) -> None:
    page = notebook
    lab.wait_until_idle(page)
    ranks = [rank(at) for at in range(2)]
    with ToldKernel(lab, page.evaluate(KERNEL)) as kernel:
        kernel.tell(ranks, idle_ends_at_s=time.time() + 1800)
        card = show_panel(page).locator(".ddl-cluster")
        left = card.get_by_role("timer")
        keep = card.get_by_role("button", name="Keep them")
        expect(left).to_have_text("Idle: ended in 30 min")
        expect(keep).to_be_hidden()
        ends_s = time.time() + 200
        kernel.tell(ranks, idle_ends_at_s=ends_s)
        expect(left).to_have_text(re.compile(r"^Idle: ended in 3 min 1?\d s$"))
        first = left.inner_text()
        # Without any message.
        expect(left).not_to_have_text(first)
        shown = re.fullmatch(r"Idle: ended in 3 min (\d+) s", left.inner_text())
        assert shown is not None
        assert abs(180 + int(shown[1]) - (ends_s - time.time())) < 3
        expect(page.locator(".ddl-status-button")).to_have_text(re.compile(r"^2 ranks · idle · Idle: ended in 3 min "))
        keep.click()
        assert kernel.answer("keep", None) == {}
        kernel.tell(ranks, idle_ends_at_s=time.time() + 1800)
        expect(left).to_have_text("Idle: ended in 30 min")
        expect(keep).to_be_hidden()
        kernel.tell(ranks, idle_ends_at_s=time.time() + 1800, keeps_variables=True)
        expect(left).to_have_text("Idle: ended in 30 min · variables are kept")
        kernel.tell(ranks, state="running")
        expect(left).to_be_hidden()


def test_the_cell_after_their_end_has_a_button_that_starts_them_again(lab: Lab, notebook: Page, tmp_path: Path) -> None:
    page = notebook
    lab.wait_until_idle(page)
    leave_out_tensorflow(page, tmp_path)
    panel = show_panel(page)
    lab.set_code(page, "%load_ext jupyter_ddl\n%ddl start -n 2 --idle-stop 4s")
    run_cell(page)
    panel.get_by_role("timer").filter(has_text="Idle: ended in ").wait_for(timeout=START_MS)
    # A notification and the form say that they are gone.
    page.get_by_role("alert").filter(has_text="stopped by --idle-stop 4s, after ").first.wait_for(timeout=30_000)
    panel.get_by_role("button", name="Start ranks").wait_for()
    lab.set_code(page, "%%distributed\nprint('again', world_size)")
    run_cell(page)
    output = page.locator(".jp-OutputArea-output")
    output.filter(has_text="%ddl restart starts it again.").first.wait_for(timeout=30_000)
    button = page.locator(".ddl-start-offer").get_by_role("button")
    expect(button).to_have_attribute("title", "Executes %ddl restart in the kernel, and then the cell")
    button.click()
    output.filter(has_text="again 2").first.wait_for(timeout=START_MS)
    ask_kernel(page, "%ddl stop")


DEFINED = """%%distributed
import threading
offset = 10 * rank
lock = threading.Lock()
print('defined')"""


@pytest.mark.slow
def test_the_button_brings_back_what_cells_defined_and_the_cell_says_what_is_missing(
    lab: Lab, notebook: Page, tmp_path: Path
) -> None:
    page = notebook
    lab.wait_until_idle(page)
    leave_out_tensorflow(page, tmp_path)
    panel = show_panel(page)
    output = page.locator(".jp-OutputArea-output")
    lab.set_code(page, "%load_ext jupyter_ddl\n%ddl start -n 2 --idle-stop 6s --keep-variables")
    run_cell(page)
    panel.get_by_role("timer").filter(has_text=" · variables are kept").wait_for(timeout=START_MS)
    lab.set_code(page, DEFINED)
    run_cell(page)
    output.filter(has_text="defined").first.wait_for(timeout=30_000)
    page.get_by_role("alert").filter(has_text="stopped by --idle-stop 6s, after ").first.wait_for(timeout=40_000)
    lab.set_code(page, "%%distributed\nprint('offset', offset + 1)")
    run_cell(page)
    output.filter(has_text="%ddl restart starts it again, with its variables.").first.wait_for(timeout=30_000)
    page.locator(".ddl-start-offer").get_by_role("button").click()
    output.filter(has_text="offset 11").first.wait_for(timeout=START_MS)
    told = output.filter(has_text="The variables of the ranks before are back (")
    expect(told).to_have_count(1)
    said = "): offset. Random numbers are drawn from new seeds.\nNot kept, run their cells again:\n  lock: TypeError: "
    expect(told).to_contain_text(said)
    # Once.
    run_cell(page)
    expect(told).to_have_count(0)
    output.filter(has_text="offset 11").first.wait_for(timeout=30_000)
    ask_kernel(page, "%ddl stop")
