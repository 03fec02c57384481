"""What programs of PyTorch do with their groups, on two real ranks, as torch documents it."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from at_limit import NO_MORE_THREADS
from frameworks.blocked import TORCH

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

# Weights after 10 steps of SGD on one global batch of 16, of which each rank has its part.
TRAINED = """
torch.manual_seed(1)
data, target = torch.randn(16, 4), torch.randn(16, 2)
torch.manual_seed(0)
model = wrapped(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(10):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(data[own]), target[own]).backward()
    optimizer.step()
"""
FLAT = "[value for parameter in model.parameters() for value in full(parameter).detach().flatten().tolist()]"
ALONE = f"import torch\nwrapped, full, own = (lambda m: m), (lambda p: p), slice(None)\n{TRAINED}"
BEGIN = f"{TORCH}dist.is_initialized() or dist.init_process_group()\nown = slice(rank, None, world_size)\n"


def alone() -> list[float]:
    """Return the weights after the same training in one process, without ranks."""
    command = [sys.executable, "-c", f"{ALONE}\nprint({FLAT})"]
    return ast.literal_eval(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def weights(session: Session, code: str) -> list[list[float]]:
    return [ast.literal_eval(rank.value or "") for rank in session.run(code).ranks.values()]


def test_ddp_trains_as_one_process_does_with_the_global_batch(torch_pair: Session) -> None:
    code = "wrapped, full = torch.nn.parallel.DistributedDataParallel, (lambda p: p)\n"
    first, second = weights(torch_pair, f"{BEGIN}{code}{TRAINED}{FLAT}")
    assert first == second
    assert first == pytest.approx(alone(), abs=1e-5)


def test_fsdp_trains_as_one_process_does_with_the_global_batch(torch_pair: Session) -> None:
    code = f"""{BEGIN}
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
mesh = init_device_mesh("cpu", (world_size,))
wrapped, full = (lambda model: fully_shard(model, mesh=mesh)), (lambda p: p.full_tensor())
{TRAINED}
"""
    first, second = weights(torch_pair, code + FLAT)
    assert first == second
    assert first == pytest.approx(alone(), abs=1e-5)
    parts = torch_pair.run("sum(parameter.to_local().numel() for parameter in model.parameters())")
    assert sum(int(rank.value or 0) for rank in parts.ranks.values()) == len(first)


def test_meshes_groups_and_functional_collectives(torch_pair: Session) -> None:
    code = f"""{BEGIN}
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
mesh = init_device_mesh("cpu", (world_size,))
whole = distribute_tensor(torch.arange(8.0), mesh, [Shard(0)])
pair, alone = dist.new_group([0, 1]), dist.new_group([rank], use_local_synchronization=True)
x, y = torch.ones(1), torch.ones(1)
dist.all_reduce(x, group=pair)
dist.all_reduce(y, group=alone)
z = functional.all_reduce(torch.ones(1), "sum", pair)
float(whole.sum().full_tensor()), whole.to_local().tolist(), x.item(), y.item(), z.item()
"""
    assert [rank.value for rank in torch_pair.run(code).ranks.values()] == [
        "(28.0, [0.0, 1.0, 2.0, 3.0], 2.0, 1.0, 2.0)",
        "(28.0, [4.0, 5.0, 6.0, 7.0], 2.0, 1.0, 2.0)",
    ]


def on_two_ranks(script: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", "2", *options, script]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_program_of_torchruns_runs_as_a_script(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "x = torch.ones(1) * (int(os.environ['LOCAL_RANK']) + 1)\n"
        "dist.all_reduce(x)\n"
        "print('sum', x.item(), 'on', dist.get_rank(), flush=True)\n"
        "dist.destroy_process_group()\n"
    )
    ran = on_two_ranks(script)
    assert ran.returncode == 0, ran.stderr
    assert "sum 3.0 on 0" in ran.stdout
    assert "sum 3.0 on 1" in ran.stdout


def test_a_script_whose_rank_raises_ends_and_names_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group()\n"
        "if dist.get_rank() == 1:\n    raise ValueError('on purpose')\n"
        "dist.all_reduce(torch.ones(1))\n"
    )
    ran = on_two_ranks(script)
    assert ran.returncode == 1
    assert "ValueError: on purpose" in ran.stdout + ran.stderr


def test_a_script_whose_rank_can_start_no_thread_ends_and_names_it(tmp_path: Path) -> None:
    """The release of the other rank is done without one."""
    script = tmp_path / "train.py"
    script.write_text(
        NO_MORE_THREADS + "import torch, torch.distributed as dist\n"
        "dist.init_process_group()\n"
        "dist.all_reduce(torch.ones(1))\n"
        "if dist.get_rank() == 1:\n    no_more_threads()\n    raise MemoryError('on purpose')\n"
        "dist.all_reduce(torch.ones(1))\n"
    )
    ran = on_two_ranks(script)
    assert ran.returncode == 1
    assert "MemoryError: on purpose" in ran.stdout + ran.stderr
    assert "new thread" not in ran.stdout + ran.stderr


def test_a_script_that_stalls_says_so_and_ends(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import time, torch, torch.distributed as dist\n"
        "dist.init_process_group()\n"
        "if dist.get_rank() == 1:\n    time.sleep(300)\n"
        "dist.all_reduce(torch.ones(2))\n"
    )
    ran = on_two_ranks(script, "--stall-after", "5", "--on-stall", "abort")
    told = ran.stdout + ran.stderr
    assert ran.returncode == 1
    assert "  all_reduce of float32 [2]: rank 0 waits in it for rank 1\n" in told
    # Threads of ours are out of C++ code when Python ends.
    assert "Fatal Python error" not in told
    assert "Exception in thread" not in told
