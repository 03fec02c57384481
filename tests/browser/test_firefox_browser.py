"""The panel, its pages and a dashboard under a cell in Firefox, where Debian's is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import recorded
from firefox import FIREFOX, firefox
from panel import AXE, PANEL
from servers import TOKEN
from told_kernel import ToldKernel, rank

if TYPE_CHECKING:
    from firefox import FirefoxPage
    from lab import Lab

pytestmark = [
    pytest.mark.usefixtures("gone"),
    pytest.mark.skipif(not Path(FIREFOX).exists(), reason=f"{FIREFOX} is not there: apt-get install firefox-esr"),
]
SHOWN = ".jp-MainAreaWidget:not(.lm-mod-hidden) .ddl-page"
RANKS = f"{PANEL} .ddl-start-row input"
ENTER, ARROW_DOWN, TAB = "\ue007", "\ue015", "\ue004"
OUTPUT = ".jp-Notebook .ddl-run-output"
# It lasts until the test has seen enough of it, however long Firefox takes to load the page again.
LIVE = """
import pathlib
import shutil
import recorded
from jupyter_ddl.protocol.events import RunFinished
from jupyter_ddl.views.dashboard import Dashboard
from jupyter_ddl.views.publish import JupyterPublisher
shutil.rmtree(recorded.paths.runs_dir() / recorded.RUN, ignore_errors=True)
dashboard = recorded.Kept(Dashboard(JupyterPublisher(get_ipython())), 2)
recorded.feed(dashboard, 2, 10_000, pace_s=0.5, enough=pathlib.Path("enough"))
dashboard.handle(RunFinished(recorded.RUN, "finished", 100.0))
dashboard.flush()
"""
# Of each line that is shown its rank.
SHOWN_RANKS = (
    f"[...document.querySelectorAll('{OUTPUT} .ddl-line:not([hidden]) .ddl-line-rank')].map(one => one.textContent)"
)


def violations(page: FirefoxPage, within: str) -> list[str]:
    if not page.ask("typeof window.axe === 'object'"):
        page.ask(f"window.eval({json.dumps(AXE.read_text())}) === undefined")
    return [
        str(one)
        for one in page.ask(f"axe.run({json.dumps(within)}).then(found => found.violations.map(one => one.id))")
    ]


def test_ranks_runs_and_a_runs_page_in_firefox(lab: Lab, tmp_path: Path) -> None:
    first = recorded.record("2026-09-02T02-00-00-firefox-0001", 2, 5)
    recorded.record("2026-09-02T02-00-01-firefox-0002", 2, 5)
    lab.write("firefox.ipynb", "%%distributed\nprint(rank)")
    with firefox(tmp_path) as page:
        page.size(1440, 900)
        page.open(f"{lab.url}/lab/workspaces/firefox/tree/firefox.ipynb?token={TOKEN}&reset")
        page.wait_for("document.querySelector('.jp-NotebookPanel .jp-CodeCell') !== null")
        page.ask("window.jupyterapp.commands.execute('jupyter-ddl:show-panel').then(() => 1)")
        # The form, by hand: what is typed is what the line has.
        page.click(RANKS)
        page.press("3")
        page.ask(f"document.querySelector('{PANEL} .ddl-more').open = true")
        page.wait_for(f"document.querySelector('{PANEL} .ddl-start-line').textContent.includes('-n 3')")
        with ToldKernel(lab, "firefox") as kernel:
            kernel.tell([rank(0), rank(1, state="running")], state="running", run=first.name)
            page.wait_for(f"document.querySelectorAll('{PANEL} .ddl-rank-row:not([hidden])').length === 2")
        # Without that kernel there is its list of runs: one stop of the Tab key, arrows, Enter.
        page.ask(f"document.querySelector('{PANEL} [aria-label=\"Search runs\"]').focus()")
        page.press(*"firefox-000")
        page.wait_for(f"document.querySelectorAll('{PANEL} .ddl-run-row:not([hidden])').length === 2")
        # Beside the field are its clear button and the filter's.
        page.press(TAB, TAB, TAB, ARROW_DOWN, ENTER)
        page.wait_for(f"document.querySelector('{SHOWN} .ddl-value')?.textContent.trim()")
        page.wait_for(f"document.querySelector('{SHOWN} canvas')?.width > 100")
        assert page.ask(f"document.querySelector('{SHOWN} h2').textContent") == "firefox-0001"
        for within in (PANEL, SHOWN):
            assert violations(page, within) == []
        page.screenshot(tmp_path / "run.png")
        assert page.raised == []
    lab.end_kernels()


@pytest.mark.slow
def test_a_dashboard_under_a_cell_continues_after_a_reload_in_firefox(lab: Lab, tmp_path: Path) -> None:
    lab.write("live.ipynb", LIVE)
    place = f"{lab.url}/lab/workspaces/firefox-live/tree/live.ipynb?token={TOKEN}"
    with firefox(tmp_path) as page:
        page.size(1440, 1100)
        page.open(f"{place}&reset")
        page.wait_for("window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'")
        page.ask("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
        see_it_drawn(page)
        # The lines of one rank, as its number is typed.
        page.click(f"{OUTPUT} .ddl-log-bar input")
        page.press("1")
        page.wait_for(f"(ranks => ranks.length > 3 && ranks.every(rank => rank === '1'))({SHOWN_RANKS})")
        page.ask("window.jupyterapp.commands.execute('docmanager:save').then(() => 1)")
        page.open(place)
        see_it_drawn(page)
        assert violations(page, OUTPUT) == []
        (lab.folder / "enough").touch()
        page.wait_for(f"document.querySelector('{OUTPUT} .ddl-run-state').textContent.includes('finished')")
        assert page.raised == []
    lab.end_kernels()


def see_it_drawn(page: FirefoxPage) -> None:
    """Wait until figures and charts are there, and more lines come."""
    page.wait_for(f"document.querySelector('{OUTPUT} .ddl-dashboard .ddl-value')?.textContent.trim()")
    page.wait_for(f"document.querySelectorAll('{OUTPUT} canvas').length > 3")
    # What is out of sight is not drawn.
    page.ask(f"void document.querySelector('{OUTPUT} .ddl-log').scrollIntoView({{ block: 'end' }})")
    count = f"parseFloat(document.querySelector('{OUTPUT} .ddl-count').textContent.replace(',', ''))"
    before = page.wait_for(count)
    page.wait_for(f"{count} > {before}")


@pytest.mark.slow
def test_runs_are_compared_and_a_log_is_searched_in_firefox(lab: Lab, tmp_path: Path) -> None:
    names = [recorded.record(f"2026-09-03T02-00-00-firefox-000{at}", 2, 20, slower=1 + at).name for at in range(2)]
    with firefox(tmp_path) as page:
        page.size(1440, 900)
        page.open(f"{lab.url}/lab/workspaces/firefox-pages?token={TOKEN}&reset")
        page.wait_for("window.jupyterapp?.commands.hasCommand('jupyter-ddl:compare-runs')")
        command(page, "compare-runs", {"runs": names})
        page.wait_for(f"document.querySelector('{SHOWN} canvas')?.width > 100")
        assert violations(page, SHOWN) == []
        command(page, "open-log", {"run": names[0]})
        page.wait_for(f"document.querySelector('{SHOWN} .ddl-line')?.textContent.trim()")
        assert violations(page, SHOWN) == []
        page.screenshot(tmp_path / "log.png")
        assert page.raised == []


def command(page: FirefoxPage, name: str, given: dict[str, Any]) -> None:
    code = f"window.jupyterapp.commands.execute('jupyter-ddl:{name}', {json.dumps(given)})"
    page.ask(f"{code}.then(() => 1)")
