"""A rank that raises: one error in the notebook, the others released, and the next cell works."""

import json
import re
import socket
import subprocess
import sys

import pytest
from ranks.sizes import TWO_AND_FOUR, slow_but

from jupyter_ddl.errors import RankError
from jupyter_ddl.paths import runs_dir

pytestmark = pytest.mark.mpi

# Means "did not hang"; what was measured is printed.
DEADLINE_S = 10

HVD = "import tensorflow as tf, horovod.tensorflow as hvd, time\nhvd.init()\n"
TRAIN = (
    "import keras, numpy as np, jupyter_ddl.keras as jk\n"
    "keras.utils.set_random_seed(1)\n"
    "model = keras.Sequential([keras.layers.Dense(1)])\n"
    "model.compile(jk.DistributedOptimizer(keras.optimizers.SGD(0.01)), 'mse')\n"
)

BUSY = {
    "an eager collective": "hvd.allreduce(tf.ones(2))",
    "a collective in a tf.function": "tf.function(lambda: hvd.allreduce(tf.ones(2)))()",
    "many collectives": "while True: hvd.allreduce(tf.ones(2))",
    "fit": TRAIN + "model.fit(np.ones((4096, 2)), np.ones((4096, 1)), batch_size=2, epochs=99, verbose=0)",
    "a sleep": "time.sleep(60)",
    "a Python loop": "while True: pass",
    "an await": "import asyncio\nawait asyncio.sleep(60)",
    "a tf.data pipeline": "for _ in tf.data.Dataset.range(10**12): pass",
    "finalisers": "class Dropped:\n    def __del__(self): sum(range(10**6))\nwhile True: Dropped()",
    "a wait for a child": "import subprocess\nsubprocess.run(['sleep', '60'])",
    "a shell command": "!sleep 60",
    "a lock": "import threading\nthreading.Event().wait()",
}
# A rank that is released does the same for each reason: test_cell_interrupts.py takes the stop button to others.
QUICK = {"an eager collective", "a collective in a tf.function", "fit", "a sleep", "a shell command", "a lock"}


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def works(session):
    """Assert that the next cell runs, with variables and Horovod as they were."""
    total = session.world_size
    result = session.run(HVD + "float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum)), kept")
    assert [rank.value for rank in result.ranks.values()] == [f"({float(total)}, {rank})" for rank in range(total)]


@pytest.mark.parametrize("n", TWO_AND_FOUR)
@pytest.mark.parametrize("what", slow_but(QUICK, BUSY))
def test_others_are_released(ranks, n, what):
    session = ranks(n)
    session.run(HVD + "kept = rank\nhvd.allreduce(tf.ones(2))")
    code = HVD + f"if rank == 1:\n    time.sleep(0.5)\n    raise ValueError('no good')\n{BUSY[what]}"
    with pytest.raises(RankError) as caught:
        session.run(code, timeout_s=60)
    error = caught.value
    assert [failure.rank for failure in error.failures] == [1]
    if what != "a shell command":
        # IPython passes the interrupt on to the command, and goes on.
        assert error.aborted == tuple(rank for rank in range(n) if rank != 1)
    released_s = last_released_s(error)
    print(f"released from {what} after {released_s * 1000:.0f} ms")
    assert released_s < DEADLINE_S
    works(session)


def last_released_s(error):
    """Return how long after the first failure the last rank ended."""
    ends = [failure.at_s for failure in LAST_FAILURES]
    return max(ends) - error.failures[0].at_s


LAST_FAILURES = []


@pytest.fixture(autouse=True)
def every_failure(monkeypatch):
    """Keep what all ranks reported, the released ones too."""
    from jupyter_ddl.runs.run import Run

    LAST_FAILURES.clear()
    causes = Run.causes

    def kept(run):
        LAST_FAILURES[:] = [result.failure for result in run.results.values() if result.failure]
        return causes(run)

    monkeypatch.setattr(Run, "causes", kept)


