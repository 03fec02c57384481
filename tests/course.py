"""The form of the course in notebooks/: what its exercises are, and a copy in which they are solved."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
from course_answers import WRONG

from jupyter_ddl.cli import demo

if TYPE_CHECKING:
    import pytest

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
_LINK = re.compile(r"\]\((?![a-z]+:)([^)\s#]*)#?([^)\s]*)\)")
# Of a picture for each theme.
_IMAGE = re.compile(r'<(?:source|img)\b[^>]*? (?:srcset|src)="(?![a-z]+:)([^"]+)()"')
_CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
SOLVED = re.compile(r"\bExercise (\d+) is solved\.")
UNSOLVED = re.compile(r"\bExercise (\d+) is not solved yet: .+")
_HEADING = "Solution of"


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def tags_of(cell: Any) -> list[str]:
    tags: list[str] = cell.metadata.get("tags", [])
    return tags


def tagged(cells: list[Any], tag: str) -> list[Any]:
    return [cell for cell in cells if tag in tags_of(cell)]


def solution_of(cell: Any) -> str:
    """Return the code that a folded solution has."""
    found = re.search(r"^```python\n(.*?)^```", cell.source, re.MULTILINE | re.DOTALL)
    assert found, f"a solution must have its code between ```python and ```. Received: {cell.source}"
    return found[1].rstrip("\n")


def texts_of(path: Path) -> str:
    """Return the text of a page, or of a notebook's cells in Markdown, without code."""
    if path.suffix == ".md":
        return _CODE.sub("", path.read_text())
    return "\n\n".join(_CODE.sub("", cell.source) for cell in read(path).cells if cell.cell_type == "markdown")


def anchors_of(path: Path) -> set[str]:
    """Return what a link to a heading of the page ends with, as GitHub has it."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links_of(folder: Path) -> tuple[int, list[str]]:
    """Return how many relative links notebooks and pages below a folder have, and those that lead to nothing there."""
    count, dead = 0, []
    for path in sorted([*folder.rglob("*.ipynb"), *folder.rglob("*.md")]):
        text = texts_of(path)
        for link, anchor in [*_LINK.findall(text), *_IMAGE.findall(text)]:
            target = (path.parent / link).resolve() if link else path
            is_there = target.is_file() and target.is_relative_to(folder.resolve())
            if is_there and anchor and target.suffix == ".md":
                is_there = anchor in anchors_of(target)
            count += 1
            dead += [] if is_there else [f"{path.name}: {link}#{anchor}"]
    return count, dead


def with_solutions(path: Path, folder: Path) -> Path:
    """Write a copy that runs wrong answers and the solution after each check, and the check again; return its path."""
    notebook = read(path)
    cells: list[Any] = []
    exercise = check = None
    wrong, number = dict(WRONG.get(path.name[:2], {})), 0
    for cell in notebook.cells:
        # The wrong answers are runs, too.
        cell.source = cell.source.replace("%ddl runs -n 30", "%ddl runs -n 300")
        cells.append(cell)
        if "exercise" in tags_of(cell):
            exercise = cell
        if "check" in tags_of(cell):
            check, number = cell, number + 1
            for at, answer in enumerate(wrong.pop(number, ())):
                cells += [
                    nbformat.v4.new_code_cell(answer, metadata=exercise.metadata | {"tags": ["raises-exception"]}),
                    nbformat.v4.new_code_cell(check.source, id=f"{check['id']}-{at}"),
                ]
        if "solution" in tags_of(cell):
            again = copy.deepcopy(check)
            again["id"] = f"{again['id']}-again"
            heading = nbformat.v4.new_markdown_cell(f"# {_HEADING} {again['id']}")
            cells += [heading, nbformat.v4.new_code_cell(solution_of(cell)), again]
    assert not wrong, f"exercises that {path.name} does not have: {list(wrong)}"
    notebook.cells = cells
    written = folder / path.name
    nbformat.write(notebook, written)
    return written


def run_with_solutions(path: Path, folder: Path, capsys: pytest.CaptureFixture[str], n: int = 2) -> tuple[Any, str]:
    """Run a notebook whose exercises are first unsolved, then answered wrongly (`course_answers`) and then solved.

    Returns:
        Its figures and what it showed.
    """
    exercises = [str(number + 1) for number in range(len(tagged(read(path).cells, "exercise")))]
    figures = demo.run(with_solutions(path, folder), n=n)
    shown = capsys.readouterr().out
    # Between two solutions are the check of the first, solved on all ranks, and that of the next, unsolved on all.
    parts = re.split(rf"^-- {_HEADING} .*\n", shown, flags=re.MULTILINE)
    for before, number, after in zip(parts, exercises, parts[1:], strict=False):
        assert (number in UNSOLVED.findall(before), number in SOLVED.findall(before)) == (True, False), shown
        assert (number in UNSOLVED.findall(after), number in SOLVED.findall(after)) == (False, True), shown
    assert len(parts) == len(exercises) + 1
    return figures, shown
