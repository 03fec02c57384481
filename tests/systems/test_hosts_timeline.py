"""A run's timeline on two hosts: the rank that is late is named, whichever host it is on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ranks.training.test_timeline import FIT, MODEL
from systems.test_hosts import start
from systems.test_hosts_torch import needs_torch

if TYPE_CHECKING:
    from ranks.kernels import Kernel
    from systems.rig import Rig

pytestmark = [pytest.mark.mpi, pytest.mark.systems]

# The last rank is on the other host than rank 0, which notes when each handed its tensors over. It is late in five
# steps: in one a busy machine may delay another rank as much.
LATE = MODEL.replace("5 <= batch < 12", "batch % 3 == 2")
ANALYSED = """
from jupyter_ddl import paths
from jupyter_ddl.runs.log_times import clocks_ahead_us
from jupyter_ddl.timeline.run_files import analyse_run
folder = paths.runs_dir() / result.run
found = analyse_run(folder, clocks_ahead_us(folder))
rank, late = found.slowest()
known = late.worst[1].tensor in {one.name for one in found.tensors}
answer = [found.ranks, sorted(found.compute_us), rank, known, late.by_us]
"""


def test_a_rank_of_the_other_host_that_is_late_is_named_with_the_tensor(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts, framework="tensorflow"))
    login.do(f"s.run({LATE!r}); s.run({FIT!r})")
    ranks, of, rank, is_known, by_us = login.do(f"result = s.run({FIT!r}, timeline=True)\n{ANALYSED}")
    assert (ranks, of, rank, is_known) == (4, [0, 1, 2, 3], 3, True)
    assert by_us > 50_000
    login.do("s.stop()")


@needs_torch
def test_so_is_one_of_torch_by_the_clocks_of_both_hosts(hosts: Rig, login: Kernel) -> None:
    from frameworks.test_torch_timeline import MODEL as TORCH

    login.do(start(hosts, framework="torch"))
    login.do(f"s.run({TORCH.replace('step == late', 'step % 3 == late')!r}); s.run('train(3)')")
    ranks, of, rank, is_known, by_us = login.do(f"result = s.run('train(15, late=2)', timeline=True)\n{ANALYSED}")
    assert (ranks, of, rank, is_known) == (4, [0, 1, 2, 3], 3, True)
    assert by_us > 50_000
    login.do("s.stop()")
