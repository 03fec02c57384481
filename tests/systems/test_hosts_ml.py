"""joblib's tasks, and XGBoost's and LightGBM's trainings, on the ranks of two hosts."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, KernelError, eventually
from ranks.ml.test_boosting import PROGRAMS, program_of
from systems.rig import NODES, Rig
from systems.test_hosts import left_on, processes_of, start

from jupyter_ddl.protocol.rank_files import TASK_ARRAYS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.mpi, pytest.mark.systems]

# cloudpickle sends the functions of __main__ by value, as it does a notebook's.
JOBLIB = """
__name__ = "__main__"
import os, socket, time
from pathlib import Path
import numpy as np
from joblib import Parallel, delayed
"""
ARRAY_BYTES = 24 << 20
# Values that nothing could compress; every task reads all of them.
LOOKS = f"""
values = np.random.default_rng(0).integers(0, 2**63, {ARRAY_BYTES // 8})
def look(array, number):
    time.sleep(0.05)
    return socket.gethostname(), os.getpid(), type(array).__name__, int(array[number:].sum() % 1_000_003)
def call():
    found = Parallel(batch_size=1)(delayed(look)(values, number) for number in range(16))
    assert [one[3] for one in found] == [int(values[number:].sum() % 1_000_003) for number in range(16)]
    assert {{one[2] for one in found}} == {{"memmap"}}
    return sorted({{tuple(one[:2]) for one in found}})
"""
# A task that waits has written its name into a folder of all hosts; its large array is sent to the hosts.
WAITS = """
values = np.arange(2**18)
def task(array, number):
    name = f"{number}-{socket.gethostname()}-{os.getpid()}"
    (folder / name).touch()
    while number >= QUICK and not (folder / "go").exists():
        time.sleep(0.02)
    return int(array[number]) ** 2
def call():
    return Parallel(batch_size=1)(delayed(task)(values, number) for number in range(QUICK + 4))
"""
QUICK = 8


@pytest.fixture
def folder(hosts: Rig) -> Iterator[Path]:
    """A folder that all hosts share, in which tasks leave files."""
    made = hosts.folder / "tasks"
    made.mkdir()
    yield made
    for one in made.iterdir():
        one.unlink()
    made.rmdir()


def start_bare(hosts: Rig, login: Kernel) -> None:
    """Start four ranks on two hosts, without a framework."""
    login.do(start(hosts, framework="none", name="ml"))


def stop_and_leave_nothing(hosts: Rig, login: Kernel) -> None:
    login.do("s.stop()")
    assert eventually(lambda: not processes_of(login))
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)


def received_bytes(hosts: Rig, node: str) -> int:
    """Return how many bytes have come to a host over its link since the host is up."""
    (line,) = [line for line in hosts.on(node, "cat /proc/net/dev").splitlines() if line.split()[0] == "eth0:"]
    return int(line.split()[1])


def begun(folder: Path) -> list[tuple[int, str, int]]:
    """Return the number, the host and the process of each task that has begun."""
    names = [one.name.split("-") for one in folder.iterdir() if one.name != "go"]
    return sorted((int(number), host, int(pid)) for number, host, pid in names)


def test_large_data_come_to_each_host_once_however_many_tasks_and_calls_use_them(hosts: Rig, login: Kernel) -> None:
    start_bare(hosts, login)
    pids = login.do("answer = sorted([one.host, one.pid] for one in s.ranks)")
    login.do(JOBLIB + LOOKS)

    def sent(code: str) -> dict[str, float]:
        """Return for each host how often the array's bytes came to it while a block ran this."""
        before = {node: received_bytes(hosts, node) for node in NODES}
        login.do(code)
        return {node: (received_bytes(hosts, node) - before[node]) / ARRAY_BYTES for node in NODES}

    enter = "from contextlib import ExitStack\nblock = ExitStack()\n"
    once = sent(f"{enter}block.enter_context(jupyter_ddl.parallel_backend(quiet=True))\nwhere = [call(), call()]")
    # Two ranks of each host ran eight tasks of two calls.
    assert login.do("answer = where") == [pids, pids]
    assert once == {node: pytest.approx(1.0, abs=0.1) for node in NODES}
    # Whatever is sent again is all of it: the array has another content.
    again = sent("values[0] = 7\nwhere = call()")
    assert again == {node: pytest.approx(1.0, abs=0.1) for node in NODES}
    held = {node: hosts.on(node, f"find /tmp -path '*/{TASK_ARRAYS}*' -type f | wc -l").strip() for node in NODES}
    assert held == dict.fromkeys(NODES, "2")
    login.do("block.close()")
    assert eventually(lambda: not any(hosts.on(node, f"find /tmp -name '{TASK_ARRAYS}*'") for node in NODES))
    stop_and_leave_nothing(hosts, login)


@pytest.mark.slow
def test_tasks_of_a_rank_that_is_killed_on_the_second_host_run_again(hosts: Rig, login: Kernel, folder: Path) -> None:
    start_bare(hosts, login)
    before = login.do("answer = [[one.host, one.pid] for one in s.ranks]")
    login.do(f"{JOBLIB}folder, QUICK = Path({str(folder)!r}), {QUICK}{WAITS}")
    login.send("with jupyter_ddl.parallel_backend(quiet=True):\n    answer = call()")
    # A rank begins a task once the kernel has the result of the one before it.
    assert eventually(lambda: len(begun(folder)) == QUICK + 4)
    first = begun(folder)
    assert {host for number, host, _ in first if number >= QUICK} == set(NODES)
    host, pid = before[3]
    assert host == "nodeb"
    hosts.on("nodeb", f"kill -9 {pid}")
    # Those that had not ended begin again, on other processes; those that had are kept.
    assert eventually(lambda: len(begun(folder)) == QUICK + 8, 90), begun(folder)
    again = [one for one in begun(folder) if one not in first]
    (folder / "go").touch()
    assert login.answer() == [number * number for number in range(QUICK + 4)]
    assert [number for number, _, _ in again] == list(range(QUICK, QUICK + 4))
    after = login.do("answer = [[one.host, one.pid] for one in s.ranks]")
    assert sorted([host, pid] for _, host, pid in again) == sorted(after)
    assert not {tuple(one) for one in before} & {tuple(one) for one in after}
    # Of the lost ranks' arrays neither.
    stop_and_leave_nothing(hosts, login)


def test_an_interrupt_ends_the_tasks_on_both_hosts(hosts: Rig, login: Kernel, folder: Path) -> None:
    start_bare(hosts, login)
    before = login.do("answer = sorted([one.host, one.pid] for one in s.ranks)")
    login.do(f"{JOBLIB}folder, QUICK = Path({str(folder)!r}), 0{WAITS}")
    login.send("with jupyter_ddl.parallel_backend(quiet=True):\n    call()")
    assert eventually(lambda: len(begun(folder)) == 4)
    login.inside.send_signal(signal.SIGINT)
    with pytest.raises(KernelError, match="KeyboardInterrupt"):
        login.answer()
    # The same ranks run the next call.
    (folder / "go").touch()
    assert login.do("with jupyter_ddl.parallel_backend(quiet=True):\n    answer = call()") == [0, 1, 4, 9]
    assert login.do("answer = sorted([one.host, one.pid] for one in s.ranks)") == before
    stop_and_leave_nothing(hosts, login)


@pytest.mark.slow
def test_sklearn_gives_on_two_hosts_what_it_gives_in_the_kernel(hosts: Rig, login: Kernel) -> None:
    start_bare(hosts, login)
    login.do("""
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV
x, y = load_digits(return_X_y=True)
def scores():
    return GridSearchCV(RidgeClassifier(), {"alpha": [0.1, 1.0, 10.0]}, cv=4).fit(x, y).cv_results_["mean_test_score"]
""")
    here = login.do("answer = scores().tolist()")
    assert login.do("with jupyter_ddl.parallel_backend(quiet=True):\n    answer = scores().tolist()") == here
    login.do("s.stop()")


COMPARED = """
import socket, zlib
where = socket.gethostname()
booster = on_ranks()
ours, one, text = loss_of(booster), loss_of(alone()), zlib.crc32(text_of(booster).encode())
"""


@pytest.mark.slow
@pytest.mark.parametrize("library", PROGRAMS)
def test_two_hosts_train_one_model_as_good_as_one_process_and_a_rank_that_raises_is_named(
    hosts: Rig, login: Kernel, library: str
) -> None:
    program = program_of(library)
    start_bare(hosts, login)
    login.do(f"s.run({program + COMPARED!r})")
    found = login.do("answer = {name: s.pull(name) for name in ('where', 'ours', 'one', 'text')}")
    assert list(found["where"].values()) == ["nodea", "nodea", "nodeb", "nodeb"]
    assert len(set(found["text"].values())) == 1
    ours, one = found["ours"]["0"], found["one"]["0"]
    # Of 143 rows.
    assert ours == pytest.approx(one, abs=0.03)
    assert ours < 0.2
    raises = "on_ranks(**(stop_at(5) if rank == 3 else {}))"
    with pytest.raises(KernelError, match=r"Rank 3 of 4 on nodeb[\s\S]*no more"):
        login.do(f"s.run({raises!r}, timeout_s=60)")
    login.do("s.run('after = loss_of(on_ranks())', timeout_s=60)")
    assert login.do("answer = s.pull('after')") == dict.fromkeys(found["ours"], ours)
    login.do("s.stop()")
