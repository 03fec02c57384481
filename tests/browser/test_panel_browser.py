"""JupyterLab's panel as users see it, in Chromium, with a real server: runs that were recorded, and ranks told of."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

import nbformat
import pytest
import recorded
from lab import command, number, set_theme
from panel import PANEL, axe_findings, delete_ticked, menu, search_runs, show_panel
from playwright.sync_api import expect
from told_kernel import ToldKernel, rank

from jupyter_ddl.protocol.log_marks import mark_record

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Page
KERNELS_ARE_IDLE = """() => [...window.jupyterapp.shell.widgets('main')]
  .filter(one => one.context?.path?.endsWith('.ipynb'))
  .every(one => one.sessionContext.session?.kernel?.status === 'idle')"""


@pytest.fixture
def page(notebook: Page) -> Page:
    """The notebook that all tests share."""
    return notebook


@pytest.fixture
def three_runs() -> list[str]:
    names = [f"2026-11-2{day}T02-00-00-compared-{day}f9c" for day in (0, 1, 2)]
    for name, slower in zip(names, (1.0, 1.5, 2.0), strict=True):
        if not (recorded.paths.runs_dir() / name).exists():
            recorded.record(name, 8, 120, slower=slower, parameters={"learning_rate": 0.01 * slower, "epochs": 12})
    return names


def saved(page: Page, kind: str, folder: Path) -> Path:
    """Return the file that the page that compares makes."""
    with page.expect_download() as found:
        page.locator(".ddl-compare-page").get_by_role("button", name="Save").click()
        page.locator(".lm-Menu-item").filter(has_text=f"Save as {kind}").click()
    path = folder / found.value.suggested_filename
    found.value.save_as(path)
    return path


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["light", "dark"])
def test_runs_are_compared(page: Page, three_runs: list[str], dark: bool, tmp_path: Path) -> None:
    set_theme(page, dark=dark)
    panel = show_panel(page)
    search_runs(panel, "compared", 3)
    assert panel.get_by_role("button", name="Compare", exact=True).is_disabled()
    for name in three_runs:
        panel.get_by_role("checkbox", name=name).check()
    panel.get_by_role("button", name="Compare", exact=True).click()
    compared = page.locator(".ddl-compare-page")
    # A chart for each metric, with validation where there is one, and for the throughput.
    page.wait_for_function("document.querySelectorAll('.ddl-compare-page .u-wrap canvas').length === 3")
    loss, accuracy = (compared.get_by_role("slider", name=name) for name in ("loss", "accuracy"))
    expect(compared.locator(".ddl-curve-chart").first.locator("li")).to_have_count(3)
    expect(compared.locator(".ddl-curve-chart").first.locator(".ddl-curve-value")).to_have_count(6)
    blue = "rgb(86, 180, 233)" if dark else "rgb(0, 114, 178)"
    drawn = compared.locator(".ddl-line-sample path").first
    assert drawn.evaluate("path => getComputedStyle(path).stroke") == blue
    # What differs is marked by a sign, and only that is shown until all is wished.
    rates = compared.locator("tr").filter(has_text="samples/s").locator("td").all_inner_texts()
    assert number(rates[0]) == pytest.approx(8 * 128 / 0.12, rel=0.01)
    assert [rate.partition(" ")[2] for rate in rates] == ["", "(−33.3%)", "(−50.0%)"]
    assert compared.locator("tr").filter(has_text="learning_rate").get_by_role("img", name="differs").is_visible()
    epochs = compared.locator(".ddl-compare tr").filter(has_text="epochs")
    assert epochs.count() == 0
    compared.get_by_label("only differences").uncheck()
    assert epochs.locator("td").all_inner_texts() == ["12", "12", "12"]
    code = compared.locator(".ddl-diff")
    assert code.locator(".ddl-diff-gone").inner_text().endswith("slower = 1.0")
    assert code.locator(".ddl-diff-came").inner_text().endswith("slower = 1.5")
    assert axe_findings(page, PANEL) == []
    assert axe_findings(page, ".ddl-compare-page") == []
    # One axis, one zoom and one crosshair for all charts.
    over = compared.get_by_label("over")
    for place, end in (("time", 119.5), ("step", 960), ("epoch", 12)):
        over.select_option(place)
        assert float(loss.get_attribute("aria-valuemax") or "") == pytest.approx(end, abs=1)
    compared.get_by_label("log axis").check()
    compared.get_by_label("smoothing").fill("40")
    box = loss.locator(".u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 60, steps=4)
    page.mouse.up()
    ends = [float(accuracy.get_attribute(name) or "") for name in ("aria-valuemin", "aria-valuemax")]
    assert ends == pytest.approx([1 + 11 * 0.3, 1 + 11 * 0.6], abs=0.1)
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60)
    assert accuracy.get_attribute("aria-valuenow") == loss.get_attribute("aria-valuenow")
    loss.focus()
    page.keyboard.press("ArrowRight")
    place = float(accuracy.get_attribute("aria-valuenow") or "")
    assert place == round(place)
    assert (accuracy.get_attribute("aria-valuetext") or "").startswith(f"epoch {place:.0f}: ")
    assert compared.get_by_role("button", name="Show all").is_enabled()
    page.keyboard.press("Escape")
    assert accuracy.get_attribute("aria-valuemax") == "12"
    assert compared.get_by_role("button", name="Show all").is_disabled()
    # What is saved: all values as they are, and the charts as they are shown.
    rows = list(csv.DictReader(saved(page, "CSV", tmp_path).read_text().splitlines()))
    assert {row["metric"] for row in rows} == {"loss", "accuracy", "samples/s"}
    last = [row for row in rows if row["metric"] == "loss" and row["split"] == "validation"][11]
    assert (last["step"], last["epoch"]) == ("960", "12")
    assert float(last["value"]) == pytest.approx(recorded.epoch(120, 1.0).metrics["val_loss"])
    svg = saved(page, "SVG", tmp_path).read_text()
    assert svg.count("stroke-dasharray") > 6
    assert "<image" not in svg
    assert saved(page, "PNG", tmp_path).read_bytes().startswith(b"\x89PNG")
    panel.locator(".ddl-run-open").first.click()
    page.locator(".ddl-page .ddl-value").first.wait_for()
    assert axe_findings(page, ".jp-MainAreaWidget:not(.lm-mod-hidden) .ddl-page") == []
    for name in three_runs:
        panel.get_by_role("checkbox", name=name).uncheck()
    set_theme(page, dark=False)


def test_a_run_is_deleted_when_that_is_confirmed(page: Page) -> None:
    folder = recorded.record("2026-11-19T02-00-00-deleted-4f21", 2, 5)
    panel = show_panel(page)
    search_runs(panel, "deleted", 1)
    panel.get_by_role("checkbox", name=folder.name).check()
    delete_ticked(page, panel)
    page.locator(".jp-Dialog").get_by_role("button", name="Cancel").click()
    assert folder.exists()
    delete_ticked(page, panel)
    page.locator(".jp-Dialog").get_by_role("button", name="Delete").click()
    panel.get_by_text("No run has that in it.").wait_for()
    assert not folder.exists()


def big_log(lines: int) -> Path:
    folder = recorded.record("2026-11-18T02-00-00-default-b16b", 2, 5)
    with (folder / "rank-0.log").open("w") as log:
        for first in range(0, lines, 10_000):
            log.write("".join(f"line {at:09d} of a long log\n" for at in range(first, first + 10_000)))
    return folder


def test_a_log_of_any_size_opens_at_once_and_is_searched(page: Page) -> None:
    folder = big_log(10_000_000)
    assert (folder / "rank-0.log").stat().st_size > 280_000_000
    show_panel(page)
    page.evaluate("run => void window.jupyterapp.commands.execute('jupyter-ddl:open-log', {run})", folder.name)
    lines = page.locator(".ddl-log-page .ddl-line:not([hidden])")
    lines.filter(has_text="line 009999999 ").wait_for(timeout=5_000)
    assert lines.count() < 200
    page.get_by_label("Find a text").fill("LINE 004200000 ")
    page.keyboard.press("Enter")
    page.locator(".ddl-found").filter(has_text="line 004200000 ").wait_for(timeout=20_000)
    body = page.locator(".ddl-log-page .ddl-lines")
    shown: list[int] = []
    # Scrolling up brings what is above, page by page: as fast as the server reads.
    for _ in range(100):
        body.evaluate("body => { body.scrollTop = 0; }")
        page.wait_for_timeout(200)
        shown = sorted(int(text.split()[1]) for text in lines.locator(".ddl-line-text").all_inner_texts())
        if shown[0] < 4_199_000:
            break
    assert shown[0] < 4_199_000
    assert shown == list(range(shown[0], shown[0] + len(shown)))


def failed_run(steps: int) -> Path:
    """Make a run whose ranks 0 and 3 print in turn until the latter raises, with the times of what they wrote."""
    folder = recorded.record("2026-11-18T03-00-00-default-fa11", 4, 5, fails=True)
    for rank_ in (1, 2):
        (folder / f"rank-{rank_}.log").unlink()
    for rank_ in (0, 3):
        log = times = b""
        for step in range(steps):
            times += mark_record(len(log), step, 1_795_000_000 + step + rank_ / 10)
            log += f"step {step} of rank {rank_}\n".encode()
        log += b"Traceback (most recent call last):\nValueError: no\n" if rank_ else b""
        (folder / f"rank-{rank_}.log").write_bytes(log)
        (folder / f"rank-{rank_}.times").write_bytes(times)
    return folder


def test_all_ranks_are_merged_filtered_searched_by_keys_and_downloaded(page: Page) -> None:
    run = failed_run(5_000)
    command(page, "jupyter-ddl:open-run", run=run.name)
    shown = page.locator(".jp-MainAreaWidget:not(.lm-mod-hidden)")
    shown.locator(".ddl-rows .ddl-row:not([hidden])").nth(3).click()
    shown.get_by_role("button", name=re.compile("^Whole logs")).click()
    log = page.locator(".ddl-log-page")
    expect(log.locator("select")).to_have_value("3")
    # From its fault: at that rank, at its last error.
    command(page, "jupyter-ddl:open-run", run=run.name)
    shown.get_by_role("button", name="Error in rank 3’s log").click()
    log.locator(".ddl-found").filter(has_text="5002ValueError: no").wait_for()
    ranks = log.locator("select")
    expect(ranks).to_have_value("3")
    ranks.select_option("all")
    rows = log.locator(".ddl-line:not([hidden])")
    rows.filter(has_text="5000" + "3" + "step 4999 of rank 3").wait_for()
    body = log.locator(".ddl-lines")
    body.click()
    page.keyboard.press("Control+f")
    field = page.get_by_label("Find a text")
    expect(field).to_be_focused()
    assert page.locator(".jp-DocumentSearch-overlay").count() == 0
    field.fill("STEP 12.4 of")
    log.get_by_role("button", name="Regular expression").click()
    found = log.locator(".ddl-found:not([hidden]) .ddl-line-text")
    for key, shown in (
        ("F3", "step 1204 of rank 0"),
        ("F3", "step 1204 of rank 3"),
        ("F3", "step 1214 of rank 0"),
        ("Shift+F3", "step 1204 of rank 3"),
    ):
        body.press(key)
        expect(found).to_have_text(shown)
    log.get_by_role("button", name="only matching lines").click()
    expect(rows).to_have_count(20)
    field.fill("[")
    field.press("Enter")
    log.get_by_role("alert").get_by_text("A filter is a regular expression. Received: '[': unterminated").wait_for()
    expect(field).to_have_attribute("aria-invalid", "true")
    log.get_by_role("button", name="Next error").click()
    expect(found).to_have_text("Traceback (most recent call last):")
    field.fill("nowhere")
    field.press("Enter")
    log.get_by_text("Not found below. Searching again starts at the top.").wait_for()
    with page.expect_download() as download:
        log.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == f"{run.name}-all-ranks.log"
    lines = download.value.path().read_text().splitlines()
    assert lines[:3] == ["[0] step 0 of rank 0", "[3] step 0 of rank 3", "[0] step 1 of rank 0"]
    assert len(lines) == 10_002
    assert axe_findings(page, ".ddl-log-page") == []


def test_the_switch_lets_a_cell_run_on_ranks_and_back(lab: Lab, page: Page) -> None:
    lab.set_code(page, "a = 1")
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


def test_the_menu_has_the_commands_of_all_plugins_in_one_order(page: Page) -> None:
    start = ["Show Distributed Ranks", "Start Ranks…", "Run Cell on Ranks", "Run Whole Notebook on Ranks"]
    consoles = ["Run Selected Text or Cell on One Rank…", "Open a Console on a Rank…"]
    debugger = ["Debug This Cell on a Rank…", "Debug on a Rank…"]
    controls = ["Interrupt Ranks", "Show Where Ranks Are", "Restart Ranks…", "Stop Ranks…"]
    assert menu(page) == [*start, *consoles, *debugger, *controls]


def test_the_launcher_leads_to_a_notebook_with_an_example(lab: Lab, page: Page) -> None:
    command(page, "launcher:create")
    page.locator(".jp-LauncherCard").get_by_text("Distributed training").click()
    page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell").filter(has_text="%ddl start -n 2").wait_for()
    first = lab.folder / "distributed-training.ipynb"
    assert nbformat.read(first, as_version=4).cells[1].source.startswith("%load_ext jupyter_ddl")
    # Another one leaves it as it is.
    page.evaluate("void window.jupyterapp.commands.execute('jupyter-ddl:open-example')")
    page.get_by_role("tab", name="distributed-training-2.ipynb").wait_for()
    assert (lab.folder / "distributed-training-2.ipynb").is_file()
    # Before both are closed: a page whose kernel is still starting raises then, in JupyterLab and in ipywidgets.
    page.wait_for_function(KERNELS_ARE_IDLE, timeout=60_000)


def test_64_ranks_with_long_names_and_some_in_trouble(lab: Lab, page: Page) -> None:
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
        assert axe_findings(page, PANEL) == []
        # A run of which nothing more comes is drawn wholly all the same.
        panel.locator(".ddl-cluster .ddl-run-link").click()
        page.locator(".ddl-page .ddl-strip-box").wait_for()
        page.locator(".ddl-page .ddl-value").first.filter(has_text=re.compile(r"^[\d,]+$")).wait_for()
        page.wait_for_function("document.querySelectorAll('.ddl-page .u-wrap canvas').length === 5")
    panel.get_by_text("a-name-of-some-length.2").wait_for(state="detached")
