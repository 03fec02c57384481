"""A profile, a fault and the logs of ranks that really run; what all of it shows is tested on recorded runs."""

from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING

import pytest
from panel import leave_out_tensorflow, run_cell, start_here
from playwright.sync_api import expect

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Locator, Page

# Rank 1 loads for most of its time, rank 0 computes.
WORK = """%%distributed
import os, time

def load(until):
    while time.monotonic() < until:
        time.sleep(0.001)

def compute(until):
    total = 0
    while time.monotonic() < until:
        total += sum(range(1000))
    return total

step = 0
while not os.path.exists({end!r}):
    now = time.monotonic()
    load(now + (0.09 if rank else 0.01))
    compute(now + 0.1)
    print("step", step, "of rank", rank)
    step += 1
"""
RAISES = """%%distributed
print("before", rank)
if rank == 1:
    raise ValueError("no such file")
import time
time.sleep(600)
"""
IS_MERGED = """() => {
  const lines = [...document.querySelectorAll('.ddl-log-page .ddl-line:not([hidden]) .ddl-line-text')];
  const ranks = lines.map(line => /^step \\d+ of rank (\\d)$/.exec(line.textContent)?.[1]);
  return ranks.includes('0') && ranks.includes('1');
}"""
SHOWN = ".jp-MainAreaWidget:not(.lm-mod-hidden)"

pytestmark = pytest.mark.mpi


@pytest.mark.slow
def test_the_button_to_a_ranks_error_opens_its_log_at_the_error(lab: Lab, page: Page, tmp_path: Path) -> None:
    lab.write("raises.ipynb", RAISES)
    lab.open(page, "raises.ipynb")
    lab.wait_until_idle(page)
    leave_out_tensorflow(page, tmp_path)
    panel = start_here(lab, page)
    run_cell(page)
    run = panel.locator(".ddl-run-row").first
    run.filter(has_text="failed").wait_for(timeout=60_000)
    run.dblclick()
    page.locator(SHOWN).get_by_role("button", name="Error in rank 1’s log").click()
    log = page.locator(".ddl-log-page")
    error = log.locator(".ddl-line:not([hidden])").filter(has_text="ValueError: no such file")
    expect(error.first).to_be_visible(timeout=60_000)
    # The rank's own log, with what it printed before.
    expect(log.locator("select")).to_have_value("1")
    expect(log.locator(".ddl-line:not([hidden])").filter(has_text="before 1")).to_be_visible()
    see_the_report(page, run)


def see_the_report(page: Page, run: Locator) -> None:
    """See what the file for support has of a run that failed, as the server makes it, and get it without the code."""
    run.get_by_title("More for this run").click()
    page.locator(".lm-Menu-item").get_by_text("Report…", exact=True).click()
    dialog = page.locator(".jp-Dialog")
    rows = dialog.get_by_role("row")
    # The server's host is examined meanwhile.
    rows.filter(has_text="machine/doctor.txt").wait_for(timeout=120_000)
    names = rows.locator("td:first-child").all_inner_texts()
    assert {"run/outcome.txt", "run/rank-1.log", "machine/environment.json"} <= set(names)
    assert "run/cell.py" not in names
    with page.expect_download() as found:
        dialog.get_by_role("button", name="Download").click()
    with zipfile.ZipFile(found.value.path()) as file:
        assert sorted(file.namelist()) == sorted(names)
        assert file.read("run/rank-1.log").decode().endswith("ValueError: no such file\n")


@pytest.mark.slow
def test_ranks_are_profiled_and_their_logs_merged(lab: Lab, page: Page, tmp_path: Path) -> None:
    end = tmp_path / "end"
    lab.write("looks.ipynb", WORK.format(end=str(end)))
    lab.open(page, "looks.ipynb")
    lab.wait_until_idle(page)
    leave_out_tensorflow(page, tmp_path)
    panel = start_here(lab, page)
    run_cell(page)
    panel.get_by_role("button", name="Stacks").click()
    page.locator(".ddl-place").first.wait_for(timeout=60_000)
    page.locator(SHOWN).get_by_role("button", name="Profile 10 s").click()
    profile = page.locator(f"{SHOWN} .ddl-profile")
    profile.filter(has_text="samples taken").wait_for(timeout=60_000)
    expect(profile).to_contain_text("profile.folded")
    flame = profile.locator(".ddl-flame")
    # The ranks differ in both.
    for name in ("in load", "in compute"):
        expect(flame.locator(".ddl-flame-marked").filter(has_text=name).first).to_be_visible()
    end.touch()
    panel.locator(".ddl-cluster-idle").wait_for(timeout=60_000)
    panel.locator(".ddl-run-row").first.filter(has_text="finished").wait_for(timeout=30_000)
    run = panel.locator(".ddl-run-row").first
    run.dblclick()
    page.locator(SHOWN).get_by_role("button", name=re.compile("^Whole logs")).click()
    log = page.locator(".ddl-log-page")
    log.locator("select").select_option("all")
    lines = log.locator(".ddl-line:not([hidden]) .ddl-line-text")
    lines.filter(has_text=re.compile(r"^step \d+ of rank 0$")).first.wait_for(timeout=30_000)
    # Both ranks take a tenth of a second for a step: none is far ahead in the merged log.
    page.wait_for_function(IS_MERGED, timeout=30_000)
