"""The notebook that a program without a page executes, and whether it runs on ranks as a whole."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from jupyter_ddl.kernel.executed_notebook import notebooks_with
from jupyter_ddl.kernel.magics import whole_notebook
from jupyter_ddl.kernel.magics.whole_notebook import installed

if TYPE_CHECKING:
    from pathlib import Path

CELL = "%load_ext jupyter_ddl\n%ddl start -n 2"
WHOLE = {"jupyter_ddl": {"auto": True}}
# As nbconvert starts a kernel, and a wrapper in its kernelspec another process.
KERNEL = """
import json, sys
from jupyter_ddl.kernel.executed_notebook import notebooks_with
print(json.dumps([one["metadata"] for one in notebooks_with(sys.stdin.read())]))
"""
PROGRAM = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {code!r}]).returncode)"


def write(path: Path, source: str | list[str], **metadata: Any) -> None:
    cells = [
        {"cell_type": "markdown", "source": CELL, "metadata": {}},
        {"cell_type": "code", "source": source, "metadata": {}},
    ]
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}))


def found(folder: Path, *arguments: str, code: str = KERNEL) -> list[Any]:
    """Return the metadata of what a process finds that a program with these arguments has started."""
    command = [sys.executable, "-c", PROGRAM.format(code=code), *arguments]
    done = subprocess.run(command, cwd=folder, input=CELL, capture_output=True, text=True, check=True, timeout=60)
    metadata: list[Any] = json.loads(done.stdout)
    return metadata


def test_it_is_named_on_the_command_line_and_has_the_cell(tmp_path: Path) -> None:
    write(tmp_path / "a.ipynb", CELL, name="a")
    write(tmp_path / "b.ipynb", CELL.splitlines(keepends=True), name="b")
    write(tmp_path / "other.ipynb", "1", name="other")
    (tmp_path / "list.ipynb").write_text("[]")
    (tmp_path / "text.ipynb").write_text("no notebook")
    (tmp_path / "cells.ipynb").write_text('{"cells": [1, {"cell_type": "code"}], "metadata": 2}')
    others = ("other.ipynb", "list.ipynb", "text.ipynb", "cells.ipynb", "gone.ipynb")
    assert found(tmp_path, "--execute", *others, "a.ipynb") == [{"name": "a"}]
    # nbconvert takes it without its end; papermill has two.
    assert found(tmp_path, "b", str(tmp_path / "a.ipynb")) == [{"name": "a"}, {"name": "b"}]
    assert found(tmp_path, *others) == []


def test_the_nearest_program_that_names_one_counts(tmp_path: Path) -> None:
    write(tmp_path / "a.ipynb", CELL, name="a")
    write(tmp_path / "b.ipynb", CELL, name="b")
    inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {KERNEL!r}, 'b.ipynb'])"
    nearer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}, 'b.ipynb'])"
    assert found(tmp_path, "a.ipynb", code=nearer) == [{"name": "b"}]
    assert notebooks_with("a cell that no notebook has") == []


def shell_of(code: str, *, silent: bool = False, **metadata: str) -> Any:
    shell: Any = InteractiveShell()
    shell.get_parent = lambda: {"content": {"code": code, "silent": silent}, "metadata": metadata}
    return shell


ON = "Cells without a magic run on the ranks, and those that begin with %%local here.\n"
DIFFER = (
    "Cells without a magic run here. Of the notebooks with this cell that the command line names, only some run on the "
    "ranks.\n"
)


@pytest.mark.parametrize(
    ("modes", "text"),
    [
        ([], ""),
        ([{}], ""),
        ([{"jupyter_ddl": {"auto": "yes"}}], ""),
        ([WHOLE], ON),
        ([WHOLE, WHOLE], ON),
        ([WHOLE, {}], DIFFER),
    ],
)
def test_it_begins_as_the_notebook_says(
    modes: list[Any], text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        whole_notebook, "notebooks_with", lambda cell: [{"metadata": mode} for mode in modes] * (cell == CELL)
    )
    shell = shell_of(CELL)
    whole_notebook.begin(shell)
    assert capsys.readouterr().out == text
    assert installed(shell).is_on is (text == ON)


def test_jupyterlab_says_it_itself(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(whole_notebook, "notebooks_with", lambda _: [{"metadata": WHOLE}])
    for shell in (shell_of(CELL, cellId="abc"), shell_of(CELL, silent=True)):
        whole_notebook.begin(shell)
        assert not installed(shell).is_on
    assert capsys.readouterr().out == ""
