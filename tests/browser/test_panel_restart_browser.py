"""A server that ends and is started again while the browser is open, and ranks that were kept with no kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from lab import jupyterlab
from panel import START_MS, axe_findings, run_cell, start_ranks

from jupyter_ddl.cluster import lease_process as leases
from jupyter_ddl.cluster.folder import kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab import Lab
    from playwright.sync_api import Browser

KEPT = ".ddl-kept"
NO_KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session === null"
NEW_KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.changeKernel({ name: 'python3' })"


@pytest.fixture
def own_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A server that no other test needs; what a failure leaves of kept ranks ends with it."""
    with jupyterlab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab
    for folder in kept():
        if (lease := folder.lease()) is not None:
            leases.terminate(lease)


SHOWN = "%%distributed\nprint(mine)"
SET = "code => window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel.setSource(code)"


@pytest.mark.slow
def test_kept_ranks_and_runs_are_there_again_after_the_server_was_restarted(own_lab: Lab, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    # JupyterLab's own word on a server that is gone.
    page.add_locator_handler(page.get_by_text("Server Connection Error"), lambda: page.keyboard.press("Escape"))
    panel = start_ranks(own_lab, page, "kept.ipynb", "%%distributed\nmine = rank + 5", keep=True)
    run_cell(page)
    first = panel.locator(".ddl-run-row").first
    first.get_by_text("finished").wait_for(timeout=30_000)
    own_lab.save(page)
    own_lab.server.stop()
    panel.get_by_text("The Jupyter server does not answer for jupyter_ddl.").wait_for()
    panel.get_by_text("As they were when the Jupyter server answered last.").wait_for()
    assert panel.locator(".ddl-cluster").count() == 0
    own_lab.server.start()
    card = panel.locator(KEPT)
    card.wait_for(timeout=30_000)
    assert card.locator("h3").text_content() == "default\u00a0· 2 ranks"
    assert card.locator("code").inner_text() == "%ddl attach default"
    assert axe_findings(page, KEPT) == []
    first.get_by_text("finished").wait_for()
    panel.get_by_text("As they were when").wait_for(state="detached")
    # Their kernel is gone, which JupyterLab finds when it asks next; another one of the same notebook gets them.
    page.wait_for_function(NO_KERNEL, timeout=60_000)
    page.evaluate(NEW_KERNEL)
    own_lab.wait_until_idle(page)
    card.get_by_role("button", name="Attach").click()
    panel.locator(".ddl-cluster-idle").wait_for(timeout=START_MS)
    assert card.count() == 0
    # Elsewhere there would be no ranks to attach to.
    assert panel.get_by_role("button", name="Insert as a cell").is_hidden()
    page.evaluate(SET, SHOWN)
    run_cell(page)
    page.locator(".jp-OutputArea-output").filter(has_text="6").wait_for(timeout=30_000)
    own_lab.end_kernels()
    card.wait_for(timeout=30_000)
    card.get_by_role("button", name="Stop").click()
    # Enter cancels.
    page.locator(".jp-Dialog button:focus").filter(has_text="Cancel").wait_for()
    page.keyboard.press("Enter")
    page.locator(".jp-Dialog").wait_for(state="detached")
    assert card.count() == 1
    card.get_by_role("button", name="Stop").click()
    page.locator(".jp-Dialog").get_by_role("button", name="Stop").click()
    card.wait_for(state="detached", timeout=30_000)
    assert list(kept()) == []
    page.close()
