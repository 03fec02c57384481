"""What a step of `horovod.torch`'s DistributedOptimizer, over torch.distributed, takes beside one of DDP's: samples/s.

Both train the same model of 1.6 million weights on the same two ranks, in turns, by gloo.

python -m benchmarks.horovod_torch
"""

from __future__ import annotations

import os

import jupyter_ddl
from benchmarks.harness import Row, interleave, report

N, PAIRS, STEPS, BATCH = 2, 15, 100, 64
BEGUN = """
import time
import torch
import horovod.torch as hvd

hvd.init()

def made():
    torch.manual_seed(1)
    layers = [layer for _ in range(6) for layer in (torch.nn.Linear(512, 512), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers)

data = torch.randn(BATCH, 512)
of_hvd = made()
of_ddp = torch.nn.parallel.DistributedDataParallel(made())
optimizers = {
    of_hvd: hvd.DistributedOptimizer(torch.optim.SGD(of_hvd.parameters(), lr=0.01), of_hvd.named_parameters()),
    of_ddp: torch.optim.SGD(of_ddp.parameters(), lr=0.01),
}

def samples_per_s(model):
    began_s = time.perf_counter()
    for _ in range(STEPS):
        optimizers[model].zero_grad()
        model(data).square().mean().backward()
        optimizers[model].step()
    return world_size * BATCH * STEPS / (time.perf_counter() - began_s)
"""


def main() -> None:
    """Run the benchmark."""
    with jupyter_ddl.start(n=N, name=f"bench-{os.getpid()}", framework="torch") as session:
        session.run(BEGUN.replace("STEPS", str(STEPS)).replace("BATCH", str(BATCH)))

        def side(model: str) -> float:
            session.run(f"figure = samples_per_s({model})", sample_every_s=None, independent=True)
            figure: float = session.pull("figure", [0])[0]
            return figure

        for model in ("of_hvd", "of_ddp"):
            side(model)
        ours, theirs = interleave(lambda: side("of_hvd"), lambda: side("of_ddp"), PAIRS)
    rows = [Row(f"n={N} hvd.DistributedOptimizer, DDP", ours, theirs, "samples/s")]
    report("horovod_torch", rows, aim=0.98, better="higher")


if __name__ == "__main__":
    main()
