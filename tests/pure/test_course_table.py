"""The table of docs/course.md names notebooks and headings that exist, and every notebook of the course."""

from __future__ import annotations

import re

import pytest
from course import NOTEBOOKS, read

PAGE = NOTEBOOKS.parent / "docs" / "course.md"
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| \[(\d\d)\]\(\.\./notebooks/([^)]+)\) \| ([^|]+) \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text())
SOURCES = {"CUG18", "IT4I", "NPTEL", "Summit", "UQ"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[2]}: {row[4]}")
def test_a_topic_is_in_the_notebook_below_the_heading(row: tuple[str, str, str, str, str]) -> None:
    _, _, number, name, heading = row
    assert name.startswith(f"{number}-")
    texts = [cell.source for cell in read(NOTEBOOKS / name).cells if cell.cell_type == "markdown"]
    headings = [line.removeprefix("## ") for text in texts for line in text.splitlines() if line.startswith("## ")]
    assert heading in headings


def test_the_table_has_every_number_of_the_course_and_every_source() -> None:
    assert {number for _, _, number, _, _ in ROWS} == {f"{number:02}" for number in range(1, 11)}
    assert {short for _, source, *_ in ROWS for short in re.findall(r"(?:^|; )(\w+), ", source)} == SOURCES


def test_no_row_of_the_table_is_left_unread() -> None:
    table = PAGE.read_text().split("## By topic")[1].split("## In no notebook")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert len(rows) - 2 == len(ROWS)  # but the header's two
