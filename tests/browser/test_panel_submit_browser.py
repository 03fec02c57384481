"""A job that waits in its scheduler's queue: what the sidebar shows of it, and how a press ends it.

A kernel waits for it, or none does any more.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest
from conftest import own_page
from lab import jupyterlab
from panel import ask_kernel, choose_of_ranks, run_cell, show_panel
from playwright.sync_api import expect
from pure.batch_commands import program

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Browser, Page

# What Slurm's commands print, by their manual pages: the job waits behind two others until it is cancelled.
SBATCH = 'cat > "{folder}/script"; echo 12'
SQUEUE = """case "$*" in
    *--states=PENDING*) cat "{folder}/before"; echo 12 ;;
    *) [ -e "{folder}/cancelled" ] && state=CANCELLED; echo "12|${{state:-PENDING}}|Priority||N/A|N/A|main|x" ;;
esac"""
SCANCEL = 'echo "$*" >> "{folder}/cancelled"'
ON_PATH = "import os; os.environ['PATH'] = {folder!r} + os.pathsep + os.environ['PATH']"


def scheduler(folder: Path) -> None:
    """Write programs that stand for Slurm's into a folder."""
    for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL)):
        program(folder, name, text.format(folder=folder))
    (folder / "before").write_text("9\n11\n")


def test_a_job_that_waits_shows_its_place_in_the_queue_and_a_press_ends_it(
    lab: Lab, notebook: Page, tmp_path: Path
) -> None:
    page = notebook
    scheduler(tmp_path)
    lab.wait_until_idle(page)
    ask_kernel(page, ON_PATH.format(folder=str(tmp_path)))
    lab.set_code(page, "import jupyter_ddl\n%load_ext jupyter_ddl\n%ddl submit -N 2 --ntasks-per-node 2")
    run_cell(page)
    panel = show_panel(page)
    step = panel.locator(".ddl-cluster .ddl-step")
    expect(step).to_have_text("Slurm job 12 waits in the queue (Priority), 2 jobs before it", timeout=60_000)
    # The queue moves on, and so does what is shown.
    (tmp_path / "before").write_text("11\n")
    expect(step).to_have_text("Slurm job 12 waits in the queue (Priority), 1 job before it", timeout=30_000)
    assert "#SBATCH --nodes=2" in (tmp_path / "script").read_text()
    assert panel.locator(".ddl-cluster-count").inner_text().endswith("4 ranks")
    panel.locator(".ddl-cluster").get_by_role("button", name="More").click()
    expect(page.locator(".lm-Menu-item").filter(has_text="Restart…")).to_have_class(re.compile("lm-mod-disabled"))
    page.keyboard.press("Escape")
    # Escape, and Enter, leave it where it is.
    dialog = page.locator(".jp-Dialog")
    choose_of_ranks(page, panel, "End Slurm job 12…")
    assert dialog.locator(".jp-Dialog-header").inner_text() == "Stop Slurm job 12?"
    assert "It leaves its queue, or ends" in dialog.inner_text()
    page.keyboard.press("Enter")
    dialog.wait_for(state="detached")
    assert not (tmp_path / "cancelled").exists()
    # It is still there when the page is loaded again.
    page.reload()
    page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell", timeout=60_000)
    show_panel(page)
    expect(step).to_contain_text("waits in the queue", timeout=60_000)
    choose_of_ranks(page, panel, "End Slurm job 12…")
    dialog.get_by_role("button", name="Stop", exact=True).click()
    expect(panel.locator(".ddl-cluster")).to_have_count(0, timeout=30_000)
    assert (tmp_path / "cancelled").read_text() == "12\n"
    lab.wait_until_idle(page)
    expect(panel.get_by_role("button", name="Start ranks")).to_be_visible()


@pytest.mark.slow
def test_a_job_whose_wait_was_interrupted_stays_in_the_list_and_is_attached_to_and_ended_there(
    browser: Browser, tmp_path: Path
) -> None:
    folder, files = tmp_path / "bin", tmp_path / "lab"
    folder.mkdir()
    files.mkdir()
    scheduler(folder)
    # The server's host has the scheduler's commands.
    more = {"PATH": os.pathsep.join([str(folder), os.environ["PATH"]])}
    with jupyterlab(files, more=more) as lab, own_page(browser) as (page, raised):
        lab.write("waits.ipynb", "import jupyter_ddl\n%load_ext jupyter_ddl\n%ddl submit -N 2 --ntasks-per-node 2")
        lab.open(page, "waits.ipynb")
        lab.wait_until_idle(page)
        panel = show_panel(page)
        step, card = panel.locator(".ddl-cluster .ddl-step"), panel.locator(".ddl-job")
        run_cell(page)
        expect(step).to_contain_text("waits in the queue", timeout=60_000)
        assert card.count() == 0
        refused = lab.server.request("DELETE", "/jupyter-ddl/jobs/12")
        told = "A job is ended here when no kernel uses it. Received: '12', which a kernel of this server has."
        assert (refused.status, refused.json["message"]) == (409, f"{told} Stop it there.")
        lab.interrupt_kernels()
        lab.wait_until_ended(page)
        assert not (folder / "cancelled").exists()
        text = "Slurm job 12 waits in the queue (Priority), 2 jobs before it"
        expect(card.locator(".ddl-note")).to_have_text(text, timeout=30_000)
        assert card.locator(".ddl-cluster-count").inner_text().endswith("4 ranks")
        assert card.locator(".ddl-cluster-state").inner_text() == "waiting"
        # Its ranks go to the notebook in front, once they are there.
        card.get_by_role("button", name="Attach").click()
        expect(step).to_have_text(text, timeout=30_000)
        expect(card).to_have_count(0)
        lab.interrupt_kernels()
        expect(card).to_have_count(1, timeout=30_000)
        # A scheduler that does not answer says so, and nothing is taken for ended.
        program(folder, "squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1")
        silent = panel.get_by_text("Batch jobs cannot be listed: Slurm must take `squeue")
        expect(silent).to_be_visible(timeout=30_000)
        assert "Unable to contact slurm controller" in silent.inner_text()
        scheduler(folder)
        expect(card).to_have_count(1, timeout=30_000)
        dialog = page.locator(".jp-Dialog")
        card.get_by_role("button", name="End…").click()
        assert dialog.locator(".jp-Dialog-header").inner_text() == "End Slurm job 12?"
        page.keyboard.press("Enter")
        dialog.wait_for(state="detached")
        assert not (folder / "cancelled").exists()
        card.get_by_role("button", name="End…").click()
        dialog.get_by_role("button", name="End", exact=True).click()
        expect(card).to_have_count(0)
        assert (folder / "cancelled").read_text() == "12\n"
        refused = lab.server.request("DELETE", "/jupyter-ddl/jobs/13")
        assert refused.status == 404
        assert "A job to end must be one that %ddl submit sent. Received: '13'" in refused.json["message"]
        assert not raised
