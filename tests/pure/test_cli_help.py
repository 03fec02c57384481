"""`jupyter ddl` says what there is, and each of its subcommands what it takes."""

from __future__ import annotations

import pytest

from jupyter_ddl.cli import SUBCOMMANDS, Subcommand, main


def test_without_a_subcommand_it_lists_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main([]) == 0
    listed = capsys.readouterr().out
    for subcommand in SUBCOMMANDS:
        assert subcommand.HELP in listed
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert capsys.readouterr().out == listed


@pytest.mark.parametrize("subcommand", SUBCOMMANDS, ids=lambda subcommand: subcommand.NAME)
def test_a_subcommand_has_help(
    subcommand: Subcommand, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit, match="0"):
        main([subcommand.NAME, "--help"])
    told = capsys.readouterr().out
    assert told.startswith(f"usage: jupyter ddl {subcommand.NAME} ")
    assert subcommand.HELP in told
    assert "%%" not in told.replace("%%distributed", "").replace("%%local", "")
