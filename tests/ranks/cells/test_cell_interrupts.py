"""The stop button and --timeout: every rank lets go, wherever it is, and the next cell works."""

import time

import pytest
from ranks.kernel import Kernel
from ranks.kernels import without
from ranks.sizes import TWO_AND_FOUR, slow_but

pytestmark = pytest.mark.mpi

DEADLINE_S = 60
HVD = "import tensorflow as tf, horovod.tensorflow as hvd, time\nhvd.init()\n"
TRAIN = (
    "import keras, numpy as np, jupyter_ddl.keras as jk\n"
    "keras.utils.set_random_seed(1)\n"
    "model = keras.Sequential([keras.layers.Dense(1)])\n"
    "model.compile(jk.DistributedOptimizer(keras.optimizers.SGD(0.01)), 'mse')\n"
)
BUSY = {
    "a collective that one rank never joins": "if rank == 0: hvd.allreduce(tf.ones(2))\nelse: time.sleep(60)",
    "a collective that a looping rank never joins": "if rank == 0: hvd.allreduce(tf.ones(2))\nwhile True: pass",
    "collectives that all ranks join": "while True: hvd.allreduce(tf.ones(2))",
    "a Python loop": "while True: pass",
    "a sleep": "time.sleep(60)",
    "an await": "import asyncio\nawait asyncio.sleep(60)",
    "a loop in async code": "import asyncio\nawait asyncio.sleep(0)\nwhile True: pass",
    "a tf.data pipeline": "for _ in tf.data.Dataset.range(10**12): pass",
    "finalisers": "class Dropped:\n    def __del__(self): sum(range(10**6))\nwhile True: Dropped()",
    "C code that drops what interrupts it": (
        "import ctypes\nget = ctypes.pythonapi.PyDict_GetItem\nget.argtypes = [ctypes.py_object] * 2\n"
        "class Slow:\n    def __hash__(self): time.sleep(60)\n"
        "get({}, Slow())\nwhile True: pass"
    ),
    "fit": TRAIN + "model.fit(np.ones((4096, 2)), np.ones((4096, 1)), batch_size=2, epochs=99, verbose=0)",
    # A flood pushes out what came just before it: only the log has all of it.
    "a flood of output": "time.sleep(0.3)\nwhile True: print('line')",
    "a child": "!sleep 60",
}
# A rank that is released does the same for each reason: test_cell_raises.py has ranks that raise release others.
QUICK = {
    "a collective that a looping rank never joins",
    "collectives that all ranks join",
    "an await",
    "a loop in async code",
    "a tf.data pipeline",
    "finalisers",
    "C code that drops what interrupts it",
    "a flood of output",
}


def works(notebook, n=2):
    """Assert that the next cell runs, with variables and Horovod as they were."""
    cell = notebook.run(HVD + "print(float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum)), kept)")
    assert cell.error is None, cell.told
    assert cell.lines == [f"[0-{n - 1}] {n}.0 7"]


def interrupted(notebook, code, after_s=0.3):
    """Run, interrupt once the ranks are at it, and return the cell and the seconds it then took."""
    cell = notebook.send(f"%%distributed\n{HVD}print('at it')\n{code}")
    cell.wait_for("at it")
    time.sleep(after_s)
    asked_s = time.monotonic()
    notebook.interrupt()
    cell.wait(DEADLINE_S)
    return cell, time.monotonic() - asked_s


@pytest.fixture(autouse=True)
def kept(notebook):
    assert notebook.run("kept = 7").error is None


@pytest.mark.parametrize("n", TWO_AND_FOUR)
@pytest.mark.parametrize("what", slow_but(QUICK, BUSY))
def test_the_stop_button(notebooks, n, what):
    notebook = notebooks(n)
    assert notebook.run("kept = 7").error is None
    cell, seconds = interrupted(notebook, BUSY[what])
    print(f"interrupted in {what} after {seconds * 1000:.0f} ms")
    assert cell.error["ename"] == "RunInterrupted"
    assert "Traceback" not in cell.told
    assert "and its ranks were released." in cell.told
    works(notebook, n)


def test_two_interrupts(notebook):
    cell = notebook.send("%%distributed\nprint('at it')\nwhile True: pass")
    cell.wait_for("at it")
    for _ in range(3):
        notebook.interrupt()
        time.sleep(0.01)
    cell.wait(DEADLINE_S)
    assert cell.error["ename"] == "RunInterrupted"
    assert "Traceback" not in cell.told
    works(notebook)


LATE_PRESS = """
import signal

def show_traceback(*args, **kwargs):
    ip.showtraceback = show
    signal.raise_signal(signal.SIGINT)
    show(*args, **kwargs)

ip = get_ipython()
show, ip.showtraceback = ip.showtraceback, show_traceback
"""


def test_a_press_while_the_error_is_displayed_leaves_it(notebook):
    assert notebook.execute(LATE_PRESS).error is None
    cell, _ = interrupted(notebook, "while True: pass")
    assert cell.error["ename"] == "RunInterrupted"
    assert "showtraceback = show" not in cell.told
    works(notebook)


def test_code_after_the_run_in_its_cell_can_be_interrupted(notebook):
    code = "get_ipython().run_cell_magic('distributed', '', 'pass')\nprint('ran')\nimport time; time.sleep(60)"
    cell = notebook.send(code).wait_for("ran")
    notebook.interrupt()
    assert cell.wait(DEADLINE_S).error["ename"] == "KeyboardInterrupt"
    works(notebook)


