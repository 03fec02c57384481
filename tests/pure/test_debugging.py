"""What a rank's debugger knows without pydevd: its cells by two names, variables, and where a thread is."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from ipykernel.compiler import get_file_name
from IPython.core.inputtransformer2 import TransformerManager

from jupyter_ddl.engine.debugging import pydevd_link, rank_debugger
from jupyter_ddl.engine.debugging.cell_sources import CellSources, as_run
from jupyter_ddl.engine.debugging.local_answers import LocalAnswers, is_users
from jupyter_ddl.engine.debugging.pydevd_link import settings_of_pydevd, what_pydevd_does
from jupyter_ddl.engine.debugging.rank_debugger import RankDebugger
from jupyter_ddl.protocol.events import RankHeld
from jupyter_ddl.protocol.rank_answers import RankDebugged
from jupyter_ddl.protocol.requests import DebugRank
from jupyter_ddl.views.held_ranks import held_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("cell", "above"),
    [
        ("%%distributed\na = 1", 1),
        ("%%distributed -r 1 --auto\n\na = 1\n", 1),
        ("\n\n%%distributed\nif a:\n    b", 3),
        ("%%distributed", 1),
    ],
)
def test_a_cell_is_run_under_the_name_that_its_breakpoints_have(cell: str, above: int) -> None:
    # What IPython makes of the cell is a call of the magic, with its body as the last argument.
    call = TransformerManager().transform_cell(cell)
    bodies: list[str] = []
    shell = SimpleNamespace(run_cell_magic=lambda _name, _line, body: bodies.append(body))
    exec(call, {"get_ipython": lambda: shell})
    assert [as_run(cell)] == ["\n" * above + body for body in bodies]


def test_lines_have_their_numbers_in_both() -> None:
    cell = "\n%%distributed\nfirst = 1\nsecond = 2"
    assert as_run(cell).splitlines()[2:] == cell.splitlines()[2:]


@pytest.fixture
def cells() -> Iterator[CellSources]:
    cells = CellSources()
    yield cells
    cells.remove()


def test_a_cells_files_are_this_users_and_are_removed(cells: CellSources) -> None:
    cell = "%%distributed\nmade_for_this_test = 1"
    shown = cells.add(cell)
    assert shown == get_file_name(cell)
    assert shown.startswith(cells.prefix)
    compiled = Path(cells.compiled(shown))
    assert compiled.read_text() == "\nmade_for_this_test = 1\n"
    assert compiled.parent.stat().st_mode & 0o777 == 0o700
    assert cells.shown(str(compiled)) == shown
    assert cells.text(shown) == cell
    assert cells.compiled("/home/train.py") == "/home/train.py"
    assert "import" in (cells.text(os.__file__) or "")
    assert cells.text("/no/such/file.py") is None
    cells.remove()
    assert not compiled.exists()


def test_a_folder_that_others_can_write_to_is_not_used(
    cells: CellSources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder = Path(cells.prefix)
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(PermissionError, match="must be this user's alone"):
        cells.add("%%distributed\na")
    folder.rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder.symlink_to(elsewhere)
    with pytest.raises(PermissionError, match="must be this user's alone"):
        cells.add("%%distributed\na")
    assert list(elsewhere.iterdir()) == []


def test_variables_are_the_users_and_no_repr_of_theirs_is_called(cells: CellSources) -> None:
    class Raises:
        def __repr__(self) -> str:
            raise SystemExit

    names = {"loss": 0.5, "_i3": "x", "_": 1, "Out": {}, "model": Raises(), "_private": 2, "__name__": "x"}
    body = LocalAnswers(cells, names).to("inspectVariables", {})
    found = {one["name"]: (one["value"], one["type"]) for one in body["variables"]}
    assert found == {"loss": ("0.5", "float"), "model": ("Raises", "Raises"), "_private": ("2", "int")}
    assert not is_users("special variables")


def test_where_a_thread_is_in_pydevd() -> None:
    users: dict[str, Any] = {"sys": sys}

    def made(file: str, name: str, names: dict[str, Any], inner: Any = sys._getframe) -> Any:
        """Return a function of some file, which calls another; at the end that returns its own frame."""
        names["inner"] = inner
        exec(compile(f"def {name}(): return inner()", file, "exec"), names)
        return names[name]

    pydevd = f"/site-packages/{pydevd_link._FOLDER}pydevd.py"
    waits = made(pydevd, "_do_wait_suspend", {}, made(threading.__file__, "wait", {}))
    evaluates = made(pydevd, "do_it", {}, made("<string>", "f", users))
    for function, does in (
        (made("<cell>", "f", dict(users)), "nothing"),
        (made(pydevd, "_do_wait_suspend", {}), "waits"),
        (waits, "waits"),
        (made(pydevd, "trace_dispatch", {}), "works"),
        (made(pydevd, "_do_wait_suspend", {}, made(pydevd, "do_it", {}, made(os.__file__, "f", {}))), "works"),
        (evaluates, "evaluates"),
        (made(pydevd, "_do_wait_suspend", {}, evaluates), "evaluates"),
    ):
        assert what_pydevd_does(function(), users) == does


def test_settings_of_pydevd_leave_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYDEVD_USE_SYS_MONITORING", "1")
    monkeypatch.delenv("PYDEVD_DISABLE_FILE_VALIDATION", raising=False)
    with settings_of_pydevd():
        assert os.environ["PYDEVD_USE_SYS_MONITORING"] == "0"
        assert os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] == "1"
    assert os.environ["PYDEVD_USE_SYS_MONITORING"] == "1"
    assert "PYDEVD_DISABLE_FILE_VALIDATION" not in os.environ


class Asked:
    """A rank's debugger, and what it answers."""

    def __init__(self) -> None:
        self._answers: Queue[RankDebugged | RankHeld] = Queue()
        self._debugger = RankDebugger(1, {"loss": 1.0}, self._answers.put)

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        self._debugger.ask(DebugRank("look", {"command": command, "seq": 7, "arguments": arguments}))
        answer = self._answers.get(timeout=30)
        assert isinstance(answer, RankDebugged)
        assert (answer.look, answer.rank) == ("look", 1)
        return answer.answer


