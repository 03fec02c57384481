"""A job that waits in its scheduler's queue: what the sidebar shows of it, and how a press ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from panel import ask_kernel, run_cell, show_panel
from playwright.sync_api import expect
from pure.batch_commands import program

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Page

# What Slurm's commands print, by their manual pages: the job waits behind two others until it is cancelled.
SBATCH = 'cat > "{folder}/script"; echo 12'
SQUEUE = """case "$*" in
    *--states=PENDING*) cat "{folder}/before"; echo 12 ;;
    *) [ -e "{folder}/cancelled" ] && state=CANCELLED; echo "12|${{state:-PENDING}}|Priority||N/A|N/A|main|x" ;;
esac"""
SCANCEL = 'echo "$*" >> "{folder}/cancelled"'
ON_PATH = "import os; os.environ['PATH'] = {folder!r} + os.pathsep + os.environ['PATH']"


def test_a_job_that_waits_shows_its_place_in_the_queue_and_a_press_ends_it(
    lab: Lab, notebook: Page, tmp_path: Path
) -> None:
    page = notebook
    for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL)):
        program(tmp_path, name, text.format(folder=tmp_path))
    (tmp_path / "before").write_text("9\n11\n")
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
    assert panel.get_by_role("button", name="Restart…").is_disabled()
    stop = panel.get_by_role("button", name="Stop…")
    assert stop.get_attribute("title") == "End the job: Slurm job 12"
    # Escape, and Enter, leave it where it is.
    dialog = page.locator(".jp-Dialog")
    stop.click()
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
    stop.click()
    dialog.get_by_role("button", name="Stop", exact=True).click()
    expect(panel.locator(".ddl-cluster")).to_have_count(0, timeout=30_000)
    assert (tmp_path / "cancelled").read_text() == "12\n"
    lab.wait_until_idle(page)
    expect(panel.get_by_role("button", name="Start ranks")).to_be_visible()
