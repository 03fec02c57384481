"""Variables that a cell sets too late: what is an error, what a warning, what nothing; and all is put back."""

from __future__ import annotations

import os

import pytest

from jupyter_ddl.engine.late_variables import LateVariables
from jupyter_ddl.errors import InvalidInput

NAMES = ("KERAS_BACKEND", "XLA_FLAGS", "TF_ENABLE_ONEDNN_OPTS", "OMP_NUM_THREADS", "HOROVOD_CONTROLLER", "HOROVOD_RANK")


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> LateVariables:
    """Return what a cell begins with, where none of them is set."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    variables = LateVariables()
    variables.snapshot()
    return variables


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("XLA_FLAGS=--a", "TensorFlow reads this variable when it is imported, which happens when the ranks start. "),
        ("TF_ENABLE_ONEDNN_OPTS=0", "TensorFlow reads this variable when it is imported"),
        ("KERAS_BACKEND=bogus", "Keras on the ranks must use TensorFlow, PyTorch or JAX"),
        ("HOROVOD_CONTROLLER=gloo", "The ranks find each other through MPI"),
        ("HOROVOD_RANK=1", "The ranks find each other through MPI"),
    ],
)
def test_an_error_once(variables: LateVariables, assignment: str, says: str) -> None:
    name, _, value = assignment.partition("=")
    os.environ[name] = value
    with pytest.raises(InvalidInput) as raised:
        variables.check()
    assert str(raised.value).startswith(says)
    assert f"Received: {assignment}, set in a cell (put back). " in str(raised.value)
    assert name not in os.environ
    variables.check()


@pytest.mark.parametrize(
    "assignment", ["KERAS_BACKEND=tensorflow", "TF_ENABLE_ONEDNN_OPTS=1", "HOROVOD_CONTROLLER=mpi"]
)
def test_what_holds_anyway_may_be_set_and_removed(
    variables: LateVariables, assignment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, value = assignment.partition("=")
    monkeypatch.setenv(name, value)
    variables.check()
    assert os.environ[name] == value
    variables.snapshot()
    monkeypatch.delenv(name)
    variables.check()


def test_what_does_no_harm_is_a_warning(variables: LateVariables, capsys: pytest.CaptureFixture[str]) -> None:
    os.environ["OMP_NUM_THREADS"] = "97"
    variables.check()
    told = capsys.readouterr().err
    assert told.startswith("WARNING: TensorFlow reads this variable when it is imported")
    assert "--env OMP_NUM_THREADS=97" in told
    assert "OMP_NUM_THREADS" not in os.environ


def test_what_was_there_before_comes_back(variables: LateVariables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOROVOD_RANK", "3")
    variables.snapshot()
    del os.environ["HOROVOD_RANK"]
    error = variables.put_back()
    assert error is not None
    assert "Received: HOROVOD_RANK=, set in a cell (put back)" in str(error)
    assert os.environ["HOROVOD_RANK"] == "3"


def test_it_is_noticed_where_a_cell_replaces_all_of_them(
    variables: LateVariables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, "XLA_FLAGS": "--a"})
    assert "XLA_FLAGS=--a" in str(variables.put_back())
    assert "XLA_FLAGS" not in os.environ
    variables.snapshot()
    assert variables.put_back() is None
