"""The table in a folder's docstring names its modules and no others, and each file of tests has a name of its own."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import jupyter_ddl

PACKAGE = Path(jupyter_ddl.__file__).parent


def table_of(folder: Path) -> set[str]:
    """Return the names in the first column of a folder's table; nothing where it has none."""
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    rows = re.findall(r"^\| (.+?) \|", docstring, re.MULTILINE)
    assert not rows or rows[0] == "module"
    return {name for row in rows[1:] for name in re.findall(r"\w+", row)}


FOLDERS = sorted(file.parent for file in PACKAGE.rglob("__init__.py"))
TABLES = {folder: names for folder in FOLDERS if (names := table_of(folder))}


def test_most_folders_have_a_table() -> None:
    assert len(TABLES) > 12


@pytest.mark.parametrize("folder", TABLES, ids=lambda folder: str(folder.relative_to(PACKAGE)))
def test_a_table_names_the_modules_of_its_folder(folder: Path) -> None:
    modules = {file.stem for file in folder.glob("*.py")} - {"__init__", "__main__"}
    folders = {inner.name for inner in folder.iterdir() if (inner / "__init__.py").is_file()}
    assert TABLES[folder] - {"__main__"} == modules | folders


def test_no_two_files_of_tests_have_one_name() -> None:
    # pytest imports them by that alone, and a run of all of them would collect one of the two.
    names = Counter(file.name for file in Path(__file__).parents[1].rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
