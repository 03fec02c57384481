"""`%ddl auto on`: which cells go to the ranks, and which stay in the kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.kernel import current
from jupyter_ddl.kernel.hub_link.state import State
from jupyter_ddl.kernel.magics import completion, whole_notebook
from jupyter_ddl.kernel.magics.ddl import DdlMagics
from jupyter_ddl.kernel.magics.distributed import _lines_above
from jupyter_ddl.kernel.magics.whole_notebook import installed


@pytest.fixture
def shell() -> InteractiveShell:
    shell = InteractiveShell()
    shell.sent = []
    shell.register_magics(DdlMagics(shell))
    shell.register_magic_function(lambda line, cell: shell.sent.append((line, cell)), "cell", "distributed")
    return shell


def run(shell: InteractiveShell, code: str) -> list[tuple[str, str]]:
    """Run a cell; return what it sent to the ranks: the magic's line, and the code below it."""
    shell.sent.clear()
    shell.run_cell(code).raise_error()
    return list(shell.sent)


def turn(shell: InteractiveShell, mode: str) -> None:
    shell.run_line_magic("ddl", f"auto {mode}")


# JupyterLab's toolbar shows by the same table where a cell will run.
TABLE = Path(__file__).parents[2] / "labextension" / "schema" / "whole_notebook.fixture.json"


@pytest.mark.parametrize("case", json.loads(TABLE.read_text()), ids=lambda case: repr(case["code"]))
def test_which_cells_go_to_the_ranks(shell: InteractiveShell, case: dict[str, Any]) -> None:
    turn(shell, "on")
    assert installed(shell).applies_to(case["code"].lstrip()) is case["goes"]
    sent = run(shell, case["code"])
    assert bool(sent) is (case["goes"] or case["code"].startswith("%%distributed"))


def test_a_cell_goes_to_the_ranks_without_the_empty_lines_above_it(shell: InteractiveShell) -> None:
    turn(shell, "on")
    for code in ("a = 1\n", "await something()\n"):
        assert run(shell, code) == run(shell, "\n  \n" + code) == [("", code)]


def test_a_turn_is_told_to_the_hub(shell: InteractiveShell) -> None:
    state, told = State("kernel-1", shell, installed(shell)), []
    current.sessions().observers.add(lambda _: told.append(state.now().whole_notebook))
    for mode in ("on", "", "off"):
        turn(shell, mode)
    assert told == [True, False]


def test_rank_0_completes_all_of_a_cell_that_goes_there(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_notebook, "get_ipython", lambda: shell)
    assert completion.code_of_ranks("\na = b", 6) is None
    turn(shell, "on")
    assert completion.code_of_ranks("\na = b", 6) == ("\na = b", 6)
    assert completion.code_of_ranks("%%local\nb", 9) is None
    assert completion.code_of_ranks("%%distributed\nb", 15) == ("b", 1)


@pytest.mark.parametrize("mode", ["on", "off"])
@pytest.mark.parametrize("code", ["%%distributed -h", "%%distributed --help\n", "\n%%distributed -r 0 -h \n\n"])
def test_help_takes_no_body(shell: InteractiveShell, code: str, mode: str) -> None:
    turn(shell, mode)
    ((line, body),) = run(shell, code)
    assert line.split()[-1] in ("-h", "--help")
    assert not body.strip()
    with pytest.raises(UsageError, match="the cell body is empty"):
        run(shell, "%%distributed -r 0")


def test_a_magic_of_another_name_is_not_local(shell: InteractiveShell) -> None:
    with pytest.raises(UsageError, match="Cell magic `%%locally` not found"):
        run(shell, "%%locally\nhere = 1")


def test_cells_with_a_magic_stay_as_they_are(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    turn(shell, "on")
    assert run(shell, "%%distributed -r 0\na = 1") == [("-r 0", "a = 1\n")]
    for code in ("here = 1\n%precision 3", "!true", "", "\n\n", "%%capture\nhere = 2", "print?"):
        assert run(shell, code) == []
    # It had IPython run the code below it.
    assert shell.user_ns["here"] == 2
    assert "Prints" in capsys.readouterr().out


def test_local_runs_here_whether_it_is_on_or_off(shell: InteractiveShell) -> None:
    for mode in ("on", "off"):
        turn(shell, mode)
        assert run(shell, f"%%local\nhere = '{mode}'") == []
        assert shell.user_ns["here"] == mode
        assert run(shell, "\n%%local  \n%%distributed\na") == [("", "a\n")]
        assert run(shell, "%%local") == []
        result = shell.run_cell("%%local\nhere = 1\nmissing")
        assert result.error_in_exec.__traceback__.tb_next.tb_lineno == 3


def test_off_and_on_again(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    here = "Cells without a magic run here.\n"
    there = "Cells without a magic run on the ranks, and those that begin with %%local here.\n"
    for mode, told in (("", here), ("on", there), ("", there), ("off", here)):
        turn(shell, mode)
        assert capsys.readouterr().out == told
    assert run(shell, "here = 3") == []
    assert shell.user_ns["here"] == 3
    # However often jupyter_ddl is loaded.
    assert installed(shell) is installed(shell)
    with pytest.raises(InvalidInput, match="invalid choice: 'maybe'"):
        turn(shell, "maybe")


@pytest.mark.parametrize(
    ("content", "goes"),
    [
        ({"silent": False, "store_history": True}, True),
        ({"silent": True, "store_history": False}, False),
        # A start from the panel, or what a debugger asks.
        ({"silent": False, "store_history": False}, False),
        ({}, True),
    ],
)
def test_code_of_front_ends_stays_here(shell: InteractiveShell, content: dict[str, Any], goes: bool) -> None:
    turn(shell, "on")
    shell.get_parent = lambda: {"content": {"code": "a = 1", **content}}
    assert bool(run(shell, "a = 1")) is goes


def test_a_terminal_asks_whether_the_code_itself_is_complete(shell: InteractiveShell) -> None:
    turn(shell, "on")
    assert shell.check_complete("a = 1") == ("complete", "")


@pytest.mark.parametrize(
    ("code", "mode", "above"),
    [
        ("\n\n%%distributed\na", "on", 3),
        ("%%distributed\na", "off", 1),
        ("\n\na", "on", 2),
        ("a", "on", 0),
        # Other code that ran the magic.
        ("a", "off", 1),
        ("%%time\na", "on", 1),
    ],
)
def test_a_traceback_has_the_lines_of_the_cell(shell: InteractiveShell, code: str, mode: str, above: int) -> None:
    turn(shell, mode)
    shell.get_parent = lambda: {"content": {"code": code}}
    assert _lines_above(shell) == above
