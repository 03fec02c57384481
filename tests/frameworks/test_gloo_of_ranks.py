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

def batch():
    return {thread for thread in gloo_threads.running() if os.sched_getscheduler(thread) == os.SCHED_BATCH}

def comes(is_so):
    until_s = time.monotonic() + 60
    while not is_so() and time.monotonic() < until_s:
        time.sleep(0.05)
    return is_so()

before, seen = gloo_threads.CROWDED, []
for crowded, is_so in (
    (1e9, lambda: batch() and gloo_threads.named() <= batch()),
    (-1e9, lambda: not batch()),
    (1e9, lambda: batch() and gloo_threads.named() <= batch()),
):
    gloo_threads.CROWDED = crowded
    seen.append(comes(is_so))
gloo_threads.CROWDED = before
seen
"""


def test_those_of_all_groups_of_torch(torch_pair: Session) -> None:
    torch_pair.run("import torch.distributed as dist\ndist.init_process_group('gloo')\ngroup = dist.new_group()")
    threads = torch_pair.run("from jupyter_ddl.engine.collectives import gloo_threads\nlen(gloo_threads.named())")
    assert all(int(threads.ranks[rank].value) >= 2 for rank in range(2))
    found = torch_pair.run(SEEN)
    assert [found.ranks[rank].value for rank in range(2)] == ["[True, True, True]"] * 2
    # And of groups that are made when others have ended.
    torch_pair.run("dist.destroy_process_group()\ndel group")
    torch_pair.run("dist.init_process_group('gloo')")
    found = torch_pair.run(SEEN)
    assert [found.ranks[rank].value for rank in range(2)] == ["[True, True, True]"] * 2


def test_that_of_jax(jax_pair: Session) -> None:
    jax_pair.run("import jax\njax.distributed.initialize()\njax.devices()")
    found = jax_pair.run(SEEN)
    assert [found.ranks[rank].value for rank in range(2)] == ["[True, True, True]"] * 2
