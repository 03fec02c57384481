"""The dashboard as users see it: in JupyterLab, in Chromium, fed by a kernel."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
import recorded
from lab import number, set_theme

if TYPE_CHECKING:
    from lab import Lab
    from playwright.sync_api import Page

LIVE = """
import recorded
from jupyter_ddl.views.dashboard import Dashboard
from jupyter_ddl.views.publish import JupyterPublisher
dashboard = Dashboard(JupyterPublisher(get_ipython()), single_rank=lambda _: 1100.0)
recorded.feed(dashboard, {ranks}, {seconds}, pace_s={pace_s}, past={past})
"""
FINISHED = """
import recorded
from jupyter_ddl.views.dashboard import show_finished
from jupyter_ddl.views.publish import JupyterPublisher
show_finished({events}, JupyterPublisher(get_ipython()))
"""
ODD_END = """
import recorded
from dataclasses import replace
from jupyter_ddl.protocol.events import MetricsSample
def odd(event):
    last = isinstance(event, MetricsSample) and event.step == 8 * 30
    return replace(event, samples_per_s=8.0, step_s=1.0, exchange_s=None) if last else event
events = [odd(event) for event in recorded.run(2, 30)]
"""
ODD_FIGURES = """
import recorded
from dataclasses import replace
from jupyter_ddl.protocol.events import MetricsSample
def odd(event):
    values = dict(loss=float("nan"), samples_per_s=float("inf"), metrics={"auc": float("-inf")})
    return replace(event, **values) if isinstance(event, MetricsSample) else event
events = [odd(event) for event in recorded.run(2, 12)]
"""
IDLE = """
import recorded
from dataclasses import replace
from jupyter_ddl.protocol.events import MetricsSample, OutputChunk
def idle(event):
    none = dict.fromkeys(("step", "epoch", "samples_per_s", "step_s", "input_s", "exchange_s", "loss", "model"))
    return replace(event, **none, metrics={}) if isinstance(event, MetricsSample) else event
