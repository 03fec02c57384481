from __future__ import annotations

import pytest

from jupyter_ddl.cluster.horovod_turns import HorovodTurns


@pytest.mark.parametrize("code", ["import horovod.tensorflow as hvd", "hvd.size()", "import jupyter_ddl.keras as h"])
def test_a_cell_that_names_horovod_begins_with_it(code: str) -> None:
    assert HorovodTurns().begins_with(code)


def test_a_cell_that_does_not_name_it_begins_without() -> None:
    assert not HorovodTurns().begins_with("x = 1")


def test_once_used_every_cell_begins_with_it_and_it_rests_between() -> None:
    turns = HorovodTurns()
    assert turns.rests_after(uses_horovod=True, idle=True)
    assert turns.begins_with("x = 1")
    assert turns.rests_after(uses_horovod=True, idle=True)


def test_it_does_not_rest_while_another_cell_runs() -> None:
    turns = HorovodTurns()
    turns.begins_with("hvd.size()")
    assert not turns.rests_after(uses_horovod=False, idle=False)
    assert turns.rests_after(uses_horovod=False, idle=True)


def test_what_never_ran_need_not_rest() -> None:
    turns = HorovodTurns()
    turns.begins_with("x = 1")
    assert not turns.rests_after(uses_horovod=False, idle=True)
