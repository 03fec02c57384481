"""No bar wraps, overflows or cuts what it says, in three languages and both themes, in the windows that people have.

The section of ranks is as high as what it holds; axe-core finds nothing in any view, in either theme.

Scroll bars take room here, as on most desktops.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, NamedTuple

import pytest
import recorded
from lab import jupyterlab, launch, set_theme
from panel import PANEL, axe_findings, show_panel
from playwright.sync_api import expect
from ranks.sizes import slow_but
from told_kernel import ToldKernel, rank

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Browser, Page

# The last is 1440x900 at 150 %.
SIZES = ((1024, 700), (1440, 900), (960, 600))
THEMES = ("light", "dark")
SHOWN = ".jp-MainAreaWidget:not(.lm-mod-hidden) .ddl-page"
BARS = ".ddl-page-bar, .ddl-page > .ddl-log-bar, .ddl-compare-tools, .ddl-run-search, .ddl-cluster-line, .ddl-start-row"
# What is wrong with the bars that are in sight. Children of a bar that share no line of pixels are in two rows.
FAULTS = """bars => [...document.querySelectorAll(bars)].filter(bar => bar.checkVisibility()).flatMap(bar => {
  const name = `${bar.className} of ${bar.closest('.ddl-panel').className}`;
  const parts = [...bar.children].filter(part => part.checkVisibility() && part.getBoundingClientRect().width > 0);
  const boxes = parts.map(part => part.getBoundingClientRect());
  const top = Math.max(...boxes.map(box => box.top));
  const bottom = Math.min(...boxes.map(box => box.bottom));
  const right = Math.max(...boxes.map(box => box.right));
  const cut = [...bar.querySelectorAll('h2, .ddl-button, label')].filter(one => one.scrollWidth > one.clientWidth + 1);
  return [
    ...(top >= bottom ? [`${name} wraps`] : []),
    ...(right > bar.getBoundingClientRect().right + 1 ? [`${name} overflows`] : []),
    ...cut.map(one => `${name} cuts ${one.textContent}`),
  ];
})"""
KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id"
# The section has neither a scroll bar nor empty space, but for a part of a pixel and what rounding adds to it.
FITS = """() => {
  const content = document.querySelector('#jupyter-ddl-panel .ddl-section-content');
  const section = content.parentElement;
  const { paddingTop, paddingBottom } = getComputedStyle(section);
  const needed = content.getBoundingClientRect().height + parseFloat(paddingTop) + parseFloat(paddingBottom);
  return section.scrollHeight <= section.clientHeight && section.clientHeight - needed < 4;
}"""
# Locale -> the form's field, what it says of no ranks, and the command that shows all clusters.
SAID = {
    "en": ("Ranks", "Ranks must be a whole number of at least 1.", "Show All Clusters"),
    "de_DE": ("Ränge", "Ränge muss eine ganze Zahl ab 1 sein.", "Alle Cluster zeigen"),
    "cs_CZ": ("Ranky", "Ranky musí být celé číslo, nejméně 1.", "Zobrazit všechny clustery"),
}


class Spoken(NamedTuple):
    """A JupyterLab and its language."""

    locale: str
    lab: Lab


@pytest.fixture(scope="module")
def wide_browser(browser: Browser) -> Iterator[Browser]:
    running = launch(browser.browser_type, has_scroll_bars=True)
    yield running
    running.close()


@pytest.fixture(scope="module", params=slow_but({"de_DE"}, SAID))
def spoken(needed: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spoken]:
    if request.param == "en":
        yield Spoken(request.param, request.getfixturevalue("lab"))
        return
    folder = tmp_path_factory.mktemp(request.param)
    settings = folder / "settings" / "@jupyterlab" / "translation-extension"
    settings.mkdir(parents=True)
    (settings / "plugin.jupyterlab-settings").write_text(json.dumps({"locale": request.param}))
    with jupyterlab(folder) as running:
        yield Spoken(request.param, running)


def open_notebook(lab: Lab, browser: Browser) -> Page:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    lab.write("bars.ipynb", "1")
    lab.open(page, "bars.ipynb")
    show_panel(page, more=False)
    return page


def record_runs(number: int) -> tuple[Path, Path]:
    """Return a run that failed, and one that did not."""
    failed = recorded.record(f"2026-11-16T17-20-31-default-0b0{number}", 8, 25, fails=True)
    return failed, recorded.record(f"2026-11-16T18-02-11-default-810{number}", 4, 25)


def open_views(page: Page, runs: tuple[Path, Path]) -> Iterator[str]:
    """Open one page after the other, and give its name once all of it is there."""
    failed, other = runs
    views = {
        "run": ("jupyter-ddl:open-run", {"run": failed.name}, ".ddl-value"),
        "log": ("jupyter-ddl:open-log", {"run": failed.name, "rank": "all"}, ".ddl-line"),
        "compare": ("jupyter-ddl:compare-runs", {"runs": [failed.name, other.name]}, "canvas"),
        "clusters": ("jupyter-ddl:all-clusters", {}, ".ddl-hint"),
    }
    for view, (name, given, ready) in views.items():
        page.evaluate(
            "([name, given]) => window.jupyterapp.commands.execute(name, given).then(() => null)", [name, given]
        )
        page.locator(f"{SHOWN} {ready}").first.wait_for()
        if view == "run":
            # The button that needs the most room comes with the run's events.
            page.locator(f"{SHOWN} .ddl-page-bar .ddl-button").nth(1).wait_for()
        yield view


def faults_of_bars(page: Page, runs: tuple[Path, Path]) -> dict[str, list[str]]:
    """Return what is wrong with bars, by page, size of the window and theme."""
    found: dict[str, list[str]] = {}
    for view in open_views(page, runs):
        for theme, (width, height) in itertools.product(THEMES, SIZES):
            set_theme(page, dark=theme == "dark")
            page.set_viewport_size({"width": width, "height": height})
            settle(page)
            page.wait_for_function(f"window.jupyterapp.shell.node.offsetWidth === {width}")
            if faults := page.evaluate(FAULTS, BARS):
                found[f"{view} at {width}x{height}, {theme}"] = faults
    return found


def settle(page: Page) -> None:
    """Wait until layouts follow what changed, which they do in the next frames."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_no_bar_wraps_or_overflows(spoken: Spoken, wide_browser: Browser) -> None:
    lab = spoken.lab
    page = open_notebook(lab, wide_browser)
    with ToldKernel(lab, "elsewhere") as told:
        told.tell([rank(at) for at in range(4)])
        page.locator(".ddl-cluster-line").first.wait_for()
        found = faults_of_bars(page, record_runs(list(SAID).index(spoken.locale)))
    page.context.close()
    lab.end_kernels()
    assert found == {}


