"""What an error of a program under --auto tells after its traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zipfile import BadZipFile

import pytest

from jupyter_ddl.engine import advice, rank_state
from jupyter_ddl.engine.cells import Cell
from jupyter_ddl.engine.rank_state import RankState
from jupyter_ddl.protocol.cell_options import AutoOptions, CellOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


AUTO = CellOptions(auto=AutoOptions())


@pytest.fixture
def begin() -> Iterator[Callable[[Cell | None], None]]:
    def set_current(running: Cell | None) -> None:
        state.cells.current = running

    state = RankState()
    with rank_state.replaced(state):
        yield set_current


@pytest.mark.parametrize("error", [FileExistsError(17, "File exists", "a"), FileNotFoundError("a"), BadZipFile("a")])
def test_files_that_every_rank_makes(begin: Callable[[Cell | None], None], error: BaseException) -> None:
    begin(Cell(2, AUTO))
    told = advice.of(error)
    assert told is not None
    assert "with --auto every rank runs every line" in told
    assert "os.makedirs(path, exist_ok=True)" in told
    assert "jupyter_ddl.data.make_once(function) calls it on rank 0" in told


@pytest.mark.parametrize("running", [None, Cell(2), Cell(1, AUTO)])
def test_of_one_process_nothing_is_told(begin: Callable[[Cell | None], None], running: Cell | None) -> None:
    begin(running)
    assert advice.of(FileExistsError("a")) is None


def test_of_other_errors_nothing_is_told(begin: Callable[[Cell | None], None]) -> None:
    begin(Cell(2, AUTO))
    assert advice.of(PermissionError("a")) is None
    assert advice.of(ValueError("a")) is None


def test_what_was_added_is_told_whatever_the_error_makes_of_its_attributes() -> None:
    class Odd(ValueError):
        def __getattribute__(self, name: str) -> object:
            raise RuntimeError(name)

    error = ValueError("a")
    advice.add(error, "write this")
    assert advice.of(error) == "write this"
    assert advice.of(Odd()) is None