def test_where_debugpy_is_missing_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ModuleNotFoundError("No module named 'debugpy'")

    monkeypatch.setattr(rank_debugger, "PydevdLink", missing)
    asked = Asked()
    answer = asked.ask("initialize")
    assert not answer["success"]
    assert answer["message"] == (
        "A rank is debugged by debugpy, in its own Python environment. Received: No module named 'debugpy', on rank 1. "
        "There: pip install debugpy."
    )
    assert not asked.ask("debugInfo")["body"]["isStarted"]


def test_what_no_page_has_begun_and_what_no_debugger_knows_is_refused() -> None:
    asked = Asked()
    assert asked.ask("continue", threadId=1)["message"] == (
        "A rank is debugged once a page has begun it. Received: continue. Begin again."
    )
    assert asked.ask("source", source={"path": "/no/such/file.py"})["message"] == (
        "A source must be there. Received: /no/such/file.py, which is not."
    )
    assert asked.ask("events", after=-1)["body"] == {"events": [], "after": 0, "isStarted": False}
    answer = asked.ask("debugInfo")
    assert (answer["request_seq"], answer["command"], answer["success"]) == (7, "debugInfo", True)
    assert answer["body"]["hashMethod"] == "Murmur2"


def test_a_sentence_says_which_ranks_are_held_and_where() -> None:
    assert held_sentence([]) is None
    cell = RankHeld("run", 3, 0.0, "/tmp/ipykernel_1/2.py", 4, "step")
    file = RankHeld("run", 0, 0.0, "/home/user/train.py", 8, "<module>")
    assert held_sentence([cell, file]) == (
        "Rank 0 is held in the debugger, at train.py:8, in <module>. "
        "Rank 3 is held in the debugger, at line 4 of a cell, in step."
    )
