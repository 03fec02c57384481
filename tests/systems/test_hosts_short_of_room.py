"""A host whose temporary folder, shared memory or memory is full: it is named, or its ranks do without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, KernelError, eventually
from systems.test_hosts import TRAINS, left_on, processes_of, start
from systems.test_hosts_apart import apart_kernel, log_of
from systems.test_wall_time_in_slurm import SHOWN

if TYPE_CHECKING:
    from systems.rig import Rig

pytestmark = [pytest.mark.mpi, pytest.mark.systems]

# Where the files are that a rank shares with the others of its host.
SEGMENTS = """
mapped = (line.split()[-1] for line in open("/proc/self/maps"))
segments = sorted({path[: path.index("/jupyter_ddl-")] for path in mapped if "/sm_segment." in path})
"""


@pytest.mark.slow
def test_a_host_whose_shared_memory_is_full_exchanges_through_files(hosts: Rig, login: Kernel) -> None:
    with hosts.full("nodeb", "/dev/shm"):
        login.do(start(hosts) + "\n" + f"s.run({TRAINS!r})")
        weights = login.do("answer = s.pull('weights')")
        login.do(f"s.run({SEGMENTS!r})")
        segments = login.do("answer = s.pull('segments')")
        login.do("s.stop()")
    assert [set(segments[rank]) for rank in "0123"] == [{"/dev/shm"}, {"/dev/shm"}, {"/tmp"}, {"/tmp"}]
    assert len({tuple(one) for one in weights.values()}) == 1
    assert eventually(lambda: not processes_of(login))
    assert left_on(hosts) == ""


@pytest.mark.slow
def test_a_host_whose_temporary_folder_is_full_is_named_before_ranks_start(hosts: Rig, login: Kernel) -> None:
    named = r"nodeb must be able to run ranks\..*temporary files.*No space left"
    with hosts.full("nodeb", "/tmp"), pytest.raises(KernelError, match=named):
        login.do(start(hosts))
    login.do(start(hosts) + "\ns.run('x = rank')\ns.stop()")


@pytest.mark.slow
def test_a_temporary_folder_that_fills_up_while_ranks_run_loses_no_cell(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts) + "\ns.run('x = rank')")
    with hosts.full("nodeb", "/tmp"):
        login.do(f"s.run({TRAINS!r})")
        login.do("answer = s.pull('weights')")
    login.do("s.stop()")
    assert eventually(lambda: not processes_of(login))
    assert left_on(hosts) == ""


@pytest.mark.slow
def test_a_rank_that_a_host_ends_for_lack_of_memory_is_named_with_that_cause(hosts: Rig, login: Kernel) -> None:
    with hosts.little_memory("nodeb", 2000):
        login.do(start(hosts) + "\ns.run('x = rank')")
        takes = "import time\nif rank == 3:\n    taken = b'x' * (4 << 30)\ntime.sleep(600)"
        named = r"rank 3 on nodeb was ended by signal 9 .*Likely cause: the Linux kernel ended it for lack of memory"
        with pytest.raises(KernelError, match=rf"(?s){named}"):
            login.do(f"s.run({takes!r})")
        login.do("s.run('x = rank')\ns.stop()")
    assert eventually(lambda: not processes_of(login))
    assert left_on(hosts) == ""


@pytest.mark.slow
def test_a_full_disk_of_runs_on_a_host_that_shares_none_ends_its_logs_and_no_training(hosts: Rig) -> None:
    with apart_kernel(hosts) as login:
        login.do(start(hosts) + f"\ns.run('x = rank')\n{SHOWN}")
        fills = "for line in range(40_000): print('line', line, 'of rank', rank)\n"
        with hosts.full("nodeb", "/tmp"):
            login.do(f"s.run({fills + TRAINS!r}, view=lambda run: shows)")
            weights = login.do("answer = s.pull('weights')")
        said = login.do("answer = shows.text")
        for rank in (2, 3):
            assert f"the log of rank {rank} ends here: No space left on device" in said
        assert len({tuple(one) for one in weights.values()}) == 1
        login.do("s.run('print(\"after\", rank)')")
        assert eventually(lambda: log_of(hosts, 3) == "after 3\n")
        login.do("s.stop()")
        assert eventually(lambda: not processes_of(login))
    assert left_on(hosts) == ""
