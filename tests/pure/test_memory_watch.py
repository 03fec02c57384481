"""How much memory ranks hold, with all that they start; and which of them is ended for it."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.host import process_identity
from jupyter_ddl.host.memory_watch import GpuLimit, MemoryWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

MIB = 2**20
# Beside what a test allocates there is Python itself.
PYTHON_BYTES = 40 * MIB
WORLD = "a1b2c3d4"
ALLOCATES = "held = b'x' * {0} * 2**20"


class Proc:
    """A folder as /proc is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(
        self,
        pid: int,
        *,
        mib: int,
        parent: int = 1,
        started: int = 100,
        exact: Mapping[str, int] | None = None,
        variables: str = "",
        state: str = "S",
    ) -> None:
        """Write what Linux says of a process: its resident memory, and exactly what its pages are, in MiB."""
        folder = self.folder / str(pid)
        folder.mkdir(exist_ok=True)
        pages = mib * MIB // mmap.PAGESIZE
        fields = [state, parent, *[0] * 17, started, 0, pages, *[0] * 30]
        (folder / "stat").write_text(f"{pid} (a (b) c) {' '.join(map(str, fields))}\n")
        (folder / "environ").write_text(variables.replace(" ", "\0") + "\0")
        sizes = {"Pss_Anon": mib, "Pss_Shmem": 0} if exact is None else exact
        lines = [f"{name + ':':<16}{size * 1024:8} kB" for name, size in sizes.items()]
        (folder / "smaps_rollup").write_text("0-1 ---p 00000000 00:00 0 [rollup]\n" + "\n".join(lines) + "\n")
        (folder / "status").write_text(
            f"Name:\ta\nVmRSS:\t{mib * 1024} kB\nRssAnon:\t  {mib * 1024} kB\nRssShmem:\t0 kB\n"
        )


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def watch(proc: Proc, ranks: Mapping[int, tuple[int, int]], mib: int = 100, **more: Callable[[], float]) -> MemoryWatch:
    return MemoryWatch(mib * MIB, lambda: ranks, WORLD, proc.folder, **more)


def test_who_is_within_the_limit_stays(proc: Proc) -> None:
    proc.has(10, mib=100)
    proc.has(11, mib=1)
    assert watch(proc, {0: (10, 100), 1: (11, 100)}).due() is None
    assert watch(proc, {}).due() is None


def test_of_two_that_hold_too_much_the_larger_is_first(proc: Proc) -> None:
    proc.has(10, mib=150)
    proc.has(11, mib=170)
    proc.has(12, mib=99)
    excess = watch(proc, {0: (10, 100), 1: (11, 100), 2: (12, 100)}).due()
    assert excess is not None
    assert (excess.rank, excess.held_bytes, [one.pid for one in excess.processes]) == (1, 170 * MIB, [11])


def test_what_a_rank_has_started_counts_to_it(proc: Proc) -> None:
    proc.has(10, mib=40)
    proc.has(20, mib=40, parent=10)
    proc.has(30, mib=40, parent=20)
    proc.has(31, mib=40, parent=30, state="Z")
    proc.has(11, mib=90)
    excess = watch(proc, {0: (10, 100), 1: (11, 100)}).due()
    assert excess is not None
    assert (excess.rank, excess.held_bytes, [one.pid for one in excess.processes]) == (0, 120 * MIB, [10, 20, 30])


def test_one_whose_parents_have_ended_counts_to_the_rank_that_started_it(proc: Proc) -> None:
    of_world = f'A=1 JUPYTER_DDL_RANKS={{"world_id":"{WORLD}"}}'
    # mpiexec, in a job whose own variables name a rank too.
    proc.has(5, mib=500, variables=f"{of_world} PMIX_RANK=0")
    proc.has(10, mib=60, parent=5)
    proc.has(11, mib=60, parent=5)
    proc.has(20, mib=60, variables=f"{of_world} OMPI_COMM_WORLD_RANK=1 PMIX_RANK=0")
    proc.has(21, mib=60, variables="OMPI_COMM_WORLD_RANK=0 WORLD=another")
    proc.has(22, mib=60, variables=of_world)
    watched = watch(proc, {0: (10, 100), 1: (11, 100)})
    for _ in range(2):
        excess = watched.due()
        assert excess is not None
        assert (excess.rank, [one.pid for one in excess.processes]) == (1, [11, 20])


def test_shared_pages_and_files_do_not_count_twice(proc: Proc) -> None:
    half = {"Rss": 80, "Pss": 60, "Pss_Anon": 38, "Pss_File": 20, "Pss_Shmem": 2}
    proc.has(10, mib=80, exact=half)
    proc.has(20, mib=80, parent=10, exact=half)
    assert watch(proc, {0: (10, 100)}).due() is None
    excess = watch(proc, {0: (10, 100)}, mib=79).due()
    assert excess is not None
    assert excess.held_bytes == 80 * MIB


def test_an_older_linux_says_less_and_no_more_is_counted_than_it_says(proc: Proc) -> None:
    # Before 5.9 there is no Pss_Anon.
    proc.has(10, mib=200, exact={"Rss": 200, "Pss": 90})
    assert watch(proc, {0: (10, 100)}).due() is None
    # Before 4.14 nothing but what each process maps.
    (proc.folder / "10" / "smaps_rollup").unlink()
    excess = watch(proc, {0: (10, 100)}).due()
    assert excess is not None
    assert excess.held_bytes == 200 * MIB


