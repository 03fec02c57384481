"""What the sidebar's form, lists and dialogs look like where something is wrong, and what Enter does there."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
import recorded
from lab import set_theme
from panel import choose_of_ranks, delete_ticked, search_runs, show_panel
from playwright.sync_api import expect
from told_kernel import ToldKernel, rank

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Locator, Page

RED = {False: "rgb(179, 38, 30)", True: "rgb(255, 138, 128)"}
BORDER = "field => getComputedStyle(field).borderTopColor"
SOURCE = "window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel.getSource()"
KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id"


@pytest.fixture
def page(notebook: Page) -> Page:
    """The notebook that all tests share."""
    return notebook


def colour(field: Locator) -> str:
    found: str = field.evaluate(BORDER)
    return found


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["light", "dark"])
def test_fields_that_are_wrong_are_red(lab: Lab, page: Page, dark: bool) -> None:
    run = recorded.record(f"2026-11-17T02-00-00-default-{'da4c' if dark else '1197'}", 2, 5)
    lab.set_code(page, "%%distributed\n1")
    set_theme(page, dark=dark)
    panel = show_panel(page)
    fields = panel.locator(".ddl-start input[type='text']:visible")
    for field, wrong in zip(fields.all(), ("two", "x", ".a"), strict=True):
        # Whatever it is, a field that is right has no colour of a fault.
        assert colour(field) != RED[dark]
        field.fill(wrong)
        assert colour(field) == RED[dark]
    of_cell = page.get_by_label("Ranks that the cell runs on")
    of_cell.fill("one")
    page.wait_for_function("document.querySelector('.ddl-ranks-field input').ariaInvalid === 'true'")
    red, green, blue = (int(part) for part in re.findall(r"\d+", colour(of_cell))[:3])
    assert red > 1.5 * max(green, blue)
    page.evaluate("run => void window.jupyterapp.commands.execute('jupyter-ddl:open-run', {run})", run.name)
    pattern = page.locator(".ddl-page .ddl-log-bar input[type='text']")
    for at, wrong in enumerate(("x-", "(")):
        pattern.nth(at).fill(wrong)
        assert colour(pattern.nth(at)) == RED[dark]
    set_theme(page, dark=False)
    for field in fields.all():
        field.fill("")


def test_a_second_notebook_gets_a_name_of_its_own_and_a_taken_one_is_told_at_its_field(lab: Lab, page: Page) -> None:
    lab.wait_until_idle(page)
    panel = show_panel(page)
    line = panel.locator(".ddl-start-line")
    name = panel.get_by_label("Name")
    line.filter(has_text="%ddl start").wait_for()
    with ToldKernel(lab, "elsewhere") as kernel:
        kernel.tell([rank(0), rank(1)], name="default")
        line.filter(has_text="%ddl start --name shared").wait_for()
        assert name.get_attribute("placeholder") == "shared"
        name.fill("default")
        fault = panel.locator("#ddl-fault-name")
        assert fault.inner_text().startswith("default runs already (kernel elsewher). Write another name,")
        assert panel.get_by_role("button", name="Start ranks").is_disabled()
        # Two ranks need no scroll bar, and nine have one.
        ranks = panel.locator(".ddl-rank-list")
        scrolls = "list => [list.scrollHeight > list.clientHeight, list.offsetWidth - list.clientWidth]"
        assert ranks.evaluate(scrolls) == [False, 0]
        kernel.tell([rank(at) for at in range(9)], name="default")
        panel.locator(".ddl-cluster-count").filter(has_text="9 ranks").wait_for()
        assert ranks.evaluate(scrolls)[0]
    panel.locator("#ddl-fault-name").filter(has_text="runs already").wait_for(state="detached")
    name.fill("")
    ranks_field = panel.get_by_label("Ranks", exact=True).and_(page.locator("input"))
    ranks_field.fill("9999")
    panel.locator(".ddl-field-warning").filter(has_text="The ranks take about").wait_for()
    assert panel.get_by_role("button", name="Start ranks").is_enabled()
    # What was typed comes back when the page is loaded again; a name would be taken by then.
    name.fill("typed")
    ranks_field.fill("3")
    page.wait_for_timeout(1_000)
    page.reload()
    page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell", timeout=60_000)
    panel = show_panel(page)
    panel.locator(".ddl-start-line").filter(has_text="%ddl start -n 3").wait_for(timeout=30_000)
    assert panel.get_by_label("Name").input_value() == ""


def test_the_form_is_one_line_and_offers_the_ranks_of_a_taken_name(lab: Lab, page: Page, tmp_path: Path) -> None:
    lab.wait_until_idle(page)
    panel = show_panel(page, more=False)
    fields = panel.locator(".ddl-start :is(input, select, button):visible")
    expect(fields).to_have_count(2)
    ranks = panel.get_by_label("Ranks", exact=True).and_(page.locator("input"))
    ranks.fill("")
    # How many start where no number is written.
    expect(ranks).to_have_attribute("placeholder", re.compile(r"^\d+$"), timeout=30_000)
    start = panel.get_by_role("button", name="Start ranks")
    expect(start).to_have_text("Start")
    expect(panel.locator(".ddl-start-runs")).to_have_text("Runs in shared.ipynb:")
    expect(panel.locator(".ddl-start-line")).to_have_text("%ddl start")
    tops = [field.bounding_box() for field in (ranks, start)]
    assert tops[0] is not None
    assert tops[1] is not None
    assert abs(tops[0]["y"] - tops[1]["y"]) < 3
    panel.screenshot(path=tmp_path / "line.png")
    panel.get_by_text("more", exact=True).click()
    panel.screenshot(path=tmp_path / "more.png")
    name, attach = panel.get_by_label("Name"), panel.get_by_role("button", name="Attach")
    with ToldKernel(lab, "elsewhere") as kernel:
        kernel.tell([rank(0), rank(1)], name="default")
        expect(panel.locator(".ddl-start-line")).to_have_text("%ddl start --name shared")
        name.fill("default")
        expect(attach).to_be_visible()
        panel.screenshot(path=tmp_path / "taken.png")
        # The text names them, and they are not there.
        attach.click()
        fault = panel.locator(".ddl-section-content > .ddl-fault-box")
        expect(fault).to_contain_text("NoCluster", timeout=30_000)
        name.fill("")
        expect(attach).to_be_hidden()
        fault.get_by_role("button", name="Dismiss").click()
        # The notebook's own ranks come first, and the others are a line then.
        cards = panel.locator(".ddl-cluster")
        expect(cards.locator(".ddl-rank-row:visible")).to_have_count(2)
        with ToldKernel(lab, page.evaluate(KERNEL)) as own:
            own.tell([rank(0)], name="shared")
            expect(cards).to_have_count(2)
            expect(cards.first).to_contain_text("shared")
            expect(cards.locator(".ddl-rank-row:visible")).to_have_count(1)
            cards.last.locator("summary").click()
            expect(cards.locator(".ddl-rank-row:visible")).to_have_count(3)


PROFILES = """
[a100]
description = "Four A100s on each node"
launcher = "slurm"
defaults = {nodes = 2, ntasks_per_node = 4, time = "1:00", partition = "gpu"}
limits = {ranks = 16, time = "4:00"}