events = [idle(event) for event in recorded.run(2, 12) if not isinstance(event, OutputChunk)]
events.insert(1, OutputChunk(recorded.RUN, 0, "stdout", "the end of it\\n", skipped_bytes=1000))
"""
# WCAG 2's contrast of each text against the dashboard's ground: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio
CONTRAST = """() => {
  const texts = '.ddl-run-state, .ddl-chip, .ddl-value, .ddl-note, .ddl-cell, .ddl-line-text, .ddl-legend li';
  const linear = (value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((value) => linear(value / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = light(getComputedStyle(document.querySelector('.ddl-dashboard')).backgroundColor);
  const found = {};
  for (const element of document.querySelectorAll(texts)) {
    const ink = light(getComputedStyle(element).color);
    found[element.className] = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
  }
  return found;
}"""
# How many lines of the log are seen.
IN_SIGHT = """body => {
  const { top, bottom } = body.getBoundingClientRect();
  const places = [...body.querySelectorAll('.ddl-line:not([hidden])')].map((line) => line.getBoundingClientRect());
  return places.filter((place) => place.bottom > top && place.top < bottom).length;
}"""
TILE = ".ddl-tile:has(dt:text-is('{}')) .ddl-value"


@pytest.fixture
def page(notebook: Page) -> Page:
    """The notebook that all tests share: what each of them runs is shown in place of the last one's."""
    return notebook


def live(ranks: int, seconds: int, past: int, pace_s: float = 1.0) -> str:
    return LIVE.format(ranks=ranks, seconds=seconds, past=past, pace_s=pace_s)


def finished(ranks: int, seconds: int, *, fails: bool = False) -> str:
    return FINISHED.format(events=f"recorded.run({ranks}, {seconds}, fails={fails})")


def show(lab: Lab, page: Page, code: str) -> None:
    lab.run_code(page, code)
    page.wait_for_selector(".ddl-dashboard .ddl-value", timeout=60_000)


def wait_for_text(page: Page, selector: str, text: str, timeout_s: float = 30) -> None:
    page.locator(selector).filter(has_text=text).first.wait_for(timeout=timeout_s * 1000)


def lines(page: Page) -> list[str]:
    """Return the lines that are in the page, from the top."""
    rows = page.locator(".ddl-line:not([hidden])").evaluate_all(
        "rows => rows.map(row => [row.offsetTop, row.lastElementChild.textContent])"
    )
    return [text for _, text in sorted(rows)]


def test_it_is_live_while_the_kernel_is_busy(lab: Lab, page: Page) -> None:
    # Rank 5 is a straggler from second 30 on.
    show(lab, page, live(ranks=8, seconds=600, past=25, pace_s=0.5))
    assert page.locator(".ddl-counts").inner_text().split() == ["●", "8", "training"]
    steps = page.locator(TILE.format("steps"))
    before = number(steps.inner_text())
    page.wait_for_function(
        "before => parseFloat(document.querySelectorAll('.ddl-value')[3].textContent) > before", arg=before
    )
    # 128 samples in 120 ms on each of 8 ranks, until rank 5 holds all up.
    assert number(page.locator(TILE.format("samples/s")).inner_text()) == pytest.approx(8 * 128 / 0.12, rel=0.4)
    assert page.locator(TILE.format("scaling efficiency")).inner_text().endswith("%")
    # Rates, loss, accuracy, what a step is spent on, the device.
    assert page.locator(".ddl-chart canvas").count() == 5
    wait_for_text(page, ".ddl-counts", "1 straggler", 60)
    assert "straggler" in page.locator(".ddl-rows [aria-rowindex='7']").inner_text()
    assert "A step: compute" in (page.locator(".ddl-split").get_attribute("aria-label") or "")


def test_a_page_that_opens_late_has_the_whole_run(lab: Lab, page: Page) -> None:
    show(lab, page, live(ranks=4, seconds=25, past=24))
    page.wait_for_function("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'")
    lab.save(page)
    # The last update may not have had its turn.
    page.locator(TILE.format("steps")).filter(has_text="200").wait_for()
    lab.open(page, "shared.ipynb", workspace="other")
    page.wait_for_selector(".ddl-dashboard .ddl-value", timeout=60_000)
    wait_for_text(page, ".ddl-count", "101 lines")
    assert page.locator(TILE.format("steps")).inner_text() == "200"
    assert number(page.locator(".ddl-chart .ddl-legend-value").first.inner_text()) > 0


def test_two_views_of_one_run_tell_the_same(lab: Lab, page: Page) -> None:
    show(lab, page, finished(ranks=2, seconds=20) + "\nfrom IPython.display import display")
    page.evaluate("window.jupyterapp.commands.execute('notebook:create-output-view')")
    page.wait_for_function("document.querySelectorAll('.ddl-dashboard').length === 2")
    page.wait_for_function("document.querySelectorAll('.ddl-count')[1].textContent === '41 lines'")


def test_hostile_output_is_text(lab: Lab, page: Page) -> None:
    show(lab, page, finished(ranks=2, seconds=3))
    wait_for_text(page, ".ddl-line-text", "<script>window.pwned=1</script> red  <b>bold</b>")
    assert page.evaluate("window.pwned") is None
    assert page.locator(".ddl-lines :is(img, script, b)").count() == 0


def test_the_log_is_filtered_followed_and_copied(lab: Lab, page: Page) -> None:
    show(lab, page, finished(ranks=8, seconds=40, fails=True))
    count = page.locator(".ddl-count")
    # The page unpacks the history meanwhile.
    wait_for_text(page, ".ddl-count", "325 lines")
    assert count.inner_text() == "325 lines"
    assert lines(page)[-1] == "ValueError: bad <batch>"
    page.get_by_label("Ranks to show").fill("1-2")
    assert count.inner_text() == "80 of 325 lines"
    page.get_by_label("Lines that match").fill(r"step 8\d ")
    assert count.inner_text() == "4 of 325 lines"
    assert {line.split(" loss")[0] for line in lines(page)} == {"step 80", "step 88"}
    page.get_by_role("button", name="Copy", exact=True).click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("[1] step 80 loss ")
    assert copied.count("\n") == 4
    page.get_by_label("Lines that match").fill("(")
    assert page.get_by_label("Lines that match").get_attribute("aria-invalid") == "true"
    assert "Invalid regular expression" in page.locator(".ddl-fault").inner_text()
    page.get_by_label("Ranks to show").fill("nine")
    assert page.locator(".ddl-fault").inner_text() == "Ranks must be like 0-3, 7."
    page.get_by_role("button", name="First error").click()
    assert page.get_by_label("Ranks to show").input_value() == ""
    assert "Rank 3 on node-a raised ValueError" in lines(page)
    assert not page.get_by_role("checkbox", name="follow").is_checked()
    page.get_by_role("checkbox", name="stderr only").check()
    assert count.inner_text() == "5 of 325 lines"


def test_a_part_that_is_out_of_sight_is_not_drawn_until_it_is_seen(lab: Lab, page: Page) -> None:
    page.set_viewport_size({"width": 1200, "height": 500})
    show(lab, page, live(ranks=8, seconds=600, past=40, pace_s=0.5))
    changes = """selector => {
      const count = { of: 0 };
      window.counts = { ...window.counts, [selector]: count };
      const options = { subtree: true, childList: true, characterData: true, attributes: true };
      new MutationObserver((found) => { count.of += found.length; }).observe(document.querySelector(selector), options);
    }"""
    # The straggler, marked in second 30, is history: what changes a rank's state is drawn everywhere at once.
    # What comes once the history is unpacked moves what is in sight.
    page.locator(".ddl-charts canvas").first.wait_for()
    wait_for_text(page, ".ddl-line", "step")
    # To the window's top, so that nothing of the header is in sight.
    page.locator(".ddl-log").evaluate("log => log.scrollIntoView()")
    page.wait_for_timeout(1000)
    for selector in (".ddl-header", ".ddl-log"):
        page.evaluate(changes, selector)
    page.wait_for_function("window.counts['.ddl-log'].of > 100")
    assert page.evaluate("window.counts['.ddl-header'].of") == 0
    page.locator(".ddl-header").scroll_into_view_if_needed()
    page.wait_for_function("window.counts['.ddl-header'].of > 0")


def test_scrolling_up_stops_following(lab: Lab, page: Page) -> None:
    show(lab, page, finished(ranks=8, seconds=40))
    follow = page.get_by_role("checkbox", name="follow")
    assert follow.is_checked()
    page.locator(".ddl-lines").focus()
    page.keyboard.press("Home")
    page.wait_for_function("document.querySelector('.ddl-lines').scrollTop === 0")
    assert not follow.is_checked()
    assert lines(page)[1].startswith("step 8 ")


@pytest.mark.parametrize("key", ["ArrowUp", "Home"])
def test_lines_that_came_while_they_were_followed_have_their_place(lab: Lab, page: Page, key: str) -> None:
    # A list grows by a quarter before it is drawn anew: by 400 lines, which take 25 s to come.
    show(lab, page, live(ranks=8, seconds=600, past=200, pace_s=0.5))
    body = page.locator(".ddl-lines")
    body.scroll_into_view_if_needed()
    top = body.evaluate("body => body.scrollTop")
    newest = int(lines(page)[-1].split()[1])
    # Each goes where the one before it stood.
    wait_for_text(page, ".ddl-line-text", f"step {newest + 24} ")
    assert body.evaluate("body => body.scrollTop") == top
    body.focus()
    page.keyboard.press("Shift")
    assert body.evaluate(IN_SIGHT) >= 10
    page.keyboard.press(key)
    page.wait_for_selector(".ddl-log label:has-text('follow') :not(:checked)")
    if key == "Home":
        page.wait_for_function("document.querySelector('.ddl-lines').scrollTop === 0")
    steps = [int(line.split()[1]) for line in lines(page) if line.startswith("step ")]
    # The eight of a step stand together, and steps in their order.
    assert all(later - step in (0, 8) for step, later in pairwise(steps))
    assert steps[0] == 8 if key == "Home" else steps[-1] >= newest + 16
    count = number(page.locator(".ddl-count").inner_text().split()[0])
    assert body.evaluate("body => body.scrollHeight") >= count * 18


# What stands at the top, and how high all is, in each frame of the second after a key.
AFTER_A_KEY = """body => new Promise(resolve => {
  const seen = [];
  body.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowUp' }));
  const pressed = performance.now();
  const look = (now) => {
    if (now - pressed > 950) {
      resolve(seen);
    } else {
      seen.push([body.scrollTop, body.scrollHeight]);
      requestAnimationFrame(look);
    }
  };
  requestAnimationFrame(look);
})"""


def test_lines_that_come_after_a_key_do_not_scroll_against_it(lab: Lab, page: Page) -> None:
    """A browser scrolls smoothly, and begins some frames after the key: a batch of lines between took the key away."""
    show(lab, page, live(ranks=8, seconds=600, past=20, pace_s=0.5))
    body = page.locator(".ddl-lines")
    body.scroll_into_view_if_needed()
    newest = int(lines(page)[-1].split()[1])
    wait_for_text(page, ".ddl-line-text", f"step {newest + 24} ")
    # A batch comes each half second; on a busy machine not in every second.
    for _ in range(20):
        tops, heights = zip(*body.evaluate(AFTER_A_KEY), strict=True)
        if heights[-1] > heights[0]:
            break
    assert heights[-1] > heights[0]
    assert set(tops) == {tops[0]}
    # Nothing was scrolled, so the newest are followed again.
    page.wait_for_function(f"document.querySelector('.ddl-lines').scrollTop > {tops[0]}")
    assert page.get_by_role("checkbox", name="follow").is_checked()


@pytest.mark.slow
def test_a_full_log_loses_as_many_lines_as_come_and_does_not_scroll(lab: Lab, page: Page) -> None:
    # Of 256 lines a second the page keeps 50,000, and drops the oldest by the two thousand.
    show(lab, page, live(ranks=64, seconds=2000, past=820, pace_s=0.25))
    wait_for_text(page, ".ddl-count", "older ones")
    body = page.locator(".ddl-lines")
    body.scroll_into_view_if_needed()
    top = body.evaluate("body => body.scrollTop")
    before, newest = page.locator(".ddl-count").inner_text(), int(lines(page)[-1].split()[1])
    dropped = before.split(", ", 1)[1].split()[0]
    page.wait_for_function(
        "dropped => !document.querySelector('.ddl-count').textContent.includes(`, ${dropped} older`)", arg=dropped
    )
    assert body.evaluate("body => body.scrollTop") == top
    assert int(lines(page)[-1].split()[1]) > newest
    body.focus()
    page.keyboard.press("ArrowUp")
    page.wait_for_selector(".ddl-log label:has-text('follow') :not(:checked)")
    assert body.evaluate(IN_SIGHT) >= 10
    steps = [int(line.split()[1]) for line in lines(page) if line.startswith("step ")]
    assert all(later - step in (0, 8) for step, later in pairwise(steps))


def test_a_failed_run_says_who_failed(lab: Lab, page: Page) -> None:
    show(lab, page, finished(ranks=8, seconds=12, fails=True))
    wait_for_text(page, ".ddl-run-state", "failed after 12 s")
    assert page.locator(".ddl-problem").inner_text() == "Rank 3 raised ValueError: bad <batch>"
    assert page.locator(".ddl-counts").inner_text().split("\n") == ["✕ 1 failed", "◇ 7 released"]
    assert page.locator(".ddl-run-state").inner_text() == "Failed after 12 s"


def test_the_table_sorts_by_keyboard(lab: Lab, page: Page) -> None:
    show(lab, page, finished(ranks=16, seconds=40))
    first = page.locator(".ddl-rows [aria-rowindex='2']")
    assert first.locator(".ddl-cell").first.inner_text() == "0"
    page.get_by_role("button", name="samples/s", exact=True).focus()
    page.keyboard.press("Enter")
    header = page.locator(".ddl-head .ddl-column-2")
    assert header.get_attribute("aria-sort") == "descending"
    rows = [page.locator(f".ddl-rows [aria-rowindex='{at}'] .ddl-column-2") for at in range(2, 18)]
    # Half of them are in sight at a time, and in the page.
    rates = [number(row.inner_text()) for row in rows[:8]]
    page.locator(".ddl-rows").evaluate("rows => { rows.scrollTop = rows.scrollHeight; }")
    rates += [number(row.inner_text()) for row in rows[8:]]
    assert rates == sorted(rates, reverse=True)
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "ascending"
    # JupyterLab took none of these keys: the notebook's cell is as it was.
    assert page.locator(".jp-Cell").count() == 1


@pytest.mark.parametrize("ranks", [pytest.param(64, marks=pytest.mark.slow), 1024])
def test_many_ranks_are_a_strip_and_a_table(lab: Lab, page: Page, ranks: int) -> None:
    show(lab, page, finished(ranks=ranks, seconds=10))
    strip = page.locator(".ddl-strip")
    assert (strip.get_attribute("aria-label") or "").startswith(f"{ranks} ranks by samples/s")
    assert page.locator(".ddl-rows .ddl-row").count() < 40
    assert page.locator(".ddl-table").get_attribute("aria-rowcount") == str(ranks + 1)
    strip.focus()
    page.keyboard.press("End")
    assert page.locator(".ddl-strip-reading").inner_text().startswith(f"rank {ranks - 1}: finished")
    page.keyboard.press("Enter")
    assert page.get_by_label("Ranks to show").input_value() == str(ranks - 1)
    page.get_by_label("What the colours show").select_option("input share of a step")
    assert "by input share of a step" in (strip.get_attribute("aria-label") or "")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_takes_the_colours_of_the_theme(lab: Lab, page: Page, dark: bool) -> None:
    show(lab, page, finished(ranks=4, seconds=20))
    set_theme(page, dark=dark)
    blue = "rgb(86, 180, 233)" if dark else "rgb(0, 114, 178)"
    page.wait_for_function(
        "blue => document.querySelector('.ddl-chart .ddl-swatch').style.background === blue", arg=blue
    )
    contrast = page.evaluate(CONTRAST)
    assert contrast
    assert min(contrast.values()) >= 4.5, contrast
    set_theme(page, dark=False)


def test_a_run_that_is_over_has_one_figure_everywhere(lab: Lab, page: Page) -> None:
    # Its last second is none like the others.
    code = ODD_END + FINISHED.format(events="events")
    show(lab, page, code)
    wait_for_text(page, ".ddl-run-state", "finished")
    rate, loss = (page.locator(TILE.format(name)).inner_text() for name in ("samples/s", "loss"))
    # 128 samples in 120 ms, and 180 from second 21 on; the last second alone has 16.
    assert number(rate) > 1000
    note = page.locator(".ddl-tile:has(dt:text-is('samples/s')) .ddl-note").inner_text()
    assert note == "mean of the run, on 2 ranks"
    legends = page.locator(".ddl-chart .ddl-legend-value")
    assert legends.first.inner_text() == rate
    assert page.locator(".ddl-chart").nth(1).locator(".ddl-legend-value").first.inner_text() == loss
    own = page.locator(".ddl-rows [aria-rowindex='2'] .ddl-column-2").inner_text()
    lab.save(page)
    text, svg = next(
        ("".join(output["data"]["text/plain"]), "".join(output["data"]["image/svg+xml"]))
        for output in lab.outputs("shared.ipynb")
        if "image/svg+xml" in output["data"]
    )
    assert {rate, loss} <= set(text.splitlines()[3].split())
    assert own in text.splitlines()[1].split()
    assert all(f">{figure}</text>" in svg for figure in (rate, loss, own))


def test_nan_and_infinity_are_shown_as_such(lab: Lab, page: Page) -> None:
    code = ODD_FIGURES + FINISHED.format(events="events")
    show(lab, page, code)
    wait_for_text(page, ".ddl-run-state", "finished")
    assert page.locator(TILE.format("loss")).inner_text() == "nan"
    assert page.locator(TILE.format("samples/s")).inner_text() == "inf"
    assert page.locator(".ddl-rows [aria-rowindex='3'] .ddl-column-5").inner_text() == "nan"
    wait_for_text(page, ".ddl-chart .ddl-empty", "Nothing to draw: the loss is nan.")
    wait_for_text(page, ".ddl-chart .ddl-empty", "Nothing to draw: the auc is -inf.")
    # What can be drawn is.
    assert page.locator(".ddl-chart canvas").count() == 2


def test_a_run_that_does_not_train_has_no_empty_charts(lab: Lab, page: Page) -> None:
    lab.run_code(page, IDLE + FINISHED.format(events="events"))
    wait_for_text(page, ".ddl-run-state", "finished")
    wait_for_text(page, ".ddl-header .ddl-empty", "This cell did not train.")
    assert page.locator(".ddl-tiles").is_hidden()
    visible = page.locator(".ddl-chart-title:visible").all_inner_texts()
    assert visible == ["GPU use (left) and memory (right)", "Log"]
    assert page.locator(".ddl-head .ddl-column-2").is_hidden()
    assert page.locator(".ddl-count").inner_text() == "2 lines, 1,000 bytes more only in the log files"


@pytest.mark.slow
def test_a_run_that_goes_on_for_long_ends_in_the_right_state(lab: Lab, page: Page) -> None:
    code = (
        live(ranks=2, seconds=6, past=2)
        + "\nimport time\nfor event in recorded.ended(2, 6): dashboard.handle(event)"
        + "\ndashboard.tick(time.monotonic() + 1)"
    )
    show(lab, page, code)
    wait_for_text(page, ".ddl-run-state", "finished after 6 s")
    assert page.locator(TILE.format("steps")).inner_text() == "48"
    assert recorded.RUN in page.locator(".ddl-run-name").inner_text()


# The last one: the notebook that all tests share has no kernel after it.
def test_without_its_kernel_the_notebook_shows_the_final_state(lab: Lab, page: Page) -> None:
    show(lab, page, finished(ranks=8, seconds=25, fails=True))
    picture = page.locator("svg.jupyter-ddl-final-state, img[src*='jupyter-ddl-final-state']")
    # While the dashboard is there, no picture of it is shown.
    assert picture.count() == 0
    lab.save(page)
    lab.end_kernels()
    lab.open(page, "shared.ipynb", workspace="reopened")
    picture.wait_for(timeout=30_000)
    page.get_by_text("This server does not have the run: this is what it left here at its end.").wait_for()
    assert page.locator(".ddl-dashboard").count() == 0
    table = [
        output["data"]["text/plain"] for output in lab.outputs("shared.ipynb") if "image/svg+xml" in output["data"]
    ]
    assert "rank 3 raised ValueError" in table[0]
