"""A program of PyTorch's as torchrun starts it: DDP on made-up images. It prints the samples/s of all ranks.

Runs under torchrun, and unchanged in a cell.
"""

from __future__ import annotations

import json
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
BATCH, WIDTH, STEPS = (512, 128, 150) if ON_GPU else (32, 16, 60)


def trained(steps: int) -> float:
    """Train for some steps; return how many seconds they took."""
    if ON_GPU:
        torch.cuda.synchronize()
    began_s = time.perf_counter()
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    if ON_GPU:
        torch.cuda.synchronize()
    return time.perf_counter() - began_s


if not dist.is_initialized():
    dist.init_process_group(os.environ.get("BENCH_BACKEND"))
torch.manual_seed(1)
layers = [torch.nn.Conv2d(3, WIDTH, 3, padding=1), torch.nn.ReLU()]
for _ in range(4):
    layers += [torch.nn.Conv2d(WIDTH, WIDTH, 3, padding=1), torch.nn.ReLU()]
layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(WIDTH, 10)]
model = DistributedDataParallel(torch.nn.Sequential(*layers).to(DEVICE))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images, labels = torch.randn(BATCH, 3, 32, 32, device=DEVICE), torch.zeros(BATCH, dtype=torch.long, device=DEVICE)
trained(10)
figures = {"samples_per_s": dist.get_world_size() * BATCH * STEPS / trained(STEPS), "backend": dist.get_backend()}
if dist.get_rank() == 0:
    print(json.dumps(figures))