@pytest.mark.parametrize("delay_s", [0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16])
def test_an_interrupt_at_any_moment_leaves_the_ranks_usable(notebook, delay_s):
    cell = notebook.send("%%distributed\nimport time\ntime.sleep(0.03)\nrank")
    time.sleep(delay_s)
    notebook.interrupt()
    cell.wait(DEADLINE_S)
    assert cell.error is None or "Interrupt" in cell.error["ename"]
    works(notebook)


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.03, 0.1])
def test_an_interrupt_while_horovod_starts(notebook, delay_s):
    cell = notebook.send(f"%%distributed\n{HVD}hvd.allreduce(tf.ones(1))")
    time.sleep(delay_s)
    notebook.interrupt()
    cell.wait(DEADLINE_S)
    works(notebook)


def test_code_that_swallows_an_interrupt(notebook):
    code = "try:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('swallowed')"
    cell, _ = interrupted(notebook, code)
    assert cell.error["ename"] == "RunInterrupted"
    assert "swallowed" in cell.text
    works(notebook)


def test_a_plain_cell_can_be_interrupted_between(notebook):
    cell = notebook.send("import time; time.sleep(30)")
    time.sleep(0.3)
    notebook.interrupt()
    assert cell.wait(DEADLINE_S).error["ename"] == "KeyboardInterrupt"
    works(notebook)


def test_timeout(notebook):
    cell = notebook.run("while True: pass", "--timeout 0.5", DEADLINE_S)
    assert cell.error["ename"] == "RunTimedOut"
    assert cell.told == (
        "RunTimedOut: The cell must end within its timeout. Received: --timeout 0.5, and ranks still at it. They were "
        "released. Pass a longer one, or none."
    )
    assert cell.seconds < DEADLINE_S
    works(notebook)


def test_timeout_in_a_collective(notebook):
    cell = notebook.run(HVD + "if rank == 0: hvd.allreduce(tf.ones(1))\nelse: time.sleep(60)", "--timeout 1")
    assert cell.error["ename"] == "RunTimedOut"
    works(notebook)


def test_a_cell_within_its_timeout(notebook):
    assert notebook.run("rank * 0", "--timeout 30").lines == ["[0-1] 0"]


@pytest.mark.parametrize("text", ["0", "-1", "-0.5"])
def test_a_timeout_is_positive(notebook, text):
    cell = notebook.run("1", f"--timeout {text}")
    assert cell.told == (
        f"InvalidInput: A timeout must be more than 0 seconds. Received: --timeout {text}. Leave it out for none."
    )


IMPATIENT = (
    "import jupyter_ddl.kernel.release_policy as policy\n"
    "times, policy.CELL = policy.CELL, policy.ReleaseTimes(answer_s=2)"
)
REBUILD = "from jupyter_ddl.kernel.current import current\ncurrent()._lifecycle.replaces_lost = "


@pytest.fixture
def impatient(notebook):
    """A kernel that gives a rank up after 2 s instead of 15, and does not replace it."""
    assert notebook.execute(IMPATIENT).error is None
    assert notebook.execute(f"{REBUILD}False").error is None
    yield notebook
    assert notebook.execute(f"policy.CELL = times\n{REBUILD}True").error is None


@pytest.fixture
def impatient_and_bare(tmp_path):
    """Another such kernel, whose ranks have no TensorFlow to import when they are restarted."""
    kernel = Kernel()
    try:
        path = without(tmp_path, "tensorflow")["PYTHONPATH"]
        assert kernel.execute(f"%ddl start -n 2 --name stuck --env PYTHONPATH={path}").error is None
        assert kernel.execute(f"{IMPATIENT}\n{REBUILD}False").error is None
        yield kernel
        kernel.execute("%ddl stop")
    finally:
        kernel.stop()


def stuck_in_c(notebook, milliseconds):
    """Interrupt while rank 1 is in C with the interpreter's lock, so that no Python code of the rank can run."""
    cell = notebook.send(
        f"%%distributed\nimport ctypes, time\nif rank == 1:\n    print('stuck', flush=True)\n"
        # The rank's threads send what it prints while it leaves them Python's lock.
        f"    time.sleep(0.5)\n    ctypes.PyDLL(None).poll(None, 0, {milliseconds})\nelse:\n    while True: pass"
    )
    cell.wait_for("stuck")
    time.sleep(1)
    notebook.interrupt()
    cell.wait(DEADLINE_S)
    assert cell.error["ename"] == "ClusterError"
    assert cell.told.startswith(
        "ClusterError: Every rank must answer its release within 2 s. Received: nothing from ranks 1 (interrupted). "
        "They are blocked outside Python and Horovod: the next cell works once they have answered, and %ddl restart "
        "starts new ones. Logs: "
    )
    refused = notebook.run("1")
    assert refused.told == (
        "ClusterError: Every rank must have ended the cell before. Received: ranks 1 did not answer their release. "
        "Wait until they do, or start new ones with %ddl restart."
    )


def test_ranks_stuck_in_c_are_named_and_work_again_once_they_answer(impatient):
    stuck_in_c(impatient, 4_500)
    deadline_s = time.monotonic() + DEADLINE_S
    while impatient.run("1").error is not None:
        assert time.monotonic() < deadline_s
        time.sleep(0.5)
    works(impatient)


def test_ranks_stuck_in_c_can_be_restarted(impatient_and_bare):
    stuck_in_c(impatient_and_bare, 600_000)
    restarted = impatient_and_bare.execute("%ddl restart", 60)
    assert restarted.error is None, restarted.told
    assert impatient_and_bare.run("'stuck' in globals(), rank * 0").lines == ["[0-1] (False, 0)"]
