"""Each notebook of the course has aims, a picture, exercises with a check and a folded solution, and what to read."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from course import NOTEBOOKS, read, solution_of, tagged, tags_of

if TYPE_CHECKING:
    from pathlib import Path

ROLES = ("exercise", "check", "solution")

in_each = pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("[0-9]*.ipynb")), ids=lambda path: path.stem[:2])


@in_each
def test_a_notebook_begins_with_its_aims_and_ends_with_what_to_read(path: Path) -> None:
    texts = [cell.source for cell in read(path).cells if cell.cell_type == "markdown"]
    assert "\n**Aims.** Afterwards you can\n\n- " in texts[0]
    reads = [text for text in texts[-2:] if "## What to read\n\n- " in text]
    assert len(reads) == 1, "one of the last two texts must say what to read"
    links = re.findall(r"\]\((\.\./docs/[^)#]+|[^)/]+\.ipynb)", reads[0])
    assert links
    assert all((NOTEBOOKS / link).is_file() for link in links), links


@in_each
def test_a_notebook_has_a_picture_that_needs_no_download(path: Path) -> None:
    pictures = tagged(read(path).cells, "picture")
    assert pictures
    for cell in pictures:
        found = re.fullmatch(r'<img alt="[^"]+" width="\d+" src="data:image/svg\+xml,\n([^"]+)\n">', cell.source)
        assert found, "a picture must be an <img> with a text and an SVG within"
        drawn = unquote(found[1])
        assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"
        assert "href" not in drawn


@in_each
def test_each_exercise_has_a_check_and_a_folded_solution(path: Path) -> None:
    cells = read(path).cells
    played: list[tuple[str, Any]] = [(role, cell) for cell in cells for role in ROLES if role in tags_of(cell)]
    count = len(played) // 3
    assert count >= 2, "a notebook must have two exercises at least"
    assert [role for role, _ in played] == list(ROLES) * count
    for number, (exercise, check, solution) in enumerate(zip(*(iter(played),) * 3, strict=True), 1):
        assert f"Exercise {number} is solved." in check[1].source
        assert f"Exercise {number} is not solved yet: " in check[1].source
        assert solution[1].source.startswith(f"<details>\n<summary>Solution {number}</summary>\n\n")
        assert solution[1].source.endswith("\n\n</details>")
        assert solution_of(solution[1]) != exercise[1].source


@in_each
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    cells = read(path).cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")
    assert len(tagged(cells, "parameters")) == 1
