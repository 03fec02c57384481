"""The page of all clusters: real ranks in it, its order, and a stop that asks first, with Cancel in focus."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lab import command, jupyterlab, set_theme
from panel import ask_kernel, axe_findings, leave_out_tensorflow, run_cell, show_panel, start_here
from playwright.sync_api import expect

from jupyter_ddl.oversight import clusters
from jupyter_ddl.paths import RUNTIME_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab import Lab
    from playwright.sync_api import Locator, Page

PAGE = ".ddl-clusters-page"
# Who waits for five minutes can choose them; a test cannot.
CHOOSE_NONE = """page => {
  const select = page.querySelectorAll('select')[1];
  select.options[0].value = '0';
  select.value = '0';
  select.dispatchEvent(new Event('change'));
}"""


def sorted_by(page: Locator) -> list[str]:
    """Return the headings that sort the table, with how."""
    found = page.locator("th:not([aria-sort='none'])")
    return [f"{one.inner_text()} {one.get_attribute('aria-sort')}" for one in found.all()]


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A JupyterLab that sees none of the clusters of other tests: these are idle, and would be ended."""
    with (
        tempfile.TemporaryDirectory(prefix="ddl-lab-") as folder,
        jupyterlab(Path(folder), more={RUNTIME_VARIABLE: f"{folder}/clusters"}) as running,
    ):
        yield running


@pytest.mark.slow
def test_all_clusters_are_listed_sorted_and_stopped(lab: Lab, page: Page, tmp_path: Path) -> None:
    lab.write("shared.ipynb", "1")
    lab.open(page, "shared.ipynb")
    lab.wait_until_idle(page)
    panel = show_panel(page, more=False)
    panel.get_by_role("button", name="All clusters").click()
    shown = page.locator(PAGE)
    expect(shown.get_by_role("status")).to_have_text("No cluster runs. Ranks that a notebook starts are listed here.")
    expect(shown.locator("table")).to_be_hidden()
    expect(shown.get_by_role("button", name="Stop idle ones…")).to_be_disabled()

    page.evaluate("window.jupyterapp.shell.activateById(document.querySelector('.jp-NotebookPanel').id)")
    leave_out_tensorflow(page, tmp_path)
    ask_kernel(page, "%load_ext jupyter_ddl")
    start_here(lab, page)
    command(page, "jupyter-ddl:all-clusters")
    row = shown.locator("tbody tr")
    expect(row).to_have_count(1)
    user = clusters.this_user()
    assert row.locator("td").all_inner_texts()[:4] == [user, "default", "2", "cores"]
    expect(shown.locator("select").first).to_be_hidden()

    assert sorted_by(shown) == ["Idle for descending"]
    shown.get_by_role("button", name="User", exact=True).focus()
    page.keyboard.press("Enter")
    assert sorted_by(shown) == ["User ascending"]
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert sorted_by(shown) == ["Cluster ascending"]
    for dark in (True, False):
        set_theme(page, dark=dark)
        assert axe_findings(page, PAGE) == []

    expect(shown.get_by_role("status")).to_have_text("1 cluster, 0 idle for 30 min or longer")
    shown.evaluate(CHOOSE_NONE)
    stop = shown.get_by_role("button", name="Stop idle ones…")
    stop.click()
    dialog = page.locator(".jp-Dialog")
    assert dialog.locator(".jp-Dialog-header").inner_text() == "Stop 1 idle cluster?"
    assert f"default of {user}, idle for " in dialog.inner_text()
    assert "What their cells defined is lost. One that is used until then is left." in dialog.inner_text()
    # Enter cancels.
    page.keyboard.press("Enter")
    dialog.wait_for(state="detached")
    expect(row).to_have_count(1)
    stop.click()
    dialog.get_by_role("button", name="Stop", exact=True).click()
    expect(shown.get_by_role("status")).to_have_text(
        f"default of {user}: stopped. No cluster runs. Ranks that a notebook starts are listed here.", timeout=30_000
    )

    # The notebook of the ranks says by whom.
    told = page.get_by_role("alert").filter(has_text=f"shared.ipynb: stopped by {user}, after ")
    told.first.wait_for(timeout=30_000)
    page.evaluate("window.jupyterapp.shell.activateById(document.querySelector('.jp-NotebookPanel').id)")
    lab.set_code(page, "%%distributed\n1")
    run_cell(page)
    told = page.locator(".jp-OutputArea-output").filter(has_text=f"the cluster 'default' was stopped by {user}, after ")
    told.first.wait_for(timeout=30_000)

    # Another's end loses nothing.
    ask_kernel(page, "%ddl restart --idle-stop 2h --keep-variables")
    command(page, "jupyter-ddl:all-clusters")
    expect(row).to_have_count(1, timeout=30_000)
    stop.click()
    said = "What their cells defined is saved, and %ddl restart in its notebook loads it again. One that is used until "
    assert said in dialog.inner_text()
    page.keyboard.press("Enter")