[desk]
launcher = "hosts"
hosts = "desk:2,tower:2"
limits = {ranks = 4}
"""


def test_a_profile_is_chosen_with_its_partition_nodes_and_time(lab: Lab, page: Page, tmp_path: Path) -> None:
    lab.wait_until_idle(page)
    panel = show_panel(page)
    where, line = panel.get_by_label("Where"), panel.locator(".ddl-start-line")
    file = lab.folder.parent / "config" / "jupyter_ddl.d" / "site.toml"
    file.parent.mkdir(parents=True)
    try:
        file.write_text(PROFILES)
        # Looked for every few seconds.
        a100 = where.locator("option", has_text="a100")
        expect(a100).to_have_count(1, timeout=30_000)
        # Between them the queue of this machine's scheduler, if there is one.
        options = where.locator("option").all_inner_texts()
        assert (options[0], options[-2:]) == ("This host", ["a100", "desk"])
        where.select_option("a100")
        expect(panel.locator(".ddl-start .ddl-note").first).to_have_text("Four A100s on each node")
        expect(line).to_have_text("%ddl submit --profile a100")
        expect(panel.get_by_role("button", name="Submit a job")).to_be_enabled()
        for name, placeholder in (("Nodes", "2"), ("Per node", "4"), ("Time", "1:00"), ("Partition", "gpu")):
            expect(panel.get_by_label(name)).to_have_attribute("placeholder", placeholder)
        expect(panel.get_by_label("Threads")).to_be_hidden()
        expect(panel.locator(".ddl-devices")).to_be_hidden()
        panel.get_by_label("Nodes").fill("5")
        expect(panel.locator("#ddl-fault-perNode")).to_have_text("a100 allows at most 16 ranks.")
        panel.get_by_label("Nodes").fill("3")
        panel.get_by_label("Time").fill("2:30")
        panel.get_by_label("Partition").fill("long")
        expect(line).to_have_text("%ddl submit --profile a100 -N 3 --time 2:30 -p long")
        panel.screenshot(path=tmp_path / "job.png")
        # What is chosen stays while it is read again; there is no room for what the next place does not take.
        where.select_option("desk")
        ranks = panel.get_by_label("Ranks", exact=True).and_(page.locator("input"))
        ranks.fill("5")
        expect(panel.locator("#ddl-fault-ranks")).to_have_text("desk allows at most 4 ranks.")
        ranks.fill("3")
        expect(line).to_have_text("%ddl start --profile desk -n 3")
        file.write_text("[a100]\nlauncher = 'slurmm'\n")
        fault = panel.locator(".ddl-start .ddl-field-fault").filter(has_text="slurmm")
        fault.wait_for(timeout=30_000)
        # This host is there without any profile.
        expect(line).to_have_text("%ddl start -n 3")
        for field in (ranks, panel.get_by_label("Name")):
            field.fill("")
    finally:
        file.unlink()
        file.parent.rmdir()
    expect(a100).to_have_count(0, timeout=30_000)


def test_the_notebook_in_front_is_exported(lab: Lab, page: Page) -> None:
    lab.set_code(page, "%%distributed\n1")
    lab.wait_until_idle(page)
    panel = show_panel(page)
    ranks = panel.get_by_label("Ranks", exact=True).and_(page.locator("input"))
    button = panel.get_by_role("button", name="Export the notebook")
    button.click()
    fault = panel.locator(".ddl-fault-box").filter(has_text="The number of the job's ranks must be known.")
    fault.wait_for()
    ranks.fill("3")
    button.click()
    folder = lab.folder / "shared-script"
    told = panel.locator(".ddl-exported")
    expect(told).to_have_text(
        f"{folder}: shared.ipynb on 3 ranks.\nSend it: bash {folder}/job.sh\nIt comes back as executed.ipynb there."
    )
    assert fault.is_hidden()
    # What is in the page was saved first.
    cells = json.loads((folder / "notebook.ipynb").read_text())["cells"]
    assert ["".join(cell["source"]) for cell in cells] == ["%load_ext jupyter_ddl\n%ddl start", "%%distributed\n1"]
    ranks.fill("")


def test_enter_in_a_dialog_destroys_nothing(lab: Lab, page: Page) -> None:
    folder = recorded.record("2026-11-16T02-00-00-entered-e47e", 2, 5)
    lab.set_code(page, "%%distributed\n1")
    lab.wait_until_idle(page)
    panel = show_panel(page)
    with ToldKernel(lab, page.evaluate(KERNEL)) as kernel:
        kernel.tell([rank(0), rank(1)])
        search_runs(panel, "entered", 1)
        panel.get_by_role("checkbox", name=folder.name).check()
        for ask in (
            lambda: choose_of_ranks(page, panel, "Stop…"),
            lambda: choose_of_ranks(page, panel, "Restart…"),
            lambda: delete_ticked(page, panel),
        ):
            ask()
            focused = page.locator(".jp-Dialog button:focus")
            focused.filter(has_text="Cancel").wait_for()
            page.keyboard.press("Enter")
            page.locator(".jp-Dialog").wait_for(state="detached")
        assert folder.exists()
        assert panel.locator(".ddl-cluster").count() == 1
        # A rank that is not there is no rank of a cell.
        field = page.get_by_label("Ranks that the cell runs on")
        field.fill("0,7")
        assert field.get_attribute("aria-invalid") == "true"
        assert field.get_attribute("title") == "A rank must be one of 0-1."
        field.press("Enter")
        assert page.evaluate(SOURCE) == "%%distributed\n1"
        field.fill("1")
        field.press("Enter")
        assert page.evaluate(SOURCE) == "%%distributed -r 1\n1"
