"""Values that go to the ranks and come back."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import types
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from ranks.kernels import without

import jupyter_ddl
from jupyter_ddl.errors import ClusterLost, RunInterrupted, TransferFailed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

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


@pytest.mark.parametrize("rows", [500, pytest.param(5000, marks=pytest.mark.slow)])
def test_a_big_array(pair: Session, rows: int) -> None:
    array = np.arange(rows * 5000, dtype="float32").reshape(rows, 5000)
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


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session of two ranks without TensorFlow, which no other test has used."""
    folder = tmp_path_factory.mktemp("bare")
    with jupyter_ddl.start(n=2, name="transfer", env=without(folder, "tensorflow")) as session:
        yield session


def test_the_first_pull_does_not_wait_until_the_hub_counts_the_ranks(bare: Session) -> None:
    # ipyparallel's hub counts an engine from its second heartbeat on: 5 s after it can run cells, on a quiet machine.
    began_s = time.monotonic()
    assert bare.pull("rank") == {0: 0, 1: 1}
    assert time.monotonic() - began_s < 3.0


RAISES = ["SystemExit(3)", "KeyboardInterrupt()", "RecursionError('deep')", "MemoryError()", "GeneratorExit()"]
NOT_REBUILT = """
class Odd:
    def __reduce__(self):
        return exec, ({code!r},)
odd = Odd()
"""


@pytest.mark.parametrize("raised", RAISES)
def test_a_value_whose_unpickling_raises(bare: Session, raised: str) -> None:
    bare.run(NOT_REBUILT.format(code=f"raise {raised}"))
    name = raised.partition("(")[0]
    with pytest.raises(TransferFailed, match=rf"^A variable must be .* rebuilding it in this kernel raised {name}"):
        bare.pull("odd")
    assert bare.pull("rank") == {0: 0, 1: 1}
    bare.push({"after": 1})


class _NotRebuilt:
    def __init__(self, code: str) -> None:
        self._code = code

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, (self._code,)


@pytest.mark.parametrize("raised", RAISES)
def test_a_value_whose_unpickling_raises_on_a_rank(bare: Session, raised: str) -> None:
    name = raised.partition("(")[0]
    with pytest.raises(TransferFailed, match=rf"a rank could not rebuild: rank 0 raised {name}"):
        bare.push({"bad": _NotRebuilt(f"raise {raised}")})
    assert bare.pull("rank") == {0: 0, 1: 1}


class _NotPickled:
    def __init__(self, raised: BaseException) -> None:
        self._raised = raised

    def __reduce__(self) -> str:
        raise self._raised


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), RecursionError("deep"), MemoryError()])
def test_a_value_whose_pickling_raises(bare: Session, raised: BaseException) -> None:
    with pytest.raises(TransferFailed, match=rf"Received: bad, a _NotPickled: {type(raised).__name__}"):
        bare.push({"bad": _NotPickled(raised)})
    code = f"class Odd:\n    def __reduce__(self):\n        raise {raised!r}\nodd = Odd()"
    bare.run(code)
    with pytest.raises(TransferFailed, match=rf"from ranks \[0, 1\]: rank 0 raised {type(raised).__name__}"):
        bare.pull("odd")
    assert bare.pull("rank") == {0: 0, 1: 1}


HANGS = "import time\nfor _ in range(6000): time.sleep(0.01)"


def test_a_value_whose_unpickling_hangs_is_left_by_the_stop_button(bare: Session) -> None:
    bare.run(NOT_REBUILT.format(code=HANGS))
    threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(RunInterrupted, match="Moving values was interrupted"):
        bare.pull("odd")
    assert bare.pull("rank") == {0: 0, 1: 1}


@pytest.mark.parametrize("by", ["the stop button", "the panel"])
@pytest.mark.parametrize("way", ["pull", "push"])
def test_a_rank_whose_values_code_hangs_is_released(bare: Session, way: str, by: str) -> None:
    def interrupt() -> None:
        if by == "the panel":
            bare.interrupt(by)
        else:
            os.kill(os.getpid(), signal.SIGINT)

    bare.run(f"class Odd:\n    def __reduce__(self):\n        exec({HANGS!r})\nodd = Odd()")
    threading.Timer(0.4, interrupt).start()
    told = "Moving values was interrupted" + (" by the panel" if by == "the panel" else " ")
    move = partial(bare.pull, "odd") if way == "pull" else partial(bare.push, {"bad": _NotRebuilt(HANGS)})
    with pytest.raises(RunInterrupted, match=told):
        move()
    # The ranks were released too: what comes after does not wait for a minute.
    began_s = time.monotonic()
    assert bare.pull("rank") == {0: 0, 1: 1}
    assert bare.run("rank").ranks[1].value == "1"
    assert time.monotonic() - began_s < 30.0


def test_a_transfer_waits_for_another_threads_and_can_be_interrupted(bare: Session) -> None:
    reduce = "import time; time.sleep(2); return int, (rank,)"
    bare.run(f"class Odd:\n    def __reduce__(self):\n        {reduce}\nodd = Odd()")
    found: list[object] = []
    other = threading.Thread(target=lambda: found.append(bare.pull("odd")))
    other.start()
    time.sleep(0.2)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    began_s = time.monotonic()
    with pytest.raises(RunInterrupted):
        bare.pull("rank")
    assert time.monotonic() - began_s < 1.5
    other.join()
    assert found == [{0: 0, 1: 1}]


def test_ranks_that_are_stopped_meanwhile(bare: Session) -> None:
    bare.run("class Odd:\n    def __reduce__(self):\n        import time; time.sleep(600)\nodd = Odd()")
    transfer = bare._ranks.transfer
    threading.Timer(0.4, transfer.close).start()
    with pytest.raises(ClusterLost, match=r"until their values have been moved\. Received: they are being ended$"):
        transfer.pull("odd", [0])
