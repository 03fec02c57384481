"""What it costs that a loop of PyTorch's shows itself and is checked: samples/s with everything on, and off.

Everything: the hooks, the sampler, the checksums, the record on disk and the dashboard in the kernel. Off: a cell that
is not sampled and not checked. Steps take about 2 ms, by DDP on gloo. Both sides run in turns on the same two ranks.

python -m benchmarks.torch_reports
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import jupyter_ddl
from benchmarks.harness import Nowhere, Row, interleave, report
from jupyter_ddl.views.dashboard import Dashboard

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

N, PAIRS, STEPS = 2, 15, 1_000
BEGUN = """
import time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Sequential(
    torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(32 * STEPS * world_size, 64), torch.randn(32 * STEPS * world_size, 10))
loader = DataLoader(data, batch_size=32, sampler=DistributedSampler(data))
"""
PROGRAM = """
began_s = time.perf_counter()
for inputs, targets in loader:
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()
seconds = time.perf_counter() - began_s
figures = {"samples_per_s": world_size * 32 * STEPS / seconds, "step_ms": seconds / STEPS * 1000}
"""


def main() -> None:
    """Run the benchmark."""
    step_ms: dict[str, list[float]] = {"on": [], "off": []}
    with jupyter_ddl.start(n=N, name=f"bench-{os.getpid()}", framework="torch") as session:
        session.run(BEGUN.replace("STEPS", str(STEPS)))

        def side(name: str) -> float:
            figures = measured(session, on=name == "on")
            step_ms[name].append(figures["step_ms"])
            return figures["samples_per_s"]

        side("on")
        step_ms["on"].clear()
        on, off = interleave(lambda: side("on"), lambda: side("off"), PAIRS)
    also = [Row("a step", tuple(step_ms["on"]), tuple(step_ms["off"]), "ms")]
    rows = [Row(f"n={N} everything on, off", on, off, "samples/s")]
    report("torch_reports", rows, aim=0.99, better="higher", also=also)


def measured(session: Session, *, on: bool) -> dict[str, float]:
    """Train once; return rank 0's figures."""
    code = PROGRAM.replace("STEPS", str(STEPS))
    if on:
        session.run(code, sample_every_s=1.0, view=lambda _: Dashboard(Nowhere()))
    else:
        session.run(code, sample_every_s=None, independent=True)
    figures: dict[str, float] = session.pull("figures", [0])[0]
    return figures


if __name__ == "__main__":
    main()
