"""Where a run comes from: the notebook, the cell and the commit."""

from __future__ import annotations

import subprocess
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

from jupyter_ddl.host import git_commit
from jupyter_ddl.kernel import run_origin
from jupyter_ddl.kernel.run_origin import Origins
from jupyter_ddl.runs.origin import first_line, origin_in

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def git(folder: Path, *arguments: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *own, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def shell(notebook: str | None = None) -> Any:
    names = {} if notebook is None else {"__vsc_ipynb_file__": notebook}
    parent = {"metadata": {"cellId": "abc"}}
    history = SimpleNamespace(input_hist_parsed=[""] * 8)
    return SimpleNamespace(user_ns=names, history_manager=history, get_parent=lambda: parent)


def test_a_notebook_of_jupyter_and_of_vs_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "a.ipynb"))
    found = Origins().of("\n  # train\nfit()", shell())
    assert found == {
        "notebook": str(tmp_path / "a.ipynb"),
        "cell_id": "abc",
        "cell_number": 7,
        "first_line": "# train",
    }
    assert Origins().of("1", shell("/b/c.ipynb"))["notebook"] == "/b/c.ipynb"
    # A console's session, as JupyterLab names it.
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "console-1-0000"))
    assert Origins().of("1", shell())["notebook"] is None


def test_the_number_is_that_in_the_cell_s_brackets() -> None:
    real = InteractiveShell()
    numbers: list[int | None] = []
    real.user_ns["note"] = lambda: numbers.append(run_origin.cell_number(real))
    assert run_origin.cell_number(real) is None
    for _ in range(2):
        real.run_cell("note()", store_history=True)
    assert numbers == [1, 2]


def test_code_of_a_console_is_no_cell_of_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "a.ipynb"))
    of_console = shell()
    of_console.get_parent()["content"] = {"store_history": False}
    found = Origins().of("1", of_console)
    assert (found["notebook"], found["cell_id"], found["cell_number"]) == (str(tmp_path / "a.ipynb"), None, None)


def test_without_a_front_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_origin, "get_ipython", lambda: None)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    found = Origins().of("x = 1")
    assert {name: value for name, value in found.items() if value is not None} == {"first_line": "x = 1"}


def test_the_commit_of_the_notebook_s_folder(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    notebook = str(tmp_path / "a.ipynb")
    origins = Origins()
    assert origins.ask_commit(notebook).result() is None
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "one")
    # Git had no answer: it is not asked again.
    assert origins.ask_commit(notebook).result() is None
    later = Origins()
    assert later.ask_commit(notebook).result() == git(tmp_path, "rev-parse", "HEAD")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "two")
    assert later.ask_commit(notebook).result() == git(tmp_path, "rev-parse", "HEAD")
    assert later.ask_commit(None).result() is None


def test_no_cell_waits_for_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    monkeypatch.setattr(run_origin, "commit_of", lambda _: str(answers.wait(60.0)))
    asked = Origins().ask_commit(str(tmp_path / "a.ipynb"))
    assert not asked.done()
    answers.set()
    assert asked.result() == "True"


def test_git_that_is_slow_or_missing_or_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "git"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_commit.commit_of(tmp_path) is None
    program.write_text("#!/bin/sh\necho not a commit\n")
    program.chmod(0o700)
    assert git_commit.commit_of(tmp_path) is None
    program.write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    monkeypatch.setattr(git_commit, "_TIMEOUT_S", 0.1)
    assert git_commit.commit_of(tmp_path) is None
    assert git_commit.commit_of(tmp_path / "\0") is None


def test_the_first_line() -> None:
    assert first_line("\n\n  model.fit(x)\nb") == "model.fit(x)"
    assert first_line(" \n") is None
    line = first_line("x" * 500)
    assert line is not None
    assert (len(line), line[-1]) == (120, "…")


def test_a_broken_record_has_no_origin() -> None:
    broken = {"notebook": 3, "cell_id": [], "cell_number": True, "first_line": {}, "git_commit": 1.0}
    assert set(origin_in(broken).values()) == {None}
    assert origin_in({"cell_number": -1})["cell_number"] is None
    assert origin_in({"cell_number": 12, "notebook": "a" * 2_000})["notebook"] == "a" * 1_000
