"""Models of PyTorch's and JAX's parameters that are kept when their ranks are ended as idle, in another process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kept_cells import in_process

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.frameworks

CELL = """
import jax
import jax.numpy as jnp
import torch
from torch import nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 1)
    def forward(self, x):
        return self.last(self.first(x).relu())
net = Net()
optimizer = torch.optim.Adam(net.parameters(), 0.01)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
x = torch.rand(32, 4)
y = x.sum(1, keepdim=True)
def epoch():
    optimizer.zero_grad()
    loss = ((net(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    schedule.step()
    return loss.item()
parameters = {"w": jnp.arange(3.0)}
@jax.jit
def total(parameters):
    return parameters["w"].sum()
first = epoch()
"""
ANSWER = "answer = [epoch() for _ in range(3)] + [float(total(parameters)), schedule.get_last_lr()]"
WRAPPED = """
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
wrapped = nn.parallel.DistributedDataParallel(net)
wrapped(x).sum().backward()
net.zero_grad()
"""


def test_a_torch_model_is_trained_by_its_optimizer_as_it_would_have_been(tmp_path: Path) -> None:
    whole, kept = tmp_path / "whole", tmp_path / "kept"
    whole.mkdir()
    kept.mkdir()
    # The same, without being kept in between.
    expected, _ = in_process("save", whole, CELL, ANSWER)
    _, told = in_process("save", kept, CELL, WRAPPED)
    assert told["kept"] == ["first", "net", "optimizer", "parameters", "schedule", "x", "y"]
    assert told["left_out"] == {
        "wrapped": "PicklingError: a DistributedDataParallel belongs to the ranks that are ended"
    }
    answer, told = in_process("load", kept, ANSWER)
    assert told == {"raised": {}}
    assert answer == expected
