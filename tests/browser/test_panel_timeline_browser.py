"""The timeline of a run in its page: loaded when its tab is opened, drawn, zoomed, and saved as files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import recorded
from lab import command, set_theme
from panel import axe_findings
from playwright.sync_api import expect

from tests.timelines import written

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page

# A heading has no time.
AT = "2026-11-27T02-00-00-"
RUN, WITHOUT = f"{AT}timeline-3f9c", f"{AT}timeline-4f9c"
PAGE = ".jp-MainAreaWidget:not(.lm-mod-hidden) .ddl-page"
LATE = 57
# How many pixels of a picture have another colour than the one before them: a picture that is zoomed in has fewer bars.
EDGES = """canvas => {
  const { width, height } = canvas;
  const { data } = canvas.getContext('2d').getImageData(50, Math.round(height * 0.6), width - 50, 1);
  let edges = 0;
  for (let at = 4; at < data.length; at += 4) {
    edges += Math.abs(data[at] - data[at - 4]) + Math.abs(data[at + 2] - data[at - 2]) > 40;
  }
  return edges;
}"""


@pytest.fixture
def page(notebook: Page) -> Page:
    """The notebook that all tests share."""
    return notebook


@pytest.fixture
def runs() -> None:
    for name in (RUN, WITHOUT):
        if not (recorded.paths.runs_dir() / name).exists():
            recorded.record(name, 2, 20)
    written(recorded.paths.runs_dir() / RUN / "rank-0.timeline.json", 100, {LATE: 50_000})


def opened(page: Page, run: str) -> Locator:
    command(page, "jupyter-ddl:open-run", run=run)
    shown = page.locator(PAGE)
    shown.get_by_role("heading", name=run.removeprefix(AT), exact=True).wait_for()
    shown.locator(".ddl-code").filter(has_text="model.fit").wait_for(state="attached")
    return shown


def saved(page: Page, shown: Locator, name: str, folder: Path) -> Path:
    with page.expect_download() as found:
        shown.get_by_role("link", name=name).click()
    path = folder / found.value.suggested_filename
    found.value.save_as(path)
    return path


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["light", "dark"])
def test_a_tab_of_the_run_says_where_its_steps_time_went(page: Page, runs: None, dark: bool, tmp_path: Path) -> None:
    set_theme(page, dark=dark)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    shown = opened(page, RUN)
    tab = shown.get_by_role("tab", name="Timeline")
    tab.wait_for()
    assert not [url for url in asked if f"{RUN}/timeline" in url], "the analysis takes time: on request only"
    shown.get_by_role("tab", name="Run").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    timeline = shown.get_by_role("tabpanel", name="Timeline")
    expect(timeline.get_by_role("status").first).to_have_text("99 steps · 2 ranks")
    expect(shown.locator(".ddl-dashboard")).to_be_hidden()
    expect(timeline).to_contain_text("The ranks waited 99.5 ms in all for rank 1, 50.5 ms of it in step 57, for b.")
    last = timeline.get_by_role("region", name="Which rank was last").locator("tbody tr")
    expect(last).to_have_count(2)
    assert last.nth(1).locator("td").all_inner_texts()[2:] == ["99 of 99 steps", "99.5 ms"]
    figures = timeline.get_by_role("region", name="A step").locator("tbody tr").all_inner_texts()
    assert [row.split("\t")[1:] for row in figures[:3]] == [["10 ms", "100%"], ["2.2 ms", "22%"], ["1.5 ms", "15%"]]
    tensors = timeline.get_by_role("region", name="Longest exchanges").locator("tbody tr").all_inner_texts()
    assert sorted(row.split("\t")[0] for row in tensors) == ["a", "b", "c"]
    picture = timeline.get_by_role("img")
    # Forty steps of each rank are drawn.
    assert picture.evaluate(EDGES) > 100
    timeline.get_by_role("button", name=f"Step {LATE}, waited for longest").click()
    expect(timeline.get_by_label("from step")).to_have_value(str(LATE))
    reading = timeline.get_by_role("status").nth(1)
    told = f"step {LATE}: 60 ms · compute of the slowest rank 58.5 ms · exposed exchange 1.5 ms"
    expect(reading).to_contain_text(told)
    expect(reading).to_contain_text("rank 1 last by 50.5 ms, b")
    assert axe_findings(page, PAGE) == []
    timeline.get_by_role("button", name="Earlier steps").click()
    expect(timeline.get_by_label("from step")).to_have_value(str(LATE - 40))
    expect(reading).to_contain_text(f"step {LATE - 40}: 10 ms")
    tab.click()
    assert saved(page, timeline, "JSON", tmp_path).name == f"{RUN}-timeline.json"
    record = json.loads((tmp_path / f"{RUN}-timeline.json").read_text())
    assert (record["steps"], record["by_rank"]["1"]["last"]) == (99, 99)
    events = json.loads(saved(page, timeline, "For Perfetto", tmp_path).read_text())
    assert sum(event.get("name") == "MPI_ALLREDUCE" for event in events) == 300
    shown.get_by_role("tab", name="Run").click()
    expect(shown.locator(".ddl-dashboard")).to_be_visible()
    expect(timeline).to_be_hidden()
    set_theme(page, dark=False)


def test_the_wheel_and_keys_zoom_and_move(page: Page, runs: None) -> None:
    shown = opened(page, RUN)
    shown.get_by_role("tab", name="Timeline").click()
    timeline = shown.get_by_role("tabpanel", name="Timeline")
    picture = timeline.get_by_role("img")
    picture.wait_for()
    edges = f"({EDGES})(document.querySelector('{PAGE} [role=tabpanel] canvas'))"
    # The page comes up while it is laid out.
    page.wait_for_function(f"() => {edges} > 100")
    all_of_it = picture.evaluate(EDGES)
    picture.hover()
    for _ in range(8):
        page.mouse.wheel(0, -100)
    page.wait_for_function(f"most => {edges} < most / 3", arg=all_of_it)
    zoomed = picture.evaluate(EDGES)
    picture.focus()
    for _ in range(4):
        page.keyboard.press("-")
    assert zoomed < picture.evaluate(EDGES) < all_of_it
    page.keyboard.press("Escape")
    assert picture.evaluate(EDGES) == all_of_it
    for _ in range(16):
        page.keyboard.press("+")
    reading = timeline.get_by_role("status").nth(1)
    at = int(reading.inner_text().split()[1].rstrip(":"))
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    assert int(reading.inner_text().split()[1].rstrip(":")) > at
    for _ in range(400):
        page.keyboard.press("ArrowRight")
    expect(reading).to_contain_text("step 40: ")


def test_a_run_without_one_has_no_tabs(page: Page, runs: None) -> None:
    shown = opened(page, WITHOUT)
    expect(shown.get_by_role("tab", name="Timeline")).to_be_hidden()