def test_the_form_and_the_commands_speak_the_language(spoken: Spoken, wide_browser: Browser) -> None:
    page = open_notebook(spoken.lab, wide_browser)
    field, fault, label = SAID[spoken.locale]
    form = page.locator(".ddl-start")
    form.get_by_label(field, exact=True).and_(page.locator("input")).fill("0")
    assert form.locator("#ddl-fault-ranks").inner_text() == fault
    assert page.evaluate("window.jupyterapp.commands.label('jupyter-ddl:all-clusters')") == label
    page.context.close()
    spoken.lab.end_kernels()


def test_axe_finds_nothing_in_any_view_in_either_theme(lab: Lab, wide_browser: Browser) -> None:
    page = open_notebook(lab, wide_browser)
    found: dict[str, list[str]] = {}
    for view in open_views(page, record_runs(len(SAID))):
        for theme in THEMES:
            set_theme(page, dark=theme == "dark")
            if findings := axe_findings(page, SHOWN) + axe_findings(page, PANEL):
                found[f"{view}, {theme}"] = findings
    page.context.close()
    lab.end_kernels()
    assert found == {}


def test_the_section_of_ranks_is_as_high_as_what_it_holds(lab: Lab, wide_browser: Browser) -> None:
    page = open_notebook(lab, wide_browser)
    lab.wait_until_idle(page)
    clusters = page.locator(PANEL).locator(".ddl-cluster")
    rows = ".ddl-rank-row:visible"
    with ToldKernel(lab, "elsewhere") as other, ToldKernel(lab, page.evaluate(KERNEL)) as own:
        other.tell([rank(at) for at in range(3)], name="other")
        expect(clusters.locator(rows)).to_have_count(3)
        page.wait_for_function(FITS)
        own.tell([rank(at) for at in range(2)], name="own")
        # The notebook's own come first, and the others are a line, which unfolds.
        expect(clusters.locator("h3")).to_have_text(["own\u00a0· 2 ranks", "other\u00a0· 3 ranks"])
        expect(clusters.nth(0).locator(rows)).to_have_count(2)
        expect(clusters.nth(1).locator(rows)).to_have_count(0)
        page.wait_for_function(FITS)
        clusters.nth(1).locator("summary").click()
        expect(clusters.nth(1).locator(rows)).to_have_count(3)
        page.wait_for_function(FITS)
    page.context.close()
    lab.end_kernels()
