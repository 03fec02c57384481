"""The tabs of a run's output: one rank's text and figures, live, loaded again, and without a kernel; many as a list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nbformat
import recorded
from lab import command
from panel import axe_findings, leave_out_tensorflow, run_cell, start_here
from playwright.sync_api import expect

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Locator, Page

MIME = "application/vnd.jupyter-ddl.run+json"
TRAINS = """%%distributed
import jupyter_ddl, pathlib, time
from IPython.display import HTML, display
print('text of', rank)
display(HTML(f'<b class="of-rank">figure of {{rank}}</b><script>window.hasRun = true</script>'))
shown = display(HTML('before'), display_id=True)
step = 0
while not pathlib.Path({end!r}).exists():
    step += 1
    jupyter_ddl.report(32, loss=1 / step)
    time.sleep(0.05)
shown.update(HTML(f'<i class="at-the-end">after {{rank}}</i>'))
print('<b>no HTML</b>', rank)
"""


def rank_output(page: Page) -> Locator:
    return page.locator(".ddl-run-output .ddl-rank-output")


def untrust(lab: Lab, name: str, copy: str) -> None:
    """Copy a notebook, so that its signature is no longer that of what it holds."""
    notebook = nbformat.read(lab.folder / name, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell("'another'"))
    nbformat.write(notebook, lab.folder / copy)


def run_of(lab: Lab, name: str) -> str:
    """Return the run whose dashboard a saved notebook has."""
    run: str = next(data[MIME]["run"] for output in lab.outputs(name) if MIME in (data := output.get("data", {})))
    return run


def choose(page: Page, name: str) -> None:
    page.locator(".ddl-rank-tabs").get_by_role("tab", name=name).click()


def test_a_rank_shows_its_text_and_figures_live_and_afterwards(lab: Lab, page: Page, tmp_path: Path) -> None:
    end = tmp_path / "end"
    lab.write("outputs.ipynb", TRAINS.format(end=str(end)))
    lab.open(page, "outputs.ipynb")
    lab.wait_until_idle(page)
    leave_out_tensorflow(page, tmp_path)
    start_here(lab, page)
    run_cell(page)
    tabs = page.locator(".ddl-rank-tabs")
    tabs.get_by_role("tab").nth(2).wait_for(timeout=60_000)
    assert tabs.get_by_role("tab").all_inner_texts() == ["all ranks", "rank 0", "rank 1"]
    choose(page, "rank 1")
    output = rank_output(page)
    expect(output.locator(".of-rank")).to_have_text("figure of 1", timeout=30_000)
    expect(output).to_contain_text("text of 1")
    # As in the output of a cell that the user has run.
    assert page.evaluate("window.hasRun") is True
    expect(output).not_to_contain_text("text of 0")
    expect(page.locator(".ddl-run-output .ddl-log")).to_be_hidden()
    # Arrows go round; the output of all is the log.
    page.keyboard.press("ArrowRight")
    expect(tabs.get_by_role("tab", name="all ranks")).to_be_focused()
    expect(page.locator(".ddl-run-output .ddl-log")).to_be_visible()
    expect(output).to_have_count(0)
    page.keyboard.press("ArrowLeft")
    expect(output.locator(".of-rank")).to_have_text("figure of 1")
    # A row of the table is that rank's.
    page.locator(".ddl-run-output .ddl-table .ddl-row:not(.ddl-head):not([hidden])").first.click()
    expect(output.locator(".of-rank")).to_have_text("figure of 0")
    assert axe_findings(page, ".ddl-run-output") == []
    end.touch()
    lab.wait_until_ended(page)
    expect(output.locator(".at-the-end")).to_have_text("after 0", timeout=30_000)
    expect(output).to_contain_text("<b>no HTML</b> 0")
    expect(output).not_to_contain_text("before")
    lab.save(page)
    page.evaluate("window.jupyterapp.serviceManager.sessions.shutdownAll()")
    lab.open(page, "outputs.ipynb", workspace="again")
    tabs.get_by_role("tab").nth(2).wait_for(timeout=60_000)
    choose(page, "rank 1")
    expect(output.locator(".at-the-end")).to_have_text("after 1", timeout=30_000)
    # A notebook that JupyterLab does not trust shows it sanitized, as its own outputs.
    untrust(lab, "outputs.ipynb", "untrusted.ipynb")
    lab.open(page, "untrusted.ipynb")
    tabs.get_by_role("tab").nth(2).wait_for(timeout=60_000)
    choose(page, "rank 1")
    expect(output.locator("b.of-rank")).to_have_text("figure of 1", timeout=30_000)
    assert output.locator("script").count() == 0
    assert page.evaluate("window.hasRun") is None
    # The run's page shows the same, also of a cell that does not train and so has no dashboard.
    command(page, "jupyter-ddl:open-run", run=run_of(lab, "outputs.ipynb"))
    run_page = page.locator(".ddl-page:not(.lm-mod-hidden)")
    run_page.get_by_role("tab", name="rank 0").click()
    expect(run_page.locator(".ddl-rank-output .at-the-end")).to_have_text("after 0", timeout=30_000)
    expect(run_page.locator(".ddl-log")).to_be_hidden()


def test_many_ranks_are_a_list(lab: Lab, page: Page) -> None:
    run = recorded.record("2026-11-12T03-00-00-default-64ab", 64, 5)
    lab.write("many.ipynb", "1")
    lab.open(page, "many.ipynb")
    lab.run_code(page, f"display({{{MIME!r}: {{'run': {run.name!r}, 'version': 1}}}}, raw=True)")
    chosen = page.locator(".ddl-rank-tabs select")
    chosen.wait_for(timeout=30_000)
    assert chosen.locator("option").count() == 65
    chosen.select_option("63")
    expect(rank_output(page)).to_have_attribute("aria-label", "Output of rank 63")
    expect(rank_output(page)).to_contain_text("Rank 63 has shown nothing.")