def test_one_error_with_that_ranks_own_traceback(notebook):
    cell = notebook.run(
        "def inner():\n    raise ValueError('no good')\n"
        "if rank == 1:\n    inner()\nimport horovod.tensorflow as hvd, tensorflow as tf\nhvd.allreduce(tf.ones(1))"
    )
    assert cell.error["ename"] == "RankError"
    assert cell.error["evalue"] == f"Rank 1 of 2 on {socket.gethostname()}: ValueError: no good"
    told = plain(cell.told)
    assert told.startswith(f"Rank 1 of 2 on {socket.gethostname()}\n")
    # The magic's line is the cell's first, as its user sees it.
    assert "----> 5     inner()" in told
    assert "----> 3     raise ValueError('no good')" in told
    assert told.endswith("ValueError: no good\n\nRank 0 aborted because rank 1 raised")
    assert "jupyter_ddl" not in told


def test_a_plain_script_prints_that_ranks_own_traceback(pair):
    code = "def inner():\n    raise ValueError('no good')\nif rank == 1:\n    inner()"
    script = f"import jupyter_ddl\njupyter_ddl.attach({pair.name!r}).run({code!r})"
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert child.returncode == 1
    told, _, error = child.stderr.partition("\nThe above exception was the direct cause of the following exception:\n")
    assert f'jupyter_ddl.errors.RankTraceback: \n"""\nRank 1 of 2 on {socket.gethostname()}\n' in told
    assert "----> 2     raise ValueError('no good')" in told
    assert error.endswith(f"jupyter_ddl.errors.RankError: Rank 1 of 2 on {socket.gethostname()}: ValueError: no good\n")


def test_the_same_error_on_all_ranks_is_told_once(session):
    with pytest.raises(RankError) as caught:
        session.run("1 / 0")
    heading = "Rank 0 of 1" if session.world_size == 1 else f"Ranks 0-{session.world_size - 1} of {session.world_size}"
    assert caught.value.report.startswith(f"{heading} on {socket.gethostname()}\n")
    assert plain(caught.value.report).count("ZeroDivisionError: division by zero") == 1


@pytest.mark.parametrize("n", TWO_AND_FOUR)
def test_different_errors_are_grouped(ranks, n):
    with pytest.raises(RankError) as caught:
        ranks(n).run("raise (ValueError if rank % 2 else OSError)('odd' if rank % 2 else 'even')")
    told = plain(caught.value.report)
    even, odd = ("Rank 0", "Rank 1") if n == 2 else ("Ranks 0, 2", "Ranks 1, 3")
    assert re.search(rf"^{even} of {n} on", told, re.MULTILINE)
    assert re.search(rf"^{odd} of {n} on", told, re.MULTILINE)
    assert told.count("OSError: even") == 1
    assert told.count("ValueError: odd") == 1


