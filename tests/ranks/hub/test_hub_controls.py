"""Controls from a browser, through the hub, to a kernel whose main thread is busy; and what becomes of all of it when a
part of it goes away.
"""

from __future__ import annotations

import os
import re
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from ranks.kernels import eventually, without
from servers import Notebook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hub_server import Browser, Server

pytestmark = pytest.mark.mpi

START = "%ddl start -n 2 --name hub"
SLEEPS = "%%distributed\nimport time\ntime.sleep(600)"
HVD = "import tensorflow as tf, horovod.tensorflow as hvd\nhvd.init()\n"
# Rank 0 waits for a rank that never comes.
HUNG = f"%%distributed\n{HVD}if rank == 0:\n    hvd.allreduce(tf.ones(2))\nelse:\n    import time\n    time.sleep(600)"
# Prints once the notebook's main thread waits for ranks' values.
TELLS_OF_A_TRANSFER = """
import sys, threading, time, traceback
def tell(thread):
    while "transfer.py" not in "".join(traceback.format_stack(sys._current_frames()[thread])):
        time.sleep(0.01)
    print("pulling", flush=True)
threading.Thread(target=tell, args=(threading.get_ident(),), daemon=True).start()
"""


@pytest.fixture(scope="module")
def notebook(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """Return a kernel of the server's with two ranks; it outlives the server."""
    notebook = Notebook(server, "lasting")
    bare = without(tmp_path_factory.mktemp("without"), "tensorflow")["PYTHONPATH"]
    notebook.do(f"%load_ext jupyter_ddl\nimport os; os.environ['PYTHONPATH'] = {bare!r}")
    pid = int(notebook.do("import os; print(os.getpid())"))
    try:
        notebook.do(START, timeout_s=120)
        yield notebook
    finally:
        notebook.close()
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def browser(server: Server, notebook: Notebook) -> Iterator[Browser]:
    with server.browser() as browser:
        browser.wait_for("kernel_state", kernel=notebook.id)
        yield browser


def test_a_browser_is_told_of_the_ranks(browser: Browser, notebook: Notebook) -> None:
    state = browser.wait_for_cluster(notebook.id, "idle")
    cluster = state["cluster"]
    assert (cluster["name"], cluster["world_size"], cluster["step"]) == ("hub", 2, None)
    assert [(rank["rank"], rank["state"]) for rank in cluster["ranks"]] == [(0, "ready"), (1, "ready")]
    assert all(rank["pid"] and rank["host"] and rank["device"] and rank["threads"] for rank in cluster["ranks"])
    assert (state["run"], state["fault"]) == (None, None)


def test_a_run_is_told_with_its_cell_and_its_outcome(browser: Browser, notebook: Notebook) -> None:
    notebook.do("%%distributed -r 1\nprint('hello')", cell_id="cell-7")
    ended = browser.wait_for("run_notice", state="finished", cell_id="cell-7")
    begun = browser.wait_for("run_notice", state="running", cell_id="cell-7")
    assert begun["run"] == ended["run"]
    assert (ended["ranks"], ended["fault"]) == ("1", None)
    assert 0 < ended["seconds"] < 60
    browser.send(type="watch", run=ended["run"])
    browser.until(lambda: browser.batches)
    assert any(event["type"] == "output" for event in browser.batches[0][1]["events"])


def test_a_fault_is_told_until_the_next_good_cell(browser: Browser, notebook: Notebook) -> None:
    _, error = notebook.wait(notebook.send("%%distributed\nassert rank != 1, '<b>no</b>'"))
    assert "AssertionError" in error
    fault = browser.wait_for("run_notice", state="failed")["fault"]
    assert re.fullmatch(r"Rank 1 of 2 on \S+: AssertionError: <b>no</b>", fault["text"])
    browser.wait_for("kernel_state", fault=fault)
    notebook.do("%%distributed\n1 + 1")
    browser.until(lambda: (browser.newest("kernel_state") or {})["fault"] is None)


@pytest.mark.slow
def test_a_hung_allreduce_is_interrupted_while_the_cell_runs(browser: Browser, notebook: Notebook) -> None:
    notebook.do(f"%ddl stop\n{START} --env PYTHONPATH=", timeout_s=120)
    number = notebook.send(HUNG, cell_id="cell-8")
    run = browser.wait_for("run_notice", state="running", cell_id="cell-8")["run"]
    state = browser.wait_for_cluster(notebook.id, "running")
    assert state["run"] == run
    assert {rank["state"] for rank in state["cluster"]["ranks"]} == {"running"}

    def stacks() -> dict[str, Any]:
        result: dict[str, Any] = browser.control(notebook.id, "stacks")["result"]
        return result

    assert eventually(lambda: "hvd.allreduce(tf.ones(2))" in stacks()["text"])
    told = stacks()
    assert "time.sleep(600)" in told["text"]
    assert [rank["rank"] for rank in told["ranks"]] == [0, 1]
    only = browser.control(notebook.id, "stacks", ranks="1")["result"]
    assert [rank["rank"] for rank in only["ranks"]] == [1]
    assert browser.control(notebook.id, "interrupt") == {**browser.newest("answer"), "result": None, "error": None}
    _, error = notebook.wait(number, 60)
    assert "RunInterrupted: The cell was interrupted by the panel after" in error
    assert browser.wait_for("run_notice", run=run, state="interrupted")["fault"] is None
    browser.wait_for_cluster(notebook.id, "idle")
    notebook.do(f"%ddl stop\n{START}", timeout_s=120)


def test_names_are_completed_and_explained_also_while_the_rank_is_busy(browser: Browser, notebook: Notebook) -> None:
    notebook.do("%%distributed\nalpha_beta = 1\ndef gamma(delta):\n    'What gamma does.'")
    notebook.do("%%distributed -r 1\nonly_one_has_it = 1")
    notebook.do("alpha_of_the_notebook = 1")

    def check() -> None:
        code = "x = 1\nprint(alpha_)"
        complete = browser.control(notebook.id, "complete", code=code, cursor=len(code) - 1)["result"]
        assert complete == {"matches": ["alpha_beta"], "start": 12, "end": 18}
        # Another rank, where it is named.
        of_rank_1 = browser.control(notebook.id, "complete", code="only_one", cursor=8, rank=1)["result"]["matches"]
        assert of_rank_1 == ["only_one_has_it"]
        assert browser.control(notebook.id, "complete", code="only_one", cursor=8)["result"]["matches"] == []
        inspect = browser.control(notebook.id, "inspect", code="gamma(1)", cursor=6, detail=0)["result"]
        assert inspect["found"]
        assert "What gamma does." in inspect["data"]["text/plain"]
        assert set(inspect["data"]) == {"text/plain"}
        nothing = browser.control(notebook.id, "inspect", code="no_such_name", cursor=3)["result"]
        assert nothing == {"data": {}, "found": False}

    check()
    number = notebook.send(SLEEPS)
    browser.wait_for_cluster(notebook.id, "running")
    check()
    browser.control(notebook.id, "interrupt")
    notebook.wait(number)


def test_a_rank_that_holds_pythons_lock_keeps_nobody_waiting_who_types(browser: Browser, notebook: Notebook) -> None:
    # PyDLL keeps the lock; poll() waits for nothing for so many milliseconds.
    number = notebook.send("%%distributed -r 0\nimport ctypes\nctypes.PyDLL(None).poll(None, 0, 3500)")
    browser.wait_for_cluster(notebook.id, "running")

    def complete() -> list[str]:
        began_s = time.monotonic()
        result = browser.control(notebook.id, "complete", code="alpha_", cursor=6)["result"]
        assert time.monotonic() - began_s < 2.5
        matches: list[str] = result["matches"]
        return matches

    # Until the cell has come to it.
    assert eventually(lambda: complete() == [])
    notebook.wait(number)
    assert complete() == ["alpha_beta"]


@pytest.mark.parametrize(
    ("do", "arguments", "told"),
    [
        (
            "dance",
            {},
            (
                "A control is one of interrupt, stop, restart, keep, stacks, profile, complete, inspect, debug. "
                "Received: 'dance'."
            ),
        ),
        (
            "complete",
            {"code": "a", "cursor": 2},
            "A cursor is within code of at most 200,000 characters. Received: 2 in 1.",
        ),
        ("complete", {"code": "a", "cursor": 1, "rank": 2}, "A rank must be below the world size. Received: rank 2"),
        ("complete", {"code": 1, "cursor": 1}, "code of a control is of type str. Received: int."),
        ("complete", {"code": "a", "cursor": True}, "cursor of a control is of type int. Received: bool."),
        ("inspect", {"code": "a"}, "cursor of a control is of type int. Received: NoneType."),
        ("stacks", {"ranks": "7"}, "A rank must be below the world size. Received: rank 7, world_size=2."),
    ],
)
def test_what_cannot_be_done_is_told(
    browser: Browser, notebook: Notebook, do: str, arguments: dict[str, Any], told: str
) -> None:
    answer = browser.control(notebook.id, do, **arguments)
    assert answer["result"] is None
    assert answer["error"].startswith(told)


def test_two_browsers_and_two_kernels(server: Server, browser: Browser, notebook: Notebook) -> None:
    other = Notebook(server)
    other.do("%load_ext jupyter_ddl")
    with server.browser() as second:
        for one in (browser, second):
            assert one.wait_for("kernel_state", kernel=other.id)["cluster"] is None
            told = one.control(other.id, "interrupt")["error"]
            assert told.startswith("Ranks must run before a cell can go to them. Received: no cluster.")
            assert one.control(notebook.id, "interrupt")["error"] is None
        state = second.newest("kernel_state", kernel=other.id)
        assert state is not None
        os.kill(state["pid"], signal.SIGKILL)
        second.wait_for("kernel_gone", kernel=other.id)
        browser.wait_for("kernel_gone", kernel=other.id)
    other.delete()


def test_a_restart_ends_the_cell_that_runs_and_the_next_one_has_new_ranks(
    server: Server, browser: Browser, notebook: Notebook
) -> None:
    old = browser.wait_for_cluster(notebook.id, "idle")["cluster"]["ranks"]
    sleeping = notebook.send(SLEEPS)
    browser.wait_for_cluster(notebook.id, "running")
    browser.send(type="control", id="restart", kernel=notebook.id, do="restart", arguments={})
    step = browser.wait_for_cluster(notebook.id, "starting")["cluster"]["step"]
    assert step
    with server.browser() as second:
        error = second.control(notebook.id, "restart")["error"]
    assert error.startswith(
        "Only one restart can run at a time. Received: a restart while ranks are being ended or started."
    )
    _, error = notebook.wait(sleeping)
    assert "ClusterLost: Ranks must live to the end of the cell. Received: stopped" in error
    assert "New ones are being started." in error
    # It waits for them.
    assert "[0-1] 1" in notebook.do("%%distributed\nprint(1)", timeout_s=120)
    assert browser.wait_for("answer", id="restart") == {"type": "answer", "id": "restart", "result": "", "error": None}
    new = browser.wait_for_cluster(notebook.id, "idle")
    assert not {rank["pid"] for rank in old} & {rank["pid"] for rank in new["cluster"]["ranks"]}
    assert new["fault"] is None


def test_a_stop_ends_a_cell_that_spins_and_a_restart_that_goes_on(browser: Browser, notebook: Notebook) -> None:
    number = notebook.send("%%distributed\nwhile True: pass")
    browser.wait_for_cluster(notebook.id, "running")
    assert browser.control(notebook.id, "stop", timeout_s=60)["error"] is None
    _, error = notebook.wait(number)
    assert "ClusterLost: Ranks must live to the end of the cell. Received: stopped" in error
    assert "%ddl restart starts new ones." in error
    state = browser.wait_for_cluster(notebook.id, "stopped")
    assert (state["cluster"]["ranks"], state["fault"]) == ([], None)
    browser.send(type="control", id="restart", kernel=notebook.id, do="restart", arguments={})
    browser.wait_for_cluster(notebook.id, "starting")
    assert browser.control(notebook.id, "stop", timeout_s=60)["error"] is None
    error = browser.wait_for("answer", id="restart")["error"]
    assert error == "The start was cancelled by %ddl stop or %ddl restart."
    _, error = notebook.wait(notebook.send("%%distributed\n1"))
    assert "the cluster 'hub' was stopped. Start one with %ddl start." in error
    notebook.do(START, timeout_s=120)
    browser.wait_for_cluster(notebook.id, "idle")


def test_a_stop_ends_a_pull_that_waits(browser: Browser, notebook: Notebook) -> None:
    notebook.do("%%distributed --async\nx = 1\nimport time\ntime.sleep(600)")
    browser.wait_for_cluster(notebook.id, "running")
    number = notebook.send(f"{TELLS_OF_A_TRANSFER}%ddl pull x")
    notebook.wait_for_text(number, "pulling")
    assert browser.control(notebook.id, "stop", timeout_s=60)["error"] is None
    _, error = notebook.wait(number)
    assert "ClusterLost: Ranks must live until their values have been moved. Received: " in error
    notebook.do(START, timeout_s=120)
    browser.wait_for_cluster(notebook.id, "idle")


@pytest.mark.slow
def test_a_start_is_told_step_by_step_and_a_control_before_its_end_says_so(server: Server, browser: Browser) -> None:
    other = Notebook(server)
    other.do("%load_ext jupyter_ddl")
    number = other.send("%ddl start -n 1 --name hub-other")
    starting = browser.wait_for_cluster(other.id, "starting")["cluster"]
    assert (starting["name"], starting["world_size"], starting["ranks"]) == ("hub-other", 1, [])
    error = browser.control(other.id, "interrupt")["error"]
    assert error.startswith("Ranks must have been started. Received: 'hub-other', which is still starting: ")
    other.wait(number, 120)
    browser.wait_for_cluster(other.id, "idle")
    other.do("%ddl stop")
    # A start is stopped likewise, and its cell ends.
    number = other.send("%ddl start -n 1 --name hub-third")
    assert browser.wait_for_cluster(other.id, "starting")["cluster"]["name"] == "hub-third"
    assert browser.control(other.id, "stop", timeout_s=60)["error"] is None
    _, error = other.wait(number, 120)
    assert "ClusterStartFailed: The start was cancelled" in error
    browser.wait_for_cluster(other.id, "stopped")
    other.delete()
    browser.wait_for("kernel_gone", kernel=other.id)


def test_a_server_that_is_killed_and_started_again_finds_all(server: Server, notebook: Notebook) -> None:
    notebook.do("%%distributed\nprint('before')")
    with server.browser() as browser:
        browser.wait_for("kernel_state", kernel=notebook.id)
        notebook.send(SLEEPS, cell_id="cell-9")
        run = browser.wait_for("run_notice", cell_id="cell-9")["run"]
        state = browser.wait_for("kernel_state", run=run)
    server.kill()
    server.start()
    with server.browser() as browser:
        again = browser.wait_for("kernel_state", kernel=notebook.id)
        assert again == state
        browser.wait_for_cluster(notebook.id, "running")
        runs = server.ask("GET", "runs").json["runs"]
        assert [run["state"] for run in runs[:2]] == ["running", "finished"]
        assert runs[0]["run"] == run
        assert browser.control(notebook.id, "interrupt")["error"] is None
        assert browser.wait_for("run_notice", run=run)["state"] == "interrupted"
        browser.wait_for_cluster(notebook.id, "idle")
