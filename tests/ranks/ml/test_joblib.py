"""joblib's tasks, scikit-learn's too, on two ranks: results, data, interrupts, lost ranks."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from joblib import Parallel, delayed
from numpy.testing import assert_allclose

import jupyter_ddl
from jupyter_ddl.cluster.task_link import TaskLink
from jupyter_ddl.errors import ClusterLost, InvalidInput, RankTraceback, RunInterrupted, TransferFailed
from jupyter_ddl.protocol.task_requests import KeepArray
from jupyter_ddl.runs.store import resolve

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from ranks.kernel import Kernel

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi


def block(session: Session) -> AbstractContextManager[int]:
    return jupyter_ddl.parallel_backend(session=session, quiet=True)


def pids(session: Session) -> set[int]:
    return {ready.pid for ready in session.ranks}


def test_sklearn_gives_on_ranks_what_it_gives_here(bare: Session) -> None:
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import RidgeClassifier
    from sklearn.model_selection import GridSearchCV, cross_val_score

    x, y = load_digits(return_X_y=True)

    def results() -> tuple[Any, ...]:
        search = GridSearchCV(RidgeClassifier(), {"alpha": [0.1, 1.0, 10.0]}, cv=3).fit(x, y)
        scores = cross_val_score(RidgeClassifier(), x, y, cv=4)
        forest = RandomForestClassifier(8, max_depth=4, random_state=0).fit(x, y)
        return search.cv_results_["mean_test_score"].tolist(), scores.tolist(), forest.predict_proba(x[:50]).tolist()

    here = results()
    with block(bare) as ranks:
        assert ranks == 2
        on_ranks = results()
    # The trees' probabilities are summed by threads, in whatever order they come.
    # Source: scikit-learn 1.9, sklearn/ensemble/_forest.py, _accumulate_prediction
    assert on_ranks[:2] == here[:2]
    assert_allclose(on_ranks[2], here[2], rtol=1e-12)


def test_tasks_run_in_both_ranks_processes_and_one_job_here(bare: Session) -> None:
    def pid_of(number: int) -> int:
        time.sleep(0.2)
        return os.getpid()

    with block(bare):
        assert set(Parallel()(delayed(pid_of)(number) for number in range(6))) == pids(bare)
        assert set(Parallel(n_jobs=1)(delayed(pid_of)(number) for number in range(2))) == {os.getpid()}
        generated = Parallel(return_as="generator")(delayed(pid_of)(number) for number in range(4))
        assert set(generated) <= pids(bare)


def test_a_large_array_is_sent_once_to_a_host_and_its_file_removed(
    bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = list[KeepArray]()
    send = TaskLink.send

    def noted(link: TaskLink, request: Any, rank: int, buffer: Any = None) -> None:
        if isinstance(request, KeepArray):
            kept.append(request)
        send(link, request, rank, buffer)

    monkeypatch.setattr(TaskLink, "send", noted)
    values = np.asfortranarray(np.arange(2**18, dtype=np.float64).reshape(512, 512))

    def look(array: np.ndarray[Any, Any], number: int) -> tuple[str, bool, float]:
        return type(array).__name__, array.flags.writeable, float(array[3, number])

    with block(bare):
        for _ in range(2):
            found = Parallel()(delayed(look)(values, number) for number in range(4))
            assert found == [("memmap", False, values[3, number]) for number in range(4)]
        assert len(kept) == 1
        values[3, 0] = -1.0
        assert Parallel()(delayed(look)(values, 0) for _ in range(2)) == [("memmap", False, -1.0)] * 2
        assert len(kept) == 2
        folder = kept[0].folder
    # The rank removes them between its cells' bytecodes; the block does not wait for it.
    code = """
import pathlib, tempfile, time
files, deadline_s = pathlib.Path(tempfile.gettempdir(), FOLDER), time.monotonic() + 60
while files.exists() and time.monotonic() < deadline_s:
    time.sleep(0.01)
