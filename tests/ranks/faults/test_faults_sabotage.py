"""A cell that breaks what its rank stands on: it ends, its end is told, and the next cell works."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.errors import ClusterLost, RankError, RunTimedOut

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session
    from jupyter_ddl.runs.run import RunResult

pytestmark = pytest.mark.mpi

# What a cell that never ends is told from.
TIMEOUT_S = 60.0


@pytest.fixture
def session(bare: Session) -> Session:
    return bare


def run(session: Session, code: str) -> RunResult:
    return session.run(code, timeout_s=TIMEOUT_S)


def still_works(session: Session) -> None:
    result = run(session, "import sys\nprint('out')\nprint('err', file=sys.stderr)\nrank + world_size")
    assert [(rank.value, rank.stdout, rank.stderr) for rank in (result.ranks[0], result.ranks[1])] == [
        ("2", "out\n", "err\n"),
        ("3", "out\n", "err\n"),
    ]


STREAMS = {
    "detached": "import sys, codecs\nsys.stdout = codecs.getwriter('utf-8')(sys.stdout.detach())\nprint('hello')",
    "stderr detached": "import sys\nsys.stderr.detach(); print('hello')",
    "closed": "import sys\nprint('hello'); sys.stdout.close(); sys.stderr.close()",
    "deleted": "import sys\nprint('hello', flush=True)\nstream, sys.stdout = sys.stdout, None",
    "a file that was closed": "import os, sys\nprint('hello')\nwith open(os.devnull, 'w') as sys.stdout: pass",
    "descriptors closed": "import os, sys\nprint('hello', flush=True)\nos.close(1); os.close(2)",
}


@pytest.mark.parametrize("how", STREAMS)
def test_the_standard_streams(session: Session, how: str) -> None:
    assert run(session, STREAMS[how]).ranks[1].stdout == "hello\n"
    if how == "deleted":
        run(session, "sys.stdout = stream")
    still_works(session)


BAD = "def bad(*_, **__): raise RuntimeError('broken')\n"
REPLACED = {
    "json.dumps": "import json\njson.dumps = lambda *_, **__: b'x'",
    "json.loads": f"import json\n{BAD}json.loads = bad",
    "time.sleep": f"import time\n{BAD}time.sleep = bad",
    "time.monotonic": "import time\ntime.monotonic = None",
    "threading.Thread": "import threading\nthreading.Thread = None",
    "threading.Thread.start": f"import threading\n{BAD}threading.Thread.start = bad",
    "threading._start_new_thread": f"import threading\n{BAD}threading._start_new_thread = bad",
    "os.write": f"import os\n{BAD}os.write = bad",
    "os.read": f"import os\n{BAD}os.read = bad",
    "builtins.open": f"import builtins\n{BAD}builtins.open = bad",
    "builtins.len": "import builtins\ndel builtins.len",
    "builtins.__import__": f"import builtins\n{BAD}builtins.__import__ = bad",
    "zmq.sugar.socket.Socket.send_multipart": f"import zmq\n{BAD}zmq.Socket.send_multipart = bad",
    "asyncio.ensure_future": "import asyncio\nasyncio.ensure_future = None",
    "sys.modules": "import sys\nsys.modules.clear()",
    "sys.setrecursionlimit": "import sys\nsys.setrecursionlimit(70)",
    "IPythonParallelKernel.session": "get_ipython().kernel.session = None",
    "ZMQInteractiveShell.run_cell": "get_ipython().run_cell = None",
}


@pytest.mark.parametrize("name", REPLACED)
def test_what_the_machinery_needs_is_put_back_and_told(session: Session, name: str) -> None:
    result = run(session, REPLACED[name])
    assert f"jupyter_ddl: the cell replaced {name}" in result.ranks[1].stderr
    assert "without which a rank can serve no cell: put back." in result.ranks[1].stderr
    still_works(session)


def test_what_does_the_same_is_left_to_the_program(session: Session) -> None:
    code = """
