"""The course in JupyterLab: its pictures are drawn, its solutions are folded, and its links open pages."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import nbformat
import pytest
from course import NOTEBOOKS, read, tagged

from jupyter_ddl.course.notebooks import copy_notebooks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Page

COURSE = [path for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb")) if tagged(read(path).cells, "picture")]
DRAWN = """() => [...document.querySelectorAll('.jp-RenderedMarkdown img')]
    .filter(one => one.src.startsWith('data:image/svg+xml') && one.complete && one.naturalWidth > 100).length"""


@pytest.mark.slow
@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem[:2])
def test_pictures_are_drawn_and_solutions_folded(lab: Lab, page: Page, path: Path) -> None:
    shutil.copy(path, lab.folder / path.name)
    cells = read(path).cells
    lab.open(page, path.name)
    page.wait_for_function(f"() => ({DRAWN})() === {len(tagged(cells, 'picture'))}", timeout=30_000)
    folded = page.locator(".jp-RenderedMarkdown details")
    # Cells below the window come when they are scrolled to.
    page.evaluate("window.jupyterapp.shell.currentWidget.content.widgets.forEach(one => one.inViewport = true)")
    page.wait_for_function(
        f"document.querySelectorAll('.jp-RenderedMarkdown details').length === {len(tagged(cells, 'solution'))}"
    )
    code = folded.first.locator("pre")
    assert not code.is_visible()
    folded.first.locator("summary").click()
    code.wait_for()


@pytest.fixture
def copied(lab: Lab) -> Iterator[list[Path]]:
    """The course's notebooks and the folder of pages, as `jupyter ddl workshop` puts them into JupyterLab's folder."""
    made = [copy.path for copy in copy_notebooks(lab.folder) if copy.state == "copied"]
    yield made
    for path in made:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_links_of_a_copied_notebook_and_of_its_pages_open_pages(lab: Lab, page: Page, copied: list[Path]) -> None:
    lab.open(page, "01-from-one-gpu-to-all.ipynb")
    page.evaluate("window.jupyterapp.shell.currentWidget.content.widgets.forEach(one => one.inViewport = true)")
    page.locator(".jp-RenderedMarkdown a", has_text="docs/ranks.md").click()
    page.wait_for_function("window.jupyterapp.shell.currentWidget?.context?.path === 'docs/ranks.md'")

    preview = "{path: 'docs/how-it-works.md', factory: 'Markdown Preview'}"
    page.evaluate(f"void window.jupyterapp.commands.execute('docmanager:open', {preview})")
    picture = page.locator(".jp-MarkdownViewer img").first
    picture.wait_for()
    assert picture.evaluate("async one => { await one.decode(); return one.naturalWidth > 100 }")
    page.locator(".jp-MarkdownViewer a[href*='commands.md']").first.click()
    page.wait_for_function("window.jupyterapp.shell.currentWidget?.context?.path === 'docs/commands.md'")


def test_run_all_continues_behind_a_cell_that_is_meant_to_raise(lab: Lab, page: Page) -> None:
    raises = nbformat.v4.new_code_cell("raise ValueError('meant')", metadata={"tags": ["raises-exception"]})
    notebook = nbformat.v4.new_notebook(cells=[raises, nbformat.v4.new_code_cell("print('continued')")])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, lab.folder / "meant.ipynb")
    lab.open(page, "meant.ipynb")
    lab.run_all(page)
    page.locator(".jp-OutputArea-output").filter(has_text="continued").wait_for(timeout=60_000)
    assert "ValueError: meant" in page.locator(".jp-OutputArea-output").first.inner_text()
