"""Who waits for whom, by what ranks have noted of themselves."""

from __future__ import annotations

from jupyter_ddl.engine.collectives.stall_rules import Note, Stall, stall_of

ALL = {"0": (0, 1, 2)}


def at(count: int, within: str | None = "barrier", *, stands: bool = True, is_sure: bool = True) -> Note:
    return Note({"0": count}, stands, within, is_sure=is_sure)


def test_who_has_entered_fewer_is_missing() -> None:
    assert stall_of(0, {0: at(3), 1: at(2), 2: at(3)}, ALL) == Stall((0, 2), {1: ("barrier",)}, "0")


def test_who_has_noted_nothing_is_missing() -> None:
    assert stall_of(2, {2: at(1)}, ALL) == Stall((2,), {0: ("barrier",), 1: ("barrier",)}, "0")


def test_who_is_behind_waits_for_nobody() -> None:
    assert stall_of(1, {0: at(3), 1: at(2), 2: at(3)}, ALL) is None


def test_only_the_ranks_of_a_group_are_missed_in_it() -> None:
    groups = {"0": (0, 1, 2), "rows": (0, 1)}
    notes = {0: Note({"0": 4, "rows": 7}, True, "all_gather"), 1: Note({"0": 4, "rows": 6}), 2: Note({"0": 4})}
    assert stall_of(0, notes, groups) == Stall((0,), {1: ("all_gather",)}, "rows")


def test_as_many_and_different_ones_are_each_missing_in_the_others() -> None:
    notes = {0: at(3, "all_reduce of float32 [2]"), 1: at(3, "broadcast"), 2: at(3, "broadcast")}
    everyone = {0: ("broadcast",), 1: ("all_reduce of float32 [2]",), 2: ("all_reduce of float32 [2]",)}
    assert stall_of(1, notes, ALL) == Stall((0, 1, 2), everyone)


def test_as_many_and_the_same_or_unknown_ones_or_one_that_moves_is_none() -> None:
    assert stall_of(0, {0: at(3), 1: at(3), 2: at(3)}, ALL) is None
    assert stall_of(0, {0: at(3), 1: at(3, None), 2: at(3)}, ALL) is None
    assert stall_of(0, {0: at(3), 1: at(3, "broadcast", stands=False), 2: at(3)}, ALL) is None


def test_who_has_ended_the_cell_is_missing_for_one_in_a_collective_and_for_no_other() -> None:
    ended = {one: Note({"0": 3}, has_ended=True) for one in (1, 2)}
    assert stall_of(0, {0: at(3), **ended}, ALL) == Stall((0,), {1: ("barrier",), 2: ("barrier",)})
    assert stall_of(0, {0: at(3, "the gradients of backward()", is_sure=False), **ended}, ALL) is None
    assert stall_of(0, {0: at(3, None, is_sure=False), **ended}, ALL) is None


def test_who_has_ended_is_not_missing_where_another_is_behind() -> None:
    notes = {0: Note({"0": 3}, has_ended=True), 1: at(3), 2: at(2)}
    assert stall_of(1, notes, ALL) == Stall((0, 1), {2: ("barrier",)}, "0")


def test_each_is_missing_in_the_first_one_that_it_has_not_entered() -> None:
    called = {2: "jit(first)", 3: "jit(second)"}
    found = stall_of(0, {0: at(4), 1: at(2), 2: at(3)}, ALL, lambda _, count: called.get(count))
    assert found == Stall((0,), {1: ("jit(first)",), 2: ("jit(second)",)}, "0")
    found = stall_of(0, {0: at(4), 1: at(1), 2: at(4)}, ALL, lambda _, count: called.get(count))
    assert found == Stall((0, 2), {1: ("barrier",)}, "0")
