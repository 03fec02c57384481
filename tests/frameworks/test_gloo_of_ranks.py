"""On real ranks gloo's thread is a batch thread while no other program uses the rank's cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

pytestmark = [pytest.mark.mpi, pytest.mark.frameworks]

# Whatever else this machine does meanwhile.
SEEN = """
import os, time
from jupyter_ddl.engine.collectives import gloo_threads

def becomes(count):
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        policies = [os.sched_getscheduler(thread) for thread in gloo_threads.running()]
        if policies.count(os.SCHED_BATCH) == count:
            return True
        time.sleep(0.05)
    return policies

before, seen = gloo_threads.CROWDED, []
for crowded, count in ((1e9, {threads}), (-1e9, 0), (1e9, {threads})):
    gloo_threads.CROWDED = crowded
    seen.append(becomes(count))
gloo_threads.CROWDED = before
seen
"""


def test_those_of_all_groups_of_torch(torch_pair: Session) -> None:
    torch_pair.run("import torch.distributed as dist\ndist.init_process_group('gloo')\ngroup = dist.new_group()")
    found = torch_pair.run(SEEN.format(threads=2))
    assert [found.ranks[rank].value for rank in range(2)] == ["[True, True, True]"] * 2
    # Those of groups that are made later are as those before, and those that have ended are forgotten.
    torch_pair.run("dist.destroy_process_group()\ndel group")
    torch_pair.run("dist.init_process_group('gloo')")
    found = torch_pair.run(SEEN.format(threads=1))
    assert [found.ranks[rank].value for rank in range(2)] == ["[True, True, True]"] * 2


def test_that_of_jax(jax_pair: Session) -> None:
    jax_pair.run("import jax\njax.distributed.initialize()\njax.devices()")
    found = jax_pair.run(SEEN.format(threads=1))
    assert [found.ranks[rank].value for rank in range(2)] == ["[True, True, True]"] * 2