@pytest.mark.parametrize(
    ("code", "name", "message"),
    [
        ("class Mute(Exception):\n    def __str__(self): raise KeyError(1)\nraise Mute", "Mute", "KeyError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("raise KeyboardInterrupt('mine')", "KeyboardInterrupt", "mine"),
        ("raise SystemExit(3)", "SystemExit", "3"),
        ("raise GeneratorExit", "GeneratorExit", ""),
        ("def f(:", "SyntaxError", "invalid syntax"),
        ("raise UnicodeDecodeError('utf-8', b'\\xff', 0, 1, 'bad')", "UnicodeDecodeError", "can't decode byte 0xff"),
        ("raise ValueError('\\ud800')", "ValueError", ""),
        pytest.param(
            *("raise ExceptionGroup('two', [ValueError(1), OSError(2)])", "ExceptionGroup", "two (2 sub-exceptions)"),
            marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.11 has these"),
        ),
        ("def f(): f()\nf()", "RecursionError", "maximum recursion depth"),
        ("import asyncio\nraise asyncio.CancelledError", "CancelledError", ""),
        ("import asyncio\nawait asyncio.wait_for(asyncio.sleep(9), 0.05)", "TimeoutError", ""),
        ("%nomagic", "UsageError", "Line magic function `%nomagic` not found"),
        ("import nosuchmodule", "ModuleNotFoundError", "No module named 'nosuchmodule'"),
    ],
)
def test_whatever_is_raised_is_told(pair, code, name, message):
    pair.run("kept = rank")
    with pytest.raises(RankError) as caught:
        pair.run(code)
    failure = caught.value.failures[0]
    if failure.name != "UsageError":
        assert failure.name == name
        assert message in failure.message
    assert message in plain(caught.value.report) or message in failure.message
    assert pair.run("kept").ranks[1].value == "1"


def test_a_huge_message_is_bounded(notebook):
    cell = notebook.run("raise ValueError('x' * 10_000_000)")
    assert cell.error["ename"] == "RankError"
    assert "ValueError" in cell.told
    size = len(cell.told) + len(cell.error["evalue"])
    print(f"10 MB message on 2 ranks: {size} characters, {cell.seconds:.2f} s")
    assert size < 100_000
    assert notebook.run("1").lines == ["[0-1] 1"]


def test_a_chain_of_causes_is_told(pair):
    with pytest.raises(RankError) as caught:
        pair.run("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise OSError('second') from e")
    assert "ZeroDivisionError" in plain(caught.value.report)
    assert "direct cause" in caught.value.report
    assert caught.value.failures[0].name == "OSError"


def test_a_rank_that_handles_its_error_stops_nobody(pair):
    result = pair.run("try:\n    1 / rank\nexcept ZeroDivisionError:\n    pass\nrank")
    assert [rank.value for rank in result.ranks.values()] == ["0", "1"]


def test_a_rank_that_ends_soon_after_is_not_aborted(pair):
    with pytest.raises(RankError) as caught:
        pair.run("import time\nif rank == 0: raise ValueError('early')\ntime.sleep(0.2)")
    assert caught.value.aborted == ()


def test_what_was_printed_before_the_error_is_there(notebook):
    cell = notebook.run("print('before')\n1 / 0")
    assert cell.lines == ["[0-1] before"]
    assert cell.error["ename"] == "RankError"


def last_run():
    """Return the folder of the newest run, and what each rank's log has."""
    newest = max(runs_dir().iterdir(), key=lambda folder: folder.stat().st_mtime_ns)
    return newest, [path.read_text() for path in sorted(newest.glob("rank-*.log"))]


def test_what_a_rank_raised_ends_its_own_log_and_stands_in_the_notebook_once(notebook):
    cell = notebook.run(
        "import time\nprint('before', end='')\nif rank == 1:\n    raise ValueError('no such file')\ntime.sleep(60)"
    )
    told = plain(cell.told)
    assert (told.count("ValueError: no such file"), "ValueError" in cell.text) == (1, False)
    newest, (released, raised) = last_run()
    # The other rank's error is an effect, which would hide the cause where all logs are read as one.
    assert released == "before"
    traceback = raised.removeprefix("before\n")
    assert raised != traceback
    # All of it, and no colours.
    assert traceback in "".join(f"{line}\n" for line in told.splitlines() if line)
    assert "----> 5     raise ValueError('no such file')" in traceback
    assert traceback.endswith("ValueError: no such file\n")
    spans = [json.loads(line) for line in (newest / "rank-1.stderr.jsonl").read_text().splitlines()]
    assert sum(length for _, length in spans) == len(raised) - len("before")


def test_each_rank_that_raises_has_its_own_error_in_its_log(pair):
    with pytest.raises(RankError):
        pair.run("print('before')\nraise ValueError(f'on {rank}')")
    _, logs = last_run()
    for rank, log in enumerate(logs):
        assert log.startswith("before\n")
        assert log.endswith(f"ValueError: on {rank}\n")
        assert log.count(f"ValueError: on {rank}\n") == 1


@pytest.mark.slow  # tests/ranks/cluster/test_cluster_subset.py has more of it
def test_a_cell_that_named_a_collective_on_some_ranks(pair):
    pair.run(HVD)
    with pytest.raises(RankError, match="A collective of all ranks must be entered by all ranks") as caught:
        pair.run("hvd.allreduce(tf.ones(1))", ranks=[0])
    assert "Received: a cell on ranks [0] of 2. Run the cell on all ranks, or use a process set." in str(caught.value)
