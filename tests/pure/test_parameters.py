"""Parameters of a run: what a rank sends, what a run keeps, and what the kernel adds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from run_folders import make_run

import jupyter_ddl
from jupyter_ddl.engine import rank_state
from jupyter_ddl.engine.rank_state import RankState
from jupyter_ddl.engine.sampler import Sampler
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.kernel import current, parameters
from jupyter_ddl.kernel.kernel_sessions import KernelSessions
from jupyter_ddl.protocol.events import ParametersLogged
from jupyter_ddl.runs.store import read_record
from jupyter_ddl.runs.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def state() -> Iterator[RankState]:
    with rank_state.replaced(RankState()) as state:
        assert state is not None
        yield state


@pytest.fixture
def sent(state: RankState) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    state.meter.parameters.begin(sent.append)
    return sent


def test_what_is_new_is_sent(state: RankState, sent: list[dict[str, Any]]) -> None:
    jupyter_ddl.log_params({"a": 1}, b="x")
    jupyter_ddl.log_params(a=1, b="y")
    jupyter_ddl.log_params()
    assert sent == [{"a": 1, "b": "x"}, {"b": "y"}]
    state.meter.parameters.end()
    jupyter_ddl.log_params(c=1)
    assert len(sent) == 2


def test_the_user_s_comes_before_that_of_fit(state: RankState, sent: list[dict[str, Any]]) -> None:
    jupyter_ddl.log_params(batch_size=1_024)
    state.meter.parameters.log_fit({"batch_size": 32, "epochs": 2, "loss": None, "broken": [1]})
    assert sent == [{"batch_size": 1_024}, {"epochs": 2}]


@pytest.mark.usefixtures("state")
def test_a_wrong_value_is_refused_on_a_rank(sent: list[dict[str, Any]]) -> None:
    with pytest.raises(InvalidInput, match=r"A parameter is a number, .* Received: a=\[1, 2\]\."):
        jupyter_ddl.log_params(a=[1, 2])
    jupyter_ddl.log_params({str(number): 1 for number in range(200)})
    with pytest.raises(InvalidInput, match=r"A run has at most 200 parameters\. Received: 201\."):
        jupyter_ddl.log_params(a=1)
    assert len(sent) == 1


@pytest.mark.usefixtures("state")
def test_a_forked_process_sends_nothing(sent: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    jupyter_ddl.log_params(a=1)
    assert sent == []


def test_the_sampler_sends_them_as_events_of_its_run(state: RankState) -> None:
    events: list[Any] = []
    sampler = Sampler(3, state.meter, events.append)
    sampler.begin("r", None)
    jupyter_ddl.log_params(a=1)
    sampler.end()
    jupyter_ddl.log_params(a=2)
    assert events == [ParametersLogged("r", 3, {"a": 1})]


def test_the_lowest_rank_s_count() -> None:
    summary = Summary()
    assert summary.fields() == {}
    summary.note_parameters(ParametersLogged("r", 1, {"a": 1, "b": 1}))
    summary.note_parameters(ParametersLogged("r", 0, {"a": 0}))
    assert summary.fields() == {"parameters": {"a": 0, "b": 1}}


class Shown:
    """A run, as far as the kernel's part knows it."""

    def __init__(self, path: Path, **record: Any) -> None:
        self.path = path
        self.record = record
        self.folder = self


def test_the_kernel_adds_to_its_last_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DDL_RUNS", str(tmp_path))
    sessions = KernelSessions()
    monkeypatch.setattr(current, "sessions", lambda: sessions)
    # Plain Python: the program runs as it stands.
    jupyter_ddl.log_params(a=1)
    monkeypatch.setattr(parameters, "get_ipython", object)
    with pytest.raises(InvalidInput, match=r"Parameters belong to a run on the ranks\. Received: none yet in this"):
        jupyter_ddl.log_params(a=1)
    first = make_run(outcome="finished", parameters={"a": 0, "epochs": 3})
    begun: Any = Shown(first)
    ended: Any = Shown(make_run("2026-11-20T18-03-08-default-0001", outcome="finished"), outcome="finished")
    sessions.observers.notify(begun)
    sessions.observers.notify(ended)
    sessions.observers.notify()
    jupyter_ddl.log_params(a=1)
    assert read_record(first).parameters == {"a": 1, "epochs": 3}
