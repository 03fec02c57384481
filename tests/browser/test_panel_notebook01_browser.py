"""Notebook 01 in JupyterLab, on ranks that were started from the form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nbformat
import pytest
from lab import number
from panel import start_ranks

from jupyter_ddl.course.notebooks import course_notebooks

if TYPE_CHECKING:
    from lab import Lab
    from playwright.sync_api import Page

STATUS = "document.querySelector('.ddl-status-button').textContent"
RATE = "document.querySelector('.ddl-status-button').title"
MARKS = "[...document.querySelectorAll('.jp-Notebook .jp-Cell')].map(cell => cell.dataset.ddlMark ?? '')"
# The form has done what the notebook's own cell would.
STARTED = "from jupyter_ddl.kernel import current\nsession = current.current()"


def cells() -> list[str]:
    """Return the notebook's code; the ranks end with the kernel."""
    notebook = nbformat.read(course_notebooks()[0], as_version=4)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    kept = [STARTED if "jupyter_ddl.start(" in source else source for source in code if source != "%ddl stop"]
    assert len(kept) == len(code) - 1
    assert STARTED in kept
    return kept


@pytest.mark.slow
def test_notebook_01_trains_on_ranks_of_the_form(lab: Lab, page: Page) -> None:
    panel = start_ranks(lab, page, "from-one-gpu.ipynb", *cells())
    lab.run_all(page)
    # On rank 0 first, then on both.
    for _ in range(3):
        before = page.evaluate(STATUS)
        far = rf"before => {STATUS} !== before && /epoch \d+ of \d+/i.test({STATUS}) && /samples\/s/.test({RATE})"
        page.wait_for_function(far, arg=before, timeout=60_000)
    figures = page.locator(".jp-OutputArea-output").filter(has_text="Scaling efficiency on 2 ranks")
    figures.wait_for(timeout=120_000)
    rows = [line.split() for line in figures.inner_text().splitlines()]
    assert [row[0] for row in rows[1:3]] == ["1", "2"]
    assert all(number(row[1]) > 0 and float(row[3]) > 0.8 for row in rows[1:3])
    # The figures stand there before their cell has ended.
    panel.locator(".ddl-cluster-idle").wait_for()
    # The kernel is idle before the hub says how its last run has ended.
    page.wait_for_function(f"!{MARKS}.some(mark => mark.startsWith('●'))")
    distributed = [mark for mark in page.evaluate(MARKS) if mark]
    assert len(distributed) == sum(source.startswith("%%distributed") for source in cells())
    assert all(mark.startswith("✓ 0") for mark in distributed), "\n".join(distributed)
