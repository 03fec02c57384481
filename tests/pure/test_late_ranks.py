"""A rank that waits for others which enter one collective after another: they are late, and that is no stall."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_ddl.engine.collectives import stalls
from jupyter_ddl.engine.collectives.library import Turn
from jupyter_ddl.engine.collectives.stall_rules import Note
from jupyter_ddl.engine.collectives.stalls import Stalls, Within

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_ddl.protocol.events import CollectiveStalled

AFTER_S = 10.0
ALL = (0, 1)


class Board(dict[str, str]):
    """The ranks' notes, in this process."""

    def set(self, key: str, text: str) -> None:
        self[key] = text

    def read(self, keys: Sequence[str]) -> dict[str, str]:
        return {key: self[key] for key in keys if key in self}


class Begun:
    """Rank 0, which has begun 100 computations of the two ranks and waits for the last one's result."""

    unknown, framework, ends_together = "a computation", "JAX", False

    def __init__(self) -> None:
        self.notes = Board()

    def groups(self) -> dict[str, tuple[int, tuple[int, ...]]]:
        return {"0,1": (100, ALL)}

    def place(self) -> object:
        return "float(loss)"

    def within(self) -> Within:
        return Within("jit(step)", is_sure=True)

    def following(self, _group: str, _count: int) -> str | None:
        return "jit(step)"

    def board(self) -> Board:
        return self.notes


def reported(
    monkeypatch: pytest.MonkeyPatch, entered: Callable[[float], int], until_s: float
) -> list[tuple[float, float]]:
    """Return when rank 0 reports a stall, and of how many seconds.

    Args:
        monkeypatch: pytest's.
        entered: returns how many computations rank 1 has entered by a time.
        until_s: how long both are watched.
    """
    now_s = 0.0
    found = []

    def note(stalled: CollectiveStalled) -> None:
        assert stalled.missing == {"1": ["jit(step)"]}
        found.append((now_s, stalled.waited_s))

    monkeypatch.setattr(stalls, "time", SimpleNamespace(monotonic=lambda: now_s, time=lambda: now_s))
    watched: Any = Begun()
    one = Stalls(0, 2, watched)
    one.begin_cell(Turn("run", stall_after_s=AFTER_S, report=note))
    while now_s < until_s:
        watched.notes["run/note/1"] = msgspec.json.encode(Note({"0,1": entered(now_s)})).decode()
        one._look_once()
        now_s += 1.0
    return found


@pytest.mark.parametrize("pace_s", [0.3, 1.0, 2.5, 4.0])
def test_a_rank_that_enters_one_after_another_is_not_missing(monkeypatch: pytest.MonkeyPatch, pace_s: float) -> None:
    assert reported(monkeypatch, lambda now_s: int(now_s / pace_s), 25.0) == []


@pytest.mark.parametrize("ends_s", [0.0, 3.0, 8.0, 30.0])
def test_one_that_enters_no_more_is_missing_within_the_time_that_was_set(
    monkeypatch: pytest.MonkeyPatch, ends_s: float
) -> None:
    found = reported(monkeypatch, lambda now_s: int(min(now_s, ends_s)), ends_s + AFTER_S + 1)
    when_s, stood_s = found[0]
    assert AFTER_S / 2 <= when_s - ends_s <= AFTER_S
    assert AFTER_S / 2 <= stood_s <= when_s - ends_s
