"""What `--timeline` costs: images a second of a cell that is recorded, against one that is not.

A model of few tensors and one of many, since Horovod writes some lines for each tensor of each step, and negotiates
each one again. Both sides run in turns on the same two ranks; only steps are timed. `--framework torch` has PyTorch's,
where torch's profiler records the first 100 steps: `recorded` are 75 of these, and `long` is 2,000.
`--framework jax` has JAX's, whose profiler records all steps of either row: it records 20 seconds.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import TYPE_CHECKING

import jupyter_ddl
from benchmarks.harness import PAIRS, Row, interleave, report

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

N = 2
STEPS = 300
LAYERS = {"12 tensors": 6, "120 tensors": 60}
MODEL = """
import time
import jupyter_ddl.keras as hvd
import keras
import numpy as np

hvd.init()
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.layers.Dense(256, "relu") for _ in range({layers} - 1)] + [keras.layers.Dense(10)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.001)), "mse")
images, targets = np.ones((64 * {steps}, 256), "float32"), np.ones((64 * {steps}, 10), "float32")
model.fit(images[:640], targets[:640], batch_size=64, verbose=0)
"""
TRAIN = """
began_s = time.perf_counter()
model.fit(images, targets, batch_size=64, verbose=0)
images_per_s = world_size * len(images) / (time.perf_counter() - began_s)
"""

LOOP_STEPS = {"torch": {"recorded": 75, "long": 2_000}, "jax": {"few": 150, "many": 1_500}}
TORCH_MODEL = """
import time
import torch
import torch.distributed as dist

dist.is_initialized() or dist.init_process_group("gloo")
torch.manual_seed(1)
layers = [torch.nn.Linear(256, 256) for _ in range(5)]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers, torch.nn.Linear(256, 10)))
optimizer = torch.optim.SGD(model.parameters(), 0.001)
images = torch.ones(64, 256)

def train(steps):
    began_s = time.perf_counter()
    for _ in range(steps):
        optimizer.zero_grad()
        model(images).sum().backward()
        optimizer.step()
    return world_size * steps * len(images) / (time.perf_counter() - began_s)

train(20)
"""
# The same model and batch.
JAX_MODEL = """
import time
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.distributed.is_initialized() or jax.distributed.initialize()
mesh = Mesh(np.array(jax.devices()), ("d",))
weights = [jax.device_put(jnp.full((256, wide), 0.01), NamedSharding(mesh, P())) for wide in [256] * 5 + [10]]
local = np.ones((64, 256), "float32")
images = jax.make_array_from_process_local_data(NamedSharding(mesh, P("d")), local)

def loss(weights, values):
    for weight in weights:
        values = values @ weight
    return values.sum()

@jax.jit
def step(weights, images):
    return jax.tree.map(lambda weight, change: weight - 1e-9 * change, weights, jax.grad(loss)(weights, images))

def train(steps):
    global weights
    began_s = time.perf_counter()
    for _ in range(steps):
        weights = jax.block_until_ready(step(weights, images))
    return world_size * steps * len(local) / (time.perf_counter() - began_s)

train(20)
"""
LOOPS = {"torch": TORCH_MODEL, "jax": JAX_MODEL}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", choices=["tensorflow", *LOOPS], default="tensorflow")
    framework = parser.parse_args().framework
    rows = of_horovod() if framework == "tensorflow" else of_loop(framework)
    report("timeline", rows, aim=1 / 1.03, better="higher")


def of_loop(framework: str) -> list[Row]:
    """Measure the loop of a framework that has no `fit`."""
    rows = []
    with jupyter_ddl.start(n=N, name=f"bench-{os.getpid()}", framework=framework) as session:
        session.run(LOOPS[framework])
        for name, steps in LOOP_STEPS[framework].items():
            trained = partial(images_per_s, session, f"images_per_s = train({steps})")
            trained(on=True)
            on, off = interleave(partial(trained, on=True), partial(trained, on=False), PAIRS)
            rows.append(Row(f"n={N} {framework}, {steps} steps, {name}", on, off, "images/s"))
    return rows


def of_horovod() -> list[Row]:
    """Measure Keras's fit."""
    rows = []
    with jupyter_ddl.start(n=N, name=f"bench-{os.getpid()}") as session:
        for name, layers in LAYERS.items():
            session.run(MODEL.format(layers=layers, steps=STEPS))
            trained = partial(images_per_s, session, TRAIN)
            trained(on=True)
            on, off = interleave(partial(trained, on=True), partial(trained, on=False), PAIRS)
            rows.append(Row(f"n={N} {name}, recorded and not", on, off, "images/s"))
    return rows


def images_per_s(session: Session, code: str, *, on: bool) -> float:
    """Train once; return rank 0's figure."""
    session.run(code, timeline=on)
    value: float = session.pull("images_per_s", [0])[0]
    return value


if __name__ == "__main__":
    main()
