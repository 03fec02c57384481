"""Ranks that are started from the panel's form, as users see it: with a real server, a real kernel and real ranks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lab import jupyterlab
from panel import START_MS, run_cell, show_panel, training
from told_kernel import ToldKernel, rank

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Browser, Page


def test_ranks_start_from_the_form_and_train(lab: Lab, page: Page, tmp_path: Path) -> None:
    end = tmp_path / "end"
    lab.write("train.ipynb", training(end))
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
    end.touch()
    page.wait_for_function(f"/^✓ 0-1 0:\\d\\d$/.test({mark})", timeout=60_000)
    panel.locator(".ddl-run-row").first.get_by_text("finished").wait_for()
    # The ranks end with their kernel, and what ran is still there.
    lab.api("POST", f"kernels/{lab.api('GET', 'kernels')[0]['id']}/restart")
    panel.locator(".ddl-start").wait_for(timeout=60_000)
    assert panel.locator(".ddl-cluster").count() == 0
    panel.locator(".ddl-run-row").first.get_by_text("finished").wait_for()


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
