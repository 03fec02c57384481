"""What the notes of all ranks say of their weights and batches, and what is told."""

from __future__ import annotations

import pytest

from jupyter_ddl.torch_training import judgement
from jupyter_ddl.torch_training.notes import Board, Details, Note, Weights

NAMES = ("0.weight", "0.bias", "2.weight", "2.bias", "4.weight")


def note(bits: str, step: int = 3, together: tuple[int, ...] | None = None, layout: str = "layout") -> Note:
    return Note(step, (Weights("SGD", layout, bits, together),))


def details(by: float = 0.0, norm: float = 1.0) -> tuple[Details, ...]:
    return (Details(NAMES, (1.0 + by,) * 5, (norm,) * 5, (1e-4,) * 5),)


def told(ranks: dict[int, Note], by: dict[int, float]) -> list[str]:
    found = [judgement.difference(one, lambda rank: details(by.get(rank, 0.0))) for one in judgement.apart(ranks)]
    return [one.text(3) for one in found if one is not None]


def test_weights_that_differ_are_told_with_the_ranks_that_differ_from_most() -> None:
    notes = {rank: note("b" if rank == 2 else "a", together=(0, 1, 2, 3)) for rank in range(4)}
    (text,) = told(notes, {2: 0.5})
    assert text == (
        "All ranks must hold the same weights. Received: rank 2 of 4 differs from ranks 0-1,3 after step 3 of the "
        "cell, in 0.weight, 0.bias, 2.weight and 2 more (SGD). Likely cause: weights were set or updated on some ranks "
        "only, after the model was wrapped or the optimizer made; or model.module was called in place of the wrapped "
        "model. Set them before, or on all ranks, and call the wrapped model. --on-drift warn only warns."
    )
    error = next(
        judgement.difference(one, lambda rank: details(0.5 if rank == 2 else 0.0)) for one in judgement.apart(notes)
    )
    assert error is not None
    assert (error.error(3).ranks, error.error(3).weight) == ([2], "0.weight")


@pytest.mark.parametrize(("by", "norm", "differs"), [(1e-5, 1.0, False), (1e-3, 1.0, True), (float("nan"), 1.0, True)])
def test_rounding_is_no_difference(by: float, norm: float, differs: bool) -> None:
    (apart,) = judgement.apart({0: note("a"), 1: note("b")})
    found = judgement.difference(apart, lambda rank: details(by if rank else 0.0, norm))
    assert (found is not None) is differs


def test_ranks_that_are_nan_alike_do_not_differ() -> None:
    (apart,) = judgement.apart({0: note("a"), 1: note("b")})
    assert judgement.difference(apart, lambda _: details(float("nan"), float("nan"))) is None


@pytest.mark.parametrize(
    "notes",
    [
        {0: note("a", step=3), 1: note("b", step=4)},
        {0: note("a", layout="first stage"), 1: note("b", layout="second stage")},
        {0: note("a", together=(0, 1)), 1: note("a", together=(0, 1)), 2: note("b", together=(2, 3))},
        {0: Note(3, ()), 1: Note(3, ())},
    ],
    ids=["other steps", "other parameters", "other groups", "no parameters"],
)
def test_what_need_not_be_the_same_is_not_compared(notes: dict[int, Note]) -> None:
    assert list(judgement.apart(notes)) == []


def test_details_that_are_gone_tell_nothing() -> None:
    (apart,) = judgement.apart({0: note("a"), 1: note("b")})
    assert judgement.difference(apart, lambda _: ()) is None


def batches(*digests: str, is_sharded: bool = False) -> Note:
    return Note(3, (), batches=digests, is_sharded=is_sharded)


def test_ranks_on_the_same_batches_are_those_with_all_of_them() -> None:
    assert judgement.on_same_batches({0: batches("a", "b"), 1: batches("a", "b"), 2: batches("a", "c")}) == (0, 1)
    assert judgement.on_same_batches({0: batches("a"), 1: batches("b")}) == ()
    # Batches that tell nothing are empty.
    assert judgement.on_same_batches({0: batches(), 1: batches()}) == ()
    assert judgement.on_same_batches({0: batches("a", is_sharded=True), 1: batches("a", is_sharded=True)}) == ()
    some = judgement.same_batches_text((0, 1), 3)
    assert some.startswith("WARNING: ranks 0-1 of 3 train on the same batches, so they learn no more than one of them")


class Store:
    """A store of torch's, in this process."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.is_gone = False

    def set(self, key: str, value: str) -> None:
        if self.is_gone:
            raise RuntimeError("Connection reset by peer")
        self.kept[key] = value

    def get(self, key: str) -> bytes:
        return self.kept[key].encode()

    def check(self, keys: list[str]) -> bool:
        return all(key in self.kept for key in keys)

    def add(self, key: str, number: int) -> int:
        self.kept[key] = str(int(self.kept.get(key, "0")) + number)
        return int(self.kept[key])

    def delete_key(self, key: str) -> bool:
        return self.kept.pop(key, None) is not None


def boards(store: Store, world: int, ranks: int) -> list[Board]:
    made = [Board(lambda: store, rank, world) for rank in range(world)]
    for board in made:
        board.begin("run", ranks)
    return made


def test_the_last_rank_to_write_finds_all_notes() -> None:
    first, second, third = boards(Store(), world=3, ranks=2)
    first.write("3", note("a"), details())
    assert first.read("3") is None
    # A cell on ranks 0 and 2 of three.
    third.write("3", note("b"), details(0.5))
    assert third.read("3") == {0: note("a"), 2: note("b")}
    assert third.details("3", 2) == details(0.5)
    assert second.details("3", 1) == ()
    assert [board.is_first("apart") for board in (first, third)] == [True, False]


def test_the_store_keeps_the_last_two_notes_of_a_rank() -> None:
    store = Store()
    (board,) = boards(store, world=1, ranks=1)
    for moment in ("3", "10", "30"):
        board.write(moment, note("a"), details())
    assert sorted(store.kept) == [f"run/training/{m}/0{part}" for m in ("10", "30") for part in ("", "/details")]


def test_a_store_that_is_gone_is_no_failure() -> None:
    store = Store()
    (board,) = boards(store, world=1, ranks=1)
    store.is_gone = True
    board.write("3", note("a"), details())
    assert board.read("3") is None
    store.kept["run/training/3/0"] = "no note"
    assert board.read("3") is None
