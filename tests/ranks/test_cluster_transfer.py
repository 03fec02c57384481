"""Values that go to the ranks and come back."""

from __future__ import annotations

import os
import signal
import sys
import threading
import types
from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import without

import jupyter_ddl
from jupyter_ddl.cluster import transfer
from jupyter_ddl.errors import TransferFailed

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.session import Session

pytestmark = pytest.mark.mpi


class OfThisProcess:
    """A class that the ranks' Python does not know."""


OfThisProcess.__module__ = "nowhere_on_the_ranks"


def test_a_value_goes_to_every_rank_and_back(session: Session) -> None:
    session.push({"x": {"a": [1, 2.5, None]}, "y": "text"})
    everywhere = range(session.world_size)
    assert session.pull("x") == {rank: {"a": [1, 2.5, None]} for rank in everywhere}
    assert session.run("y + str(rank)").ranks[0].value == "'text0'"
    assert session.pull("rank") == {rank: rank for rank in everywhere}


def test_some_ranks(pair: Session) -> None:
    pair.push({"only": 1}, ranks=[1])
    assert pair.pull("only", ranks=[1]) == {1: 1}
    assert pair.run("'only' in globals()").ranks[0].value == "False"


def test_a_big_array(pair: Session) -> None:
    array = np.arange(25_000_000, dtype="float32").reshape(5000, 5000)
    pair.push({"array": array}, ranks=[1])
    pair.run("array2 = array * 2", ranks=[1])
    np.testing.assert_array_equal(pair.pull("array2", ranks=[1])[1], array * 2)
    pair.run("del array, array2", ranks=[1])


def test_a_class_of_a_cell(pair: Session) -> None:
    pair.run("class Made:\n    size = 3\nmade = Made()")
    with pytest.raises(TransferFailed, match=r"(?s)Received: made from ranks \[0, 1\]: .*AttributeError"):
        pair.pull("made")
    assert pair.pull("rank") == {0: 0, 1: 1}


def test_what_is_not_defined(session: Session) -> None:
    with pytest.raises(TransferFailed) as error:
        session.pull("nowhere")
    text = str(error.value)
    assert text.startswith("A variable must be defined on the ranks, and sendable. Received: nowhere from ranks [0")
    assert "NameError" in text
    assert text.endswith("Pull an array or a plain value instead.")


@pytest.mark.parametrize(
    ("value", "kind"),
    [(threading.Lock(), "lock"), ((i for i in range(3)), "generator"), (OfThisProcess(), "OfThisProcess")],
)
def test_what_cannot_be_sent(pair: Session, value: object, kind: str) -> None:
    with pytest.raises(TransferFailed) as error:
        pair.push({"good": 1, "bad": value})
    text = str(error.value)
    assert text.startswith(f"A value must be one that pickle can send. Received: bad, a {kind}: ")
    assert text.endswith("Send what it was made from (an array, a path, numbers) and make it again on the ranks.")


@pytest.mark.parametrize("made", ["threading.Lock()", "(i for i in range(3))", "open('/dev/null')"])
def test_what_cannot_be_pulled(session: Session, made: str) -> None:
    session.run(f"import threading\nbad = {made}")
    with pytest.raises(TransferFailed, match="Received: bad from ranks"):
        session.pull("bad")
    session.run("del bad")
    assert session.pull("rank", ranks=[0]) == {0: 0}


def test_a_value_whose_class_the_ranks_cannot_import(pair: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("nowhere_on_the_ranks")
    module.OfThisProcess = OfThisProcess  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nowhere_on_the_ranks", module)
    with pytest.raises(TransferFailed) as error:
        pair.push({"bad": OfThisProcess()})
    text = str(error.value)
    assert text.startswith(
        "A value must be known to the ranks' Python. Received: bad, which a rank could not rebuild: "
    )
    assert "nowhere_on_the_ranks" in text
    assert text.endswith("Define its class on the ranks too, in a %%distributed cell or a module.")


@pytest.mark.slow
def test_ranks_that_were_frozen_while_they_registered(tmp_path: Path) -> None:
    with jupyter_ddl.start(n=2, name="frozen", env=without(tmp_path, "tensorflow")) as session:
        pids = [ready.pid for ready in session.ranks]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        # For longer than ipyparallel's hub would wait for their first heartbeat: 30 s.
        threading.Timer(35.0, lambda: [os.kill(pid, signal.SIGCONT) for pid in pids]).start()
        assert session.pull("rank") == {0: 0, 1: 1}


def test_a_rank_that_never_registers_is_named(pair: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.pull("rank")  # the two that there are, are known by now
    monkeypatch.setattr(transfer, "REGISTERED_S", 5.0)
    lonely = transfer.Transfer(pair._cluster.folder.connection_file, pair.world_size + 1, lambda: None)
    with pytest.raises(TransferFailed, match=r"Received: nothing from ranks \[2\] within 5 s. %ddl restart starts"):
        lonely.pull("rank", [0])
    lonely.close()
