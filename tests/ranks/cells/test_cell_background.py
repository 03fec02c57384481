"""%%distributed --async: the notebook goes on, and the run shows under the cell that began it."""

import pytest

pytestmark = pytest.mark.mpi


CELL = """
import os, time
print('begins', flush=True)
while not os.path.exists({go!r}):
    time.sleep(0.05)
print('ends')
"""


def test_it_returns_at_once_and_shows_under_its_own_cell(notebook, tmp_path):
    cell = notebook.run(CELL.format(go=str(tmp_path / "go")), "--async")
    assert cell.error is None
    status = notebook.execute("%ddl status")
    assert "notebook-2: 2 ranks, running " in status.text
    # The kernel's main thread is free.
    assert notebook.execute("6 * 7").text == "42"
    (tmp_path / "go").touch()
    cell.wait_for("ends")
    assert [line for line in cell.lines if line.startswith("[")] == ["[0-1] begins", "[0-1] ends"]


def test_a_second_cell_queues_after_it(notebook):
    first = notebook.run("import time\ntime.sleep(1)\norder = ['first']", "--async")
    second = notebook.run("order.append('second')\nprint(order)")
    assert second.error is None, second.told
    assert second.lines == ["[0-1] ['first', 'second']"]
    assert first.error is None
    assert "idle" in notebook.execute("%ddl status").text


def test_what_it_returns_can_be_waited_for(notebook):
    notebook.execute("%%capture\n%%distributed --async\nrank * 2")
    cell = notebook.execute("run = get_ipython().run_cell_magic('distributed', '--async', 'rank * 2')")
    assert cell.error is None
    assert notebook.execute("[each.value for each in run.wait().ranks.values()]").text == "['0', '2']"
    assert notebook.execute("run.done").text == "True"


def test_its_error_is_raised_by_wait(notebook):
    notebook.execute("run = get_ipython().run_cell_magic('distributed', '--async', '1 / rank')")
    cell = notebook.execute("run.wait()")
    assert cell.error["ename"] == "RankError"
    assert "Rank 0 of 2" in cell.told
    assert cell.told.endswith("division by zero")
    assert "follow.py" not in cell.told
    assert notebook.run("1").lines == ["[0-1] 1"]


def test_it_can_be_interrupted(notebook):
    notebook.execute("run = get_ipython().run_cell_magic('distributed', '--async', 'while True: pass')")
    cell = notebook.execute("run.interrupt()\nrun.wait()")
    assert cell.error["ename"] == "RunInterrupted"
    assert notebook.run("1").lines == ["[0-1] 1"]


def test_the_stop_button_while_waiting_for_it(notebook):
    notebook.execute("run = get_ipython().run_cell_magic('distributed', '--async', 'while True: pass')")
    waiting = notebook.send(
        "import signal, threading, time\n"
        "def tell():\n"
        # Between this cell's two last lines the button is Python's own.
        "    while type(signal.getsignal(signal.SIGINT)).__name__ != 'Interruption':\n"
        "        time.sleep(0.01)\n"
        "    print('waits', flush=True)\n"
        "threading.Thread(target=tell).start()\n"
        "run.wait()"
    )
    waiting.wait_for("waits")
    notebook.interrupt()
    waiting.wait(20)
    assert waiting.error["ename"] == "RunInterrupted"
    assert notebook.run("1").lines == ["[0-1] 1"]
