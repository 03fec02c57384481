"""torch.distributed on two hosts: where ranks find each other, by which network, and how they are released."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest
from systems.rig import ADDRESSES, Rig
from systems.test_hosts import start

if TYPE_CHECKING:
    from ranks.kernels import Kernel

pytestmark = [pytest.mark.mpi, pytest.mark.systems]
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")

VARIABLES = """
import os, socket
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "GLOO_SOCKET_IFNAME")
found = [os.environ[name] for name in names]
"""
# torch's own store listens there at its first use; without torch any server shows that the other host reaches it.
MEETS = """
import os, socket, time
at = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) + 1
if rank == 0:
    with socket.create_server(at) as server:
        seen = sorted(server.accept()[0].recv(9).decode() for _ in range(world_size - 1))
else:
    while True:
        try:
            with socket.create_connection(at, 5) as connection:
                connection.send(os.environ["RANK"].encode())
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
"""


def test_each_rank_knows_where_all_meet(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts, framework="none"))
    login.do(f"s.run({VARIABLES!r}); found = s.pull('found')")
    found = login.do("answer = found")
    meets = ADDRESSES["nodea"]
    assert [one[:5] for one in found.values()] == [
        ["0", "4", "0", "2", "0"],
        ["1", "4", "1", "2", "0"],
        ["2", "4", "0", "2", "1"],
        ["3", "4", "1", "2", "1"],
    ]
    assert {one[5] for one in found.values()} == {meets}
    assert not {one[6] for one in found.values()} & {"lo", ""}
    login.do(f"s.run({MEETS!r}); seen = s.pull('seen', [0])[0]")
    assert login.do("answer = seen") == ["1", "2", "3"]
    login.do("s.stop()")


REDUCE = """
import torch, torch.distributed as dist
dist.init_process_group()
x = torch.ones(1)
dist.all_reduce(x)
y = x.item()
"""
FAILS = """
if rank == 3:
    raise ValueError('alone')
dist.all_reduce(x)
"""
TOLD = """
import time
began_s = time.monotonic()
try:
    s.run(code, timeout_s=60)
except Exception as error:
    told = str(error)
took_s = time.monotonic() - began_s
"""
EVERYWHERE = {str(rank): 4.0 for rank in range(4)}


@needs_torch
def test_ranks_of_two_hosts_train_together_and_are_released(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts, framework="torch"))
    assert login.do(f"s.run({REDUCE!r}); answer = s.pull('y')") == EVERYWHERE
    login.do(f"code = {FAILS!r}" + TOLD)
    assert "Rank 3 of 4 on nodeb: ValueError: alone" in login.do("answer = told")
    assert login.do("answer = took_s") < 20
    assert login.do(f"s.run({REDUCE!r}); answer = s.pull('y')") == EVERYWHERE
    login.do("s.stop()")
