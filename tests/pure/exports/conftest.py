"""Exports, for the tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nbformat
import pytest
from exported_notebooks import START, notebook_of

from jupyter_ddl import paths
from jupyter_ddl.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[Path, str]]:
    """Return what exports a notebook of these cells by these options; it returns the folder and what was said."""
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))

    def run(*options: str, cells: tuple[str, ...] = (START, "%%distributed\n1")) -> tuple[Path, str]:
        nbformat.write(notebook_of(*cells), tmp_path / "my course.ipynb")
        status = main(["export", str(tmp_path / "my course.ipynb"), *options])
        said = capsys.readouterr()
        assert status == bool(said.err)
        return tmp_path / f"my course-{options[0].lstrip('-')}", said.out + said.err

    return run
