"""Nothing outlives the kernel that started it, however the kernel ends."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import psutil
import pytest
from ranks.kernels import Kernel, KernelError, eventually, gone_within, kernel, without

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi

START = "import jupyter_ddl\ns = jupyter_ddl.start(n=2, name={name!r})"
WITHIN_S = 10.0


# Rank 0 is in C with the interpreter's lock: no Python code of it can run, as in a collective that does not end.
STUCK = """
import ctypes, pathlib, time
pathlib.Path({folder!r}, str(rank)).touch()
if rank: time.sleep(600)
ctypes.PyDLL(None).poll(None, 0, 600_000)
"""


def test_a_killed_kernel_of_which_a_rank_can_run_no_python(other: Kernel, tmp_path: Path) -> None:
    other.do(START.format(name="killed"))
    other.send(f"s.run({STUCK.format(folder=str(tmp_path))!r})")
    assert eventually(lambda: all((tmp_path / rank).exists() for rank in "01"))
    assert len(other.descendants()) >= 5  # lease, controller, mpiexec, two ranks
    other.kill()
    assert not gone_within(other, WITHIN_S)


@pytest.mark.slow
def test_a_kernel_killed_inside_a_collective() -> None:
    with kernel() as other:
        other.do(START.format(name="killed"))
        other.do("s.run('import horovod.tensorflow as hvd, tensorflow as tf\\nhvd.init()')")
        other.send("s.run('if rank == 0: hvd.allreduce(tf.constant(1.0))\\nelse:\\n import time; time.sleep(600)')")
        assert eventually(lambda: any(p.cpu_percent(0.2) > 20 for p in other.descendants()))
        other.kill()
        assert not gone_within(other, WITHIN_S)


def test_a_kernel_killed_while_it_starts(other: Kernel) -> None:
    other.send(START.format(name="killed"))
    assert eventually(lambda: len(other.descendants()) >= 4)
    other.kill()
    assert not gone_within(other, WITHIN_S)


def test_a_kernel_that_ends_by_itself(other: Kernel) -> None:
    other.do(START.format(name="ending"))
    other.end()
    assert other.process.returncode == 0
    assert not gone_within(other, WITHIN_S)


def test_a_killed_kernel_that_has_forked(other: Kernel) -> None:
    # The child holds the other end of the lease's pipe, which therefore does not close with the kernel.
    other.do(START.format(name="forked"))
    child = other.do(
        "import os, signal, sys, warnings\nwarnings.simplefilter('ignore')\n"
        "answer = child = os.fork()\nif child == 0:\n signal.alarm(60)\n signal.pause()"
    )
    forked = psutil.Process(child)
    other.process.kill()
    assert eventually(lambda: [p.pid for p in other.descendants()] == [forked.pid], WITHIN_S)
    forked.kill()


def test_an_interrupt_while_it_starts(other: Kernel) -> None:
    other.send(START.format(name="interrupted"))
    assert eventually(lambda: len(other.descendants()) >= 2)
    other.process.send_signal(signal.SIGINT)
    with pytest.raises(KernelError, match="KeyboardInterrupt"):
        other.answer()
    assert not other.descendants()


def test_a_stop_ends_what_a_cell_started_and_leaves_no_descriptor_or_thread_behind(other: Kernel) -> None:
    other.do(START.format(name="stopped"))
    other.do('s.run(\'import subprocess; p = subprocess.Popen(["sleep", "1000"], start_new_session=True)\')')
    assert sum(process.name() == "sleep" for process in other.descendants()) == 2
    other.do("s.stop()")
    assert not other.descendants()
    process = psutil.Process(other.process.pid)
    before = process.num_fds(), process.num_threads()
    other.do("import gc\njupyter_ddl.start(n=1, name='stopped').stop(); gc.collect()")
    assert process.num_fds() <= before[0]
    assert process.num_threads() <= before[1]


@pytest.mark.slow
def test_two_kernels_with_two_clusters(tmp_path: Path) -> None:
    variables = without(tmp_path, "tensorflow")
    with kernel(variables) as first, kernel(variables) as second:
        for name, other in (("first", first), ("second", second)):
            other.send(START.format(name=name) + "\nanswer = s.run('rank').outcome")
        assert [other.answer() for other in (first, second)] == ["finished", "finished"]
        first.do("s.stop()")
        assert not first.descendants()
        assert second.do("answer = s.run('rank + 1').ranks[1].value") == "2"