import builtins, json, time
stock = time.sleep, json.dumps, print
time.sleep = lambda seconds: stock[0](seconds)
json.dumps = lambda *arguments, **options: stock[1](*arguments, **options)
builtins.print = lambda *words, **options: stock[2]('mine:', *words, **options)
"""
    assert run(session, code).ranks[0].stderr == ""
    result = run(session, "print(1)\n(time.sleep is stock[0], json.dumps is stock[1])")
    assert (result.ranks[0].stdout, result.ranks[0].value) == ("mine: 1\n", "(False, False)")
    run(session, "time.sleep, json.dumps, builtins.print = stock")
    still_works(session)


def test_much_is_printed_where_sleep_raises(session: Session) -> None:
    result = run(session, f"import time\n{BAD}time.sleep = bad\nprint('x' * 3_000_000)\nprint('end')")
    assert result.ranks[1].stdout.endswith("end\n")
    still_works(session)


# What fails, and how the failure is named.
FAILS = {
    "many builtins": (
        (
            "import builtins\nfor name in ('isinstance', 'len', 'getattr', 'Exception', 'str', 'type', 'super'):\n"
            "    setattr(builtins, name, None)"
        ),
        "Error: ",
    ),
    "a builtin, and raises": ("import builtins\nbuiltins.isinstance = None\n1 / 0", "Error: "),
    "a tracer that raises": (
        f"import sys\n{BAD}sys.settrace(bad)\nsorted([1], key=lambda x: x)\ndef f(): pass\nf()",
        "broken",
    ),
    "hooks": ("import sys\nsys.excepthook = sys.unraisablehook = sys.displayhook = None\n1 / 0", "ZeroDivisionError"),
    "traceback": ("import traceback\ntraceback.format_exception = None\n1 / 0", "ZeroDivisionError"),
    "an exception whose text raises": (
        "class E(Exception):\n    def __str__(self): raise SystemExit(3)\nraise E",
        "SystemExit",
    ),
    "a value whose text raises": ("class R:\n    def __repr__(self): raise BaseException('no')\nR()", "no"),
    "a class whose name raises": (
        (
            "class M(type):\n    @property\n    def __name__(cls): raise RuntimeError('no name')\n"
            "class E(Exception, metaclass=M): pass\nraise E"
        ),
        "Error",
    ),
    "lone surrogates": ("raise type('E\\ud800', (Exception,), {})('x\\ud800')", "surrogates not allowed"),
}


@pytest.mark.parametrize("what", FAILS)
def test_a_cell_that_fails_on_the_way_out(session: Session, what: str) -> None:
    code, told = FAILS[what]
    with pytest.raises(RankError) as error:
        run(session, code)
    assert told in str(error.value)
    still_works(session)


FINISHES = {
    "a count that no float holds": "import jupyter_ddl\nfor _ in range(3): jupyter_ddl.report(10**400)",
    "a loss that no float holds": "import jupyter_ddl\njupyter_ddl.report(1, loss=10**400)",
    "warnings are errors": (
        "import warnings, jupyter_ddl\nwarnings.simplefilter('error')\n"
        "for _ in range(3): jupyter_ddl.report(1, loss=float('inf'))"
    ),
    "a name with a surrogate": "import jupyter_ddl\nfor _ in range(3): jupyter_ddl.report(1, **{'a\\ud800': 1.0})",
    "no more threads": (
        "import resource\nlimit = resource.getrlimit(resource.RLIMIT_NPROC)\n"
        "resource.setrlimit(resource.RLIMIT_NPROC, (1, limit[1]))"
    ),
    "gc hooks": f"import gc\n{BAD}gc.callbacks.append(bad); gc.collect(); gc.callbacks.clear()",
    "__del__": "class D:\n    def __del__(self): raise SystemExit\nD(); None",
    "weakref": f"import weakref\n{BAD}class A: pass\na = A(); r = weakref.ref(a, bad); del a",
    "atexit": "import atexit\n_ = atexit.register(lambda: 1 / 0)",
    "tasks": "import asyncio\nfor task in asyncio.all_tasks(): task.cancel()",
    "an exit in a thread": "import sys, threading\nt = threading.Thread(target=sys.exit); t.start(); t.join()",
}


@pytest.mark.parametrize("what", FINISHES)
def test_a_cell_that_finishes_all_the_same(session: Session, what: str) -> None:
    run(session, FINISHES[what])
    if what == "no more threads":
        run(session, "resource.setrlimit(resource.RLIMIT_NPROC, limit)")
    run(session, "import warnings; warnings.resetwarnings(); warnings.simplefilter('ignore')")
    still_works(session)


@pytest.mark.parametrize("how", ["%reset -f", "del rank, local_rank, world_size", "globals().clear()"])
def test_the_ranks_names_come_back(session: Session, how: str) -> None:
    run(session, how)
    assert run(session, "rank, local_rank, world_size").ranks[1].value == "(1, 1, 2)"
    assert run(session, "rank = 7").ranks[1].value is None
    assert run(session, "rank").ranks[1].value == "7"
    run(session, "del rank")
    still_works(session)


RELEASED = {
    "an interrupt that a cell before blocked": (
        "import signal\n_ = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})",
        "while True: pass",
    ),
}


@pytest.mark.parametrize("what", RELEASED)
def test_a_cell_that_is_released_all_the_same(session: Session, what: str) -> None:
    before, code = RELEASED[what]
    run(session, before)
    pids = [rank.value for rank in run(session, "import os\nos.getpid()").ranks.values()]
    with pytest.raises(RunTimedOut):
        session.run(code, timeout_s=1.0)
    still_works(session)
    assert [rank.value for rank in run(session, "import os\nos.getpid()").ranks.values()] == pids


ENDED = {
    "its pipes are closed": (
        (
            "import os, stat\nfor name in os.listdir('/proc/self/fd'):\n"
            "    path = f'/proc/self/fd/{name}'\n"
            "    if int(name) > 2 and os.path.exists(path) and stat.S_ISFIFO(os.stat(path).st_mode):\n"
            "        os.close(int(name))"
        ),
        "exited with status 115: a thread by which it is reached has ended, or its descriptors were closed",
    ),
    "an alarm that raises without end": (
        f"import signal\n{BAD}signal.signal(signal.SIGALRM, bad)\n_ = signal.setitimer(signal.ITIMER_REAL, 0.2, 0.02)",
        # Where it comes between the cell and the handlers that are put back after it, the timer ends the rank itself.
        "exited with status 11|a timer that the cell set",
    ),
}


def how_lost(session: Session, code: str) -> str | None:
    """Run a cell; return how its ranks were lost, or None where they were not."""
    try:
        run(session, code)
    except ClusterLost as error:
        return str(error)
    except RankError:
        # What is broken may also hit a cell, which then ends with that error, before it hits what the rank stands on.
        return None
    return None


@pytest.mark.parametrize("what", ENDED)
def test_a_rank_that_cannot_go_on_is_lost_and_replaced(session: Session, what: str) -> None:
    code, told = ENDED[what]
    lost = how_lost(session, code)
    deadline_s = time.monotonic() + TIMEOUT_S
    while lost is None and time.monotonic() < deadline_s:
        lost = how_lost(session, "import time\nwhile True: time.sleep(0.1)")
    assert lost is not None
    assert re.search(told, lost)
    session.wait_rebuilt()
    still_works(session)