def test_a_process_that_got_the_number_of_a_rank_is_none(proc: Proc) -> None:
    proc.has(10, mib=200, started=101)
    assert watch(proc, {0: (10, 100)}).due() is None


def test_exact_figures_are_read_again_when_memory_has_grown_or_some_time_has_passed(proc: Proc) -> None:
    now_s = [0.0]

    def ticks() -> float:
        now_s[0] += 0.5
        return now_s[0]

    proc.has(10, mib=150, exact={"Pss_Anon": 60})
    watched = watch(proc, {0: (10, 100)}, now_s=ticks)
    assert watched.due() is None
    # Pages that were shared and are its own by now: it is seen, though a while later.
    proc.has(10, mib=150, exact={"Pss_Anon": 150})
    assert watched.due() is None
    now_s[0] += 20
    assert watched.due() is not None
    # And at once where there may be too much.
    proc.has(11, mib=150, exact={"Pss_Anon": 60})
    watched = watch(proc, {0: (11, 100)}, now_s=ticks)
    assert watched.due() is None
    proc.has(11, mib=191, exact={"Pss_Anon": 101})
    assert watched.due() is not None


@contextmanager
def program(code: str) -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that has run code, and waits."""
    waits = "import sys\nsys.stdout.write('x')\nsys.stdout.flush()\nsys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", f"{code}\n{waits}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.read(1) == b"x"
            yield process
        finally:
            process.kill()


def watch_on(process: subprocess.Popen[bytes], most_bytes: int) -> MemoryWatch:
    identity = process_identity.of(process.pid)
    assert identity is not None
    return MemoryWatch(most_bytes, lambda: {3: (process.pid, identity["start_ticks"])}, WORLD)


def test_a_real_process_is_measured_and_killed() -> None:
    with program(ALLOCATES.format(200)) as process:
        assert watch_on(process, 200 * MIB + PYTHON_BYTES).due() is None
        watched = watch_on(process, 200 * MIB)
        excess = watched.due()
        assert excess is not None
        assert excess.rank == 3
        assert 200 * MIB < excess.held_bytes < 200 * MIB + PYTHON_BYTES
        watched.end(excess)
        assert process.wait(10) == -signal.SIGKILL
        assert watched.due() is None
        watched.end(excess)


def test_reserved_address_space_does_not_count() -> None:
    with program(
        "import mmap\nreserved = mmap.mmap(-1, 2**36, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)"
    ) as process:
        assert watch_on(process, PYTHON_BYTES).due() is None


def test_pages_that_forks_share_count_once() -> None:
    forks = "import os, time\nfor _ in range(4):\n    if os.fork() == 0: time.sleep(600)"
    with program(f"{ALLOCATES.format(100)}\n{forks}") as process:
        watched = watch_on(process, 300 * MIB)
        assert watched.due() is None
        excess = watch_on(process, 99 * MIB).due()
        assert excess is not None
        assert len(excess.processes) == 5
        assert excess.held_bytes < 100 * MIB + 5 * PYTHON_BYTES
        watched.end(excess)


def test_a_child_that_holds_memory_ends_with_its_rank_and_a_small_one_is_left_to_others() -> None:
    child = f"{ALLOCATES.format(100)}; import time; time.sleep(600)"
    starts = f"import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', {child!r}])"
    with program(f"{starts}\nsmall = subprocess.Popen(['sleep', '600'])") as process:
        watched = watch_on(process, 100 * MIB)
        until_s = time.monotonic() + 20
        while (excess := watched.due()) is None:
            assert time.monotonic() < until_s
            time.sleep(0.01)
        assert len(excess.processes) == 3
        large = max(excess.processes, key=lambda one: one.resident_bytes)
        small = min(excess.processes, key=lambda one: one.resident_bytes)
        watched.end(excess)
        assert process.wait(10) == -signal.SIGKILL
        until_s = time.monotonic() + 20
        while process_identity.of(large.pid) is not None:
            assert time.monotonic() < until_s
            time.sleep(0.01)
        assert process_identity.of(small.pid) is not None
        os.kill(small.pid, signal.SIGKILL)


def test_no_process_is_killed_that_has_the_number_of_one_by_now() -> None:
    with program(ALLOCATES.format(100)) as process:
        watched = watch_on(process, 50 * MIB)
        excess = watched.due()
        assert excess is not None
        (own,) = excess.processes
        watched.end(replace(excess, processes=(replace(own, started=own.started - 1),)))
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)


def test_memory_on_gpus_is_that_of_all_of_a_rank_s_processes(proc: Proc) -> None:
    proc.has(10, mib=1)
    proc.has(11, mib=1)
    proc.has(12, mib=1, parent=11)
    held: dict[int, int] = {10: 9 * MIB, 11: 6 * MIB, 99: 500 * MIB}
    ranks = {0: (10, 100), 1: (11, 100)}
    on_gpu = GpuLimit(10 * MIB, lambda: held)
    watched = MemoryWatch(None, lambda: ranks, WORLD, proc.folder, on_gpu=on_gpu)
    assert watched.due() is None
    held[12] = 5 * MIB
    excess = watched.due()
    assert excess is not None
    assert (excess.rank, excess.held_bytes, excess.on_gpu) == (1, 11 * MIB, True)
    assert [process.pid for process in excess.processes] == [11, 12]
    # Both limits hold at once.
    proc.has(10, mib=200)
    both = MemoryWatch(100 * MIB, lambda: ranks, WORLD, proc.folder, on_gpu=on_gpu)
    first = both.due()
    assert first is not None
    assert (first.rank, first.on_gpu) == (0, False)
