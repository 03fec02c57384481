"""Ranks that wait in a collective of TensorFlow's are released only where TensorFlow was set up for collectives."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from jupyter_ddl.engine.collectives.tensorflow_collectives import ENDED, TensorflowCollectives

CONTEXT = "tensorflow.python.eager.context"


@pytest.mark.parametrize(("leader", "ended"), [(None, 0), ("/job:worker/replica:0/task:0", 1)])
def test_a_release_ends_collectives_where_there_are_some(
    monkeypatch: pytest.MonkeyPatch, leader: str | None, ended: int
) -> None:
    calls: list[tuple[int, str]] = []
    module = ModuleType(CONTEXT)
    context = SimpleNamespace(_collective_leader=leader, abort_collective_ops=lambda *said: calls.append(said))
    monkeypatch.setattr(module, "_context", context, raising=False)
    monkeypatch.setitem(sys.modules, CONTEXT, module)
    TensorflowCollectives().release()
    assert calls == [(10, ENDED)] * ended


def test_a_rank_without_tensorflow_has_nothing_to_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, CONTEXT, raising=False)
    TensorflowCollectives().release()


def test_an_error_of_a_released_collective_is_an_effect_of_another_rank() -> None:
    collectives = TensorflowCollectives()
    assert collectives.was_ended_elsewhere(f"AbortedError: {ENDED} [Op:CollectiveReduceV2]")
    assert not collectives.was_ended_elsewhere("AbortedError: the disk is full")
