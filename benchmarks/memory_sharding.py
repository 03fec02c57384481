"""Adam's state sharded over two ranks, beside whole on each: a rank's state in bytes, and the time of training steps.

Aims: half of the state on each rank, to 5 %; steps at most 10 % longer.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import jupyter_ddl
from benchmarks.harness import Row, interleave, report
from jupyter_ddl.protocol.cell_options import AutoOptions
from jupyter_ddl.protocol.memory_options import parsed

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

RANKS, STEPS, BATCH = 2, 10, 64
PAIRS = 7
MODELS = {"1.1 M weights": 512, "3.7 M weights": 1024}
TIME_AIM, STATE_AIM = 1.10, 1.05 / RANKS
PREPARE = f"""
import time, keras, numpy as np
from jupyter_ddl.training.optimizer.learning_rate import inner
x = np.random.default_rng(0).normal(size=({STEPS * BATCH}, 512)).astype('float32')
def made(width):
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Dense(width, activation='relu') for _ in range(4)]
    model = keras.Sequential([keras.Input((512,)), *layers, keras.layers.Dense(1)])
    model.compile('adam', 'mse')
    return model
models = {{}}
def train(side, width):
    model = models.setdefault((side, width), None) or made(width)
    models[side, width] = model
    began = time.perf_counter()
    model.fit(x, x[:, :1], batch_size={BATCH}, shuffle=False, verbose=0)
    seconds = time.perf_counter() - began
    state = sum(v.numpy().nbytes for v in inner(model.optimizer).variables if len(v.shape))
    return seconds, state
"""


def trained(session: Session, side: str, width: int) -> tuple[float, float]:
    """Train some steps; return the seconds and the bytes of state of the rank that has the most of it."""
    memory: Any = parsed("shard-optimizer") if side == "sharded" else None
    session.run(
        f"found = train({side!r}, {width})", auto=AutoOptions(batch="global"), memory=memory, sample_every_s=None
    )
    found = session.pull("found").values()
    return max(seconds for seconds, _ in found), max(state for _, state in found)


def main() -> int:
    """Measure both models."""
    session = jupyter_ddl.start(n=RANKS, name="memory-sharding")
    rows = []
    try:
        session.run(PREPARE)
        for name, width in MODELS.items():
            state = {side: trained(session, side, width)[1] for side in ("sharded", "whole")}
            ours, theirs = interleave(
                lambda width=width: trained(session, "sharded", width)[0],  # type: ignore[misc]
                lambda width=width: trained(session, "whole", width)[0],  # type: ignore[misc]
                PAIRS,
            )
            rows += [
                Row(f"{name}: {STEPS} steps", ours, theirs, "s", TIME_AIM),
                Row(f"{name}: state", (state["sharded"],), (state["whole"],), "bytes", STATE_AIM),
            ]
    finally:
        session.stop()
    return 0 if report("memory_sharding", rows, 1.0, "lower") else 1


if __name__ == "__main__":
    sys.exit(main())
