"""A host whose temporary folder, shared memory or memory is full: it is named, or its ranks do without."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, KernelError, eventually, kernel
from systems.rig import Rig, environment
from systems.test_hosts import TRAINS, left_on, processes_of, start

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mpi, pytest.mark.systems]


@pytest.fixture
def login(hosts: Rig) -> Iterator[Kernel]:
    """A kernel on the login node."""
    with kernel(dict(environment(hosts)), within=hosts.enter("login")) as other:
        yield other


@contextmanager
def full(hosts: Rig, host: str, folder: str) -> Iterator[None]:
    """Leave no page free in a host's folder, which has a file system of its own, for the length of the block."""
    before = hosts.on(host, f"findmnt -n -o OPTIONS {folder} | tr , '\\n' | grep ^size= || echo size=50%").split()[-1]
    hosts.on(host, f"mount -o remount,size=1m {folder} && dd if=/dev/zero of={folder}/fills bs=4k 2>/dev/null || true")
    try:
        yield
    finally:
        hosts.on(host, f"rm {folder}/fills && mount -o remount,{before} {folder}")


@pytest.mark.slow
def test_a_host_whose_shared_memory_is_full_trains_all_the_same(hosts: Rig, login: Kernel) -> None:
    with full(hosts, "nodeb", "/dev/shm"):
        login.do(start(hosts) + "\n" + f"s.run({TRAINS!r})")
        weights = login.do("answer = s.pull('weights')")
        login.do("s.stop()")
    assert len({tuple(one) for one in weights.values()}) == 1
    assert eventually(lambda: not processes_of(login))
    assert left_on(hosts) == ""


@pytest.mark.slow
def test_a_host_whose_temporary_folder_is_full_is_named_before_ranks_start(hosts: Rig, login: Kernel) -> None:
    named = r"nodeb must be able to run ranks\..*temporary files.*No space left"
    with full(hosts, "nodeb", "/tmp"), pytest.raises(KernelError, match=named):
        login.do(start(hosts))
    login.do(start(hosts) + "\ns.run('x = rank')\ns.stop()")


@pytest.mark.slow
def test_a_temporary_folder_that_fills_up_while_ranks_run_loses_no_cell(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts) + "\ns.run('x = rank')")
    with full(hosts, "nodeb", "/tmp"):
        login.do(f"s.run({TRAINS!r})")
        login.do("answer = s.pull('weights')")
    login.do("s.stop()")
    assert eventually(lambda: not processes_of(login))
    assert left_on(hosts) == ""


@contextmanager
def little_memory(hosts: Rig, host: str, mib: int) -> Iterator[None]:
    """Let all that is started on a host from now on have so much memory together."""
    own = next(line.split(":")[2] for line in Path("/proc/self/cgroup").read_text().split("\n") if ":memory:" in line)
    folder = Path("/sys/fs/cgroup/memory") / own.lstrip("/") / f"ddl-{host}"
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(mib * 2**20))
    except OSError as error:
        pytest.skip(f"no memory cgroup (version 1) can be made here: {error}")
    before = folder.parent / "cgroup.procs"
    pid = hosts.enter(host)[2]
    (folder / "cgroup.procs").write_text(pid)
    try:
        yield
    finally:
        before.write_text(pid)
        for left in (folder / "cgroup.procs").read_text().split():
            before.write_text(left)
        folder.rmdir()


@pytest.mark.slow
def test_a_rank_that_a_host_ends_for_lack_of_memory_is_named_with_that_cause(hosts: Rig, login: Kernel) -> None:
    with little_memory(hosts, "nodeb", 2000):
        login.do(start(hosts) + "\ns.run('x = rank')")
        takes = "import time\nif rank == 3:\n    taken = b'x' * (4 << 30)\ntime.sleep(600)"
        named = r"rank 3 on nodeb was ended by signal 9 .*Likely cause: the Linux kernel ended it for lack of memory"
        with pytest.raises(KernelError, match=rf"(?s){named}"):
            login.do(f"s.run({takes!r})")
        login.do("s.run('x = rank')\ns.stop()")
    assert eventually(lambda: not processes_of(login))
    assert left_on(hosts) == ""
