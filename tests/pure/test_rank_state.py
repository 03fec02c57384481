"""What a rank keeps lies in one object: two ranks in one process share nothing, and a process that is none says so."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

import jupyter_ddl
from jupyter_ddl.engine import rank_state, run_context
from jupyter_ddl.engine.cells import Cell
from jupyter_ddl.engine.collectives.library import Turn
from jupyter_ddl.engine.rank_state import RankState
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.cell_options import PLAIN_OPTIONS, CellOptions


class Counted:
    """What a layer above the engine keeps."""

    def __init__(self) -> None:
        self.count = 0


def test_two_ranks_share_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    one, other = RankState(), RankState()
    with rank_state.replaced(one):
        rank_state.here().cells.begin(Cell(2, CellOptions(checkpoint="a")))
        rank_state.here().part(Counted).count += 1
        for _ in range(2):
            jupyter_ddl.report(32, loss=0.5)
        one.variables.snapshot()
        monkeypatch.setenv("XLA_FLAGS", "--a")
        with rank_state.replaced(other):
            assert run_context.current() is None
            assert rank_state.here().part(Counted).count == 0
            assert other.meter.read() is None
            rank_state.here().variables.check()
        assert run_context.options().checkpoint == "a"
        assert one.part(Counted).count == 1
        assert (reading := one.meter.read()) is not None
        assert reading.loss == 0.5
        with pytest.raises(InvalidInput, match="XLA_FLAGS=--a, set in a cell"):
            one.variables.check()
    one.horovod.refuse("another rank cannot import Horovod")
    one.horovod.begin_cell(Turn("r", on_subset=True))
    assert not any(state.horovod.is_used() for state in (one, other))


def test_a_process_is_one_rank() -> None:
    with rank_state.replaced(None):
        assert rank_state.begin() is rank_state.begin() is rank_state.here()


def test_a_process_that_is_no_rank_has_plain_options_and_reports_nothing() -> None:
    with rank_state.replaced(None):
        assert (run_context.current(), run_context.options()) == (None, PLAIN_OPTIONS)
        assert not run_context.is_sampled()
        jupyter_ddl.report(32)
        with pytest.raises(InvalidInput) as raised:
            rank_state.here()
    assert str(raised.value) == (
        "Only a rank trains with jupyter_ddl. Received: a process that is no rank. "
        "Import jupyter_ddl.keras, or call jupyter_ddl.auto(), before anything else of jupyter_ddl."
    )


def test_a_preparation_is_called_once_and_one_that_another_adds_is_called_too() -> None:
    called = []
    cells = RankState().cells

    def first(cell: Cell) -> None:
        called.append(("first", cell.ranks))
        cells.prepare_with(second)

    def second(cell: Cell) -> None:
        called.append(("second", cell.ranks))

    for _ in range(2):
        cells.prepare_with(first)
    cells.begin(Cell(3))
    cells.prepare()
    assert called == [("first", 3), ("second", 3)]


def test_the_magics_are_not_loaded_on_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_state, "of_process", rank_state.RankState)
    rule = (
        r"is loaded in the notebook, not on its ranks\. Received: %load_ext jupyter_ddl in a cell on ranks\. Write it"
    )
    with pytest.raises(InvalidInput, match=rule):
        jupyter_ddl.load_ipython_extension(InteractiveShell())
