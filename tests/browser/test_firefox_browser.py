"""The panel and a run's page in Firefox, where Debian's is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

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
    pytest.mark.slow,
    pytest.mark.skipif(not Path(FIREFOX).exists(), reason=f"{FIREFOX} is not there: apt-get install firefox-esr"),
]
SHOWN = ".jp-MainAreaWidget:not(.lm-mod-hidden) .ddl-page"
RANKS = f"{PANEL} .ddl-start-row input"
ENTER, ARROW_DOWN, TAB = "\ue007", "\ue015", "\ue004"


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
        assert page.ask(f"document.querySelector('{SHOWN} h2').textContent") == first.name
        for within in (PANEL, SHOWN):
            assert violations(page, within) == []
        page.screenshot(tmp_path / "run.png")
        assert page.raised == []
    lab.end_kernels()
