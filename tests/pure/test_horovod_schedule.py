from __future__ import annotations

import pytest

from jupyter_ddl.kernel.horovod_schedule import HorovodTurns, only_defines


@pytest.mark.parametrize("code", ["import horovod.tensorflow as hvd", "hvd.size()", "import jupyter_ddl.keras as h"])
def test_a_cell_that_names_horovod_begins_with_it(code: str) -> None:
    assert HorovodTurns().begins_with(code)


def test_a_cell_that_does_not_name_it_begins_without() -> None:
    assert not HorovodTurns().begins_with("train()")


def test_a_cell_that_does_not_name_it_has_it_started_once_and_it_rests_after() -> None:
    turns = HorovodTurns()
    assert not turns.begins_with("train()")
    assert turns.starts("run-1")
    # Each rank asks, and asks again.
    assert not turns.starts("run-1")
    assert turns.rests_after(uses_horovod=True, runs=False, idle=True)
    assert turns.asked_for == "run-1"
    assert turns.is_used
    assert turns.starts("run-2")


def test_a_cell_whose_timeline_is_recorded_begins_with_it() -> None:
    assert HorovodTurns().begins_with("train()", always=True)


def test_it_does_not_rest_while_another_cell_runs() -> None:
    turns = HorovodTurns()
    turns.begins_with("hvd.size()")
    assert not turns.rests_after(uses_horovod=False, runs=False, idle=False)
    assert turns.rests_after(uses_horovod=False, runs=False, idle=True)


def test_what_never_ran_need_not_rest() -> None:
    turns = HorovodTurns()
    turns.begins_with("train()")
    assert not turns.rests_after(uses_horovod=False, runs=False, idle=True)


@pytest.mark.parametrize("code", ["", "pass", "# hvd", "x = 1", "x = y", "'text'", "def f(x):\n    hvd.init()"])
def test_a_cell_that_runs_nothing_needs_no_horovod(code: str) -> None:
    turns = HorovodTurns()
    turns.rests_after(uses_horovod=False, runs=True, idle=True)
    assert only_defines(code)
    assert not turns.begins_with(code)


@pytest.mark.parametrize(
    "code",
    [
        "f()",
        "x",
        "x + 1",
        "x.y = 1",
        "x[0] = 1",
        "x += 1",
        "a, b = x",
        "import m",
        "%time 1",
        "!ls",
        "@f\ndef g(): pass",
        "def g(x=f()): pass",
        "def g(*, x=f()): pass",
        "def g(x: f()): pass",
        "def g() -> f(): pass",
        "class C: x = f()",
        "await f()",
        "f'{x}'",
        "[f() for x in y]",
        "del x",
    ],
)
def test_a_cell_that_may_run_anything_else_gets_it(code: str) -> None:
    assert not only_defines(code)


def test_a_cell_that_left_it_at_rest_needs_no_rest() -> None:
    turns = HorovodTurns()
    assert not turns.begins_with("pass")
    assert not turns.rests_after(uses_horovod=False, runs=False, idle=True)


def test_a_kernel_that_attaches_knows_that_it_is_used() -> None:
    assert HorovodTurns(is_used=True).is_used
