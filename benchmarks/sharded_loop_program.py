"""A loop of PyTorch's that was written for one process: `jupyter ddl run --auto [--memory shard-all] PROGRAM FOLDER`.

Blocks of two layers with Adam: weights, gradients and state are nearly all that it needs. Each rank writes its peak of
resident memory, beyond that before the model was made. With MIB it may take so much address space more, and no more,
and makes three steps: `jupyter ddl run --auto PROGRAM FOLDER MIB`.

Runs on: every rank.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path

import psutil
import torch

WIDTH, INNER, BLOCKS, BATCH, WARM, STEPS = 512, 2048, 16, 256, 3, 20


class Block(torch.nn.Module):  # type: ignore[misc]
    """Two layers beside the identity."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(WIDTH, INNER)
        self.outer = torch.nn.Linear(INNER, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output."""
        return x + self.outer(torch.nn.functional.gelu(self.inner(x)))


def main() -> None:
    """Train, and write what was measured."""
    folder, limit_mib = Path(sys.argv[1]), int((*sys.argv[2:], "0")[0])
    torch.manual_seed(1)
    steps = WARM + (0 if limit_mib else STEPS)
    x = torch.randn(steps * BATCH, WIDTH)
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH)
    before = psutil.Process().memory_info()
    if limit_mib:
        limit = before.vms + limit_mib * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    model = torch.nn.Sequential(*(Block() for _ in range(BLOCKS)), torch.nn.Linear(WIDTH, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    began = time.perf_counter()
    for step, (rows, targets) in enumerate(loader):
        if step == WARM:
            began = time.perf_counter()
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(rows), targets)
        loss.backward()
        optimizer.step()
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before.rss
    found = {"peak_mib": peak / 2**20, "samples_s": STEPS * BATCH / seconds, "loss": loss.item()}
    (folder / f"{os.environ['RANK']}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