files.exists()
"""
    assert {result.value for result in bare.run(f"FOLDER = {folder!r}\n{code}").ranks.values()} == {"False"}


def test_what_a_task_raises_has_the_ranks_traceback(bare: Session) -> None:
    def divide(number: int) -> float:
        return 1 / (number - 3)

    with block(bare):
        with pytest.raises(ZeroDivisionError) as raised:
            Parallel()(delayed(divide)(number) for number in range(8))
        assert isinstance(raised.value.__cause__, RankTraceback)
        assert "of 2 on" in str(raised.value.__cause__)
        assert "return 1 / (number - 3)" in str(raised.value.__cause__) or "in divide" in str(raised.value.__cause__)
        # The ranks are usable, in the same block and after it.
        assert Parallel()(delayed(abs)(-number) for number in range(4)) == [0, 1, 2, 3]
    assert bare.run("1 + 1").ranks[1].value == "2"


def test_a_result_that_cannot_be_sent_is_one_clear_error(bare: Session) -> None:
    def opened() -> Any:
        return threading.Lock()

    with block(bare), pytest.raises(TypeError, match="pickle"):
        Parallel()(delayed(opened)() for _ in range(2))

    class Odd:
        def __reduce__(self) -> Any:
            return eval, ("1 / 0",)

    def odd() -> Any:
        return Odd()

    with block(bare), pytest.raises(TransferFailed, match=r"must be known here too\. Received: one that cannot"):
        Parallel()(delayed(odd)() for _ in range(2))


def test_an_interrupt_ends_the_call_and_the_ranks_are_usable(bare: Session) -> None:
    def wait(number: int) -> int:
        time.sleep(600)
        return number

    timer = threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with block(bare), pytest.raises(KeyboardInterrupt):
        Parallel()(delayed(wait)(number) for number in range(4))
    timer.join()
    assert bare.run("1 + 1", timeout_s=60).ranks[0].value == "2"


def test_a_release_from_elsewhere_ends_the_call(bare: Session) -> None:
    def wait(number: int) -> int:
        time.sleep(600)
        return number

    timer = threading.Timer(1.5, lambda: bare.interrupt("the panel"))
    timer.start()
    with block(bare), pytest.raises(RunInterrupted, match="the panel"):
        Parallel()(delayed(wait)(number) for number in range(4))
    timer.join()
    assert bare.run("1 + 1", timeout_s=60).ranks[0].value == "2"


def test_a_dead_ranks_tasks_run_again(bare: Session, tmp_path: Path) -> None:
    mark, before = tmp_path / "died", pids(bare)

    def square(number: int) -> int:
        if number == 5 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.1)
        return number * number

    with block(bare):
        assert Parallel(batch_size=1)(delayed(square)(number) for number in range(12)) == [n * n for n in range(12)]
    assert not before & pids(bare)


def test_a_task_that_ends_its_rank_twice_is_one_clear_error(bare: Session) -> None:
    def end(number: int) -> int:
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with (
        block(bare),
        pytest.raises(ClusterLost, match="2 times a rank was lost while it ran the same task"),
    ):
        Parallel(batch_size=1)(delayed(end)(number) for number in range(3))
    bare.wait_rebuilt()
    assert bare.run("1 + 1", timeout_s=60).ranks[0].value == "2"


def test_a_dead_rank_ends_the_call_where_ranks_are_not_replaced(bare: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(number: int) -> int:
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    monkeypatch.setattr(type(bare), "replaces_lost", property(lambda _: False))
    with block(bare), pytest.raises(ClusterLost, match=r"rank 1 on .* was ended by signal 9"):
        Parallel(batch_size=1)(delayed(end)(number) for number in range(3))
    bare.wait_rebuilt()


def test_a_call_is_a_run_with_its_output(bare: Session) -> None:
    def say(number: int) -> None:
        print(f"task {number} speaks")

    with block(bare):
        Parallel()(delayed(say)(number) for number in range(4))
    record = resolve()
    logs = "".join((record.path / f"rank-{rank}.log").read_text() for rank in range(2))
    assert (record.state, record.ranks) == ("finished", (0, 1))
    assert all(f"task {number} speaks" in logs for number in range(4))


NOTEBOOK = """
import time
import jupyter_ddl
from joblib import Parallel, delayed
from numpy.testing import assert_allclose
def task(number):
    print("task", number, "begins", flush=True)
    time.sleep(SECONDS)
    return number
with jupyter_ddl.parallel_backend():
    print(Parallel(batch_size=1)(delayed(task)(number) for number in range(4)))
"""


def test_a_notebook_shows_the_tasks_and_its_stop_button_ends_them(notebook: Kernel) -> None:
    cell = notebook.execute(NOTEBOOK.replace("SECONDS", "0.6"), 120)
    assert cell.error is None, cell.told
    for text in ("[0, 1, 2, 3]", "joblib on 2 ranks: 4 of 4 tasks done", "task 3 begins"):
        assert text in cell.text
    cell = notebook.send(NOTEBOOK.replace("SECONDS", "600")).wait_for("task 1 begins", 120)
    notebook.interrupt()
    cell.wait(120)
    assert "KeyboardInterrupt" in cell.told
    assert notebook.run("1 + 1", timeout_s=120).error is None


def test_parallel_backend_takes_joblib(bare: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joblib", None)
    wanted = r"parallel_backend takes joblib\. Received: .*pip install scikit-learn"
    with pytest.raises(InvalidInput, match=wanted), block(bare):
        pass
