"""A stall as users see it on a run's page: while it lasts, as text, in both themes, and on a page that is narrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import recorded
from lab import set_theme
from panel import axe_findings

from jupyter_ddl.protocol.events import CollectiveStalled, RunFinished, StallReported
from jupyter_ddl.protocol.faults import Facts, Fault

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Page

BOX = ".ddl-dashboard .ddl-stall"
OPEN = "run => void window.jupyterapp.commands.execute('jupyter-ddl:open-run', {run})"
WHAT = "The cell has stalled for 5 s: not every rank has entered\n  alone: rank 0 waits in it for rank 1"
WHERE = f"Rank 1 of 2 on node-a\n  cell line 3: time.sleep(1000) {recorded.HOSTILE}\n" + "  " + "frame " * 200
# WCAG 2's least contrast of text: https://www.w3.org/TR/WCAG22/#contrast-minimum is part of what axe-core looks at.
FITS = "box => box.scrollWidth <= box.clientWidth && box.getBoundingClientRect().right <= window.innerWidth"


@pytest.fixture
def page(notebook: Page) -> Page:
    """The notebook that all tests share."""
    return notebook


def stall(folder: Path) -> None:
    """Have a run say that its ranks stall, and where they are."""
    stalled = CollectiveStalled(recorded.RUN, 0, recorded.BEGAN_S + 9, 2.0, ("alone",), {"1": ["alone"]})
    fault = Fault("stalled", "unknown", (0, 1), facts=Facts(note=f"{WHAT}\n{WHERE}"))
    recorded.append(folder, stalled, StallReported(recorded.RUN, (0, 1), recorded.BEGAN_S + 10, fault))


def test_a_stall_shows_on_the_page_of_its_run_until_a_step_comes_and_until_the_run_ends(page: Page) -> None:
    folder = recorded.record("2026-11-13T02-00-00-default-57a1", 2, 5, over=False)
    page.evaluate(OPEN, folder.name)
    page.locator(".ddl-dashboard .ddl-value").first.wait_for()
    box = page.locator(BOX)
    assert box.is_hidden()
    stall(folder)
    alert = box.get_by_role("alert")
    alert.filter(has_text="rank 0 waits in it for rank 1").wait_for()
    where = box.get_by_role("region", name="Where the ranks are")
    # Text with what looks like HTML in it, and no terminal control.
    assert "cell line 3: time.sleep(1000) <img src=x" in where.inner_text()
    assert where.locator("*").count() == 0
    assert page.evaluate("window.pwned") is None
    for dark in (True, False):
        set_theme(page, dark=dark)
        assert axe_findings(page, ".ddl-dashboard") == []
    page.set_viewport_size({"width": 700, "height": 900})
    assert box.evaluate(FITS)
    where.focus()
    assert where.evaluate("where => where === document.activeElement")

    recorded.append(folder, *recorded.second(2, 6))
    box.wait_for(state="hidden")
    stall(folder)
    alert.filter(has_text="rank 0 waits in it for rank 1").wait_for()
    recorded.append(folder, RunFinished(recorded.RUN, "stalled", 12.0))
    box.wait_for(state="hidden")
    page.locator(".ddl-run-state").filter(has_text="stalled").wait_for()


def test_a_run_that_stalls_says_so_under_its_cell(lab: Lab, page: Page) -> None:
    code = f"""
import recorded
from jupyter_ddl.protocol.events import CollectiveStalled, StallReported
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.views.dashboard import Dashboard
from jupyter_ddl.views.publish import JupyterPublisher
dashboard = Dashboard(JupyterPublisher(get_ipython()))
dashboard.handle(recorded.started(2))
for event in recorded.second(2, 1):
    dashboard.handle(event)
dashboard.handle(CollectiveStalled(recorded.RUN, 0, recorded.BEGAN_S + 9, 2.0, ("alone",), {{"1": ["alone"]}}))
fault = Fault("stalled", "unknown", (0, 1), facts=Facts(note={WHAT!r}))
dashboard.handle(StallReported(recorded.RUN, (0, 1), recorded.BEGAN_S + 10, fault))
dashboard.tick(1.0)
"""
    lab.run_code(page, code)
    page.locator(BOX).get_by_role("alert").filter(has_text="rank 0 waits in it for rank 1").wait_for(timeout=60_000)
    assert page.locator(BOX).get_by_role("region").is_hidden()
