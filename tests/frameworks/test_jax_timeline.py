"""`--timeline` on ranks of JAX: JAX's own profiler records, and the analysis is that of Horovod's timeline."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import jupyter_ddl
from jupyter_ddl import cli, paths
from jupyter_ddl.timeline.run_files import analyse_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = [pytest.mark.mpi, pytest.mark.frameworks]

MODEL = """
import time
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.distributed.initialize()
mesh = Mesh(np.array(jax.devices()), ("d",))
weights = jax.device_put(jnp.ones((64, 64)), NamedSharding(mesh, P()))
rows = jax.make_array_from_process_local_data(NamedSharding(mesh, P("d")), np.ones((8, 64), "float32"))

def loss(weights, rows):
    return jnp.mean((rows @ weights) ** 2)

@jax.jit
def step(weights, rows):
    return weights - 0.01 * jax.grad(loss)(weights, rows)

def train(steps, late=-1):
    global weights
    for number in range(steps):
        if number == late and jax.process_index() == jax.process_count() - 1:
            time.sleep(0.05)
        weights = step(weights, rows).block_until_ready()
"""


@pytest.fixture(scope="module")
def pair() -> Iterator[Session]:
    with jupyter_ddl.start(n=2, name="jax-timeline", framework="none") as session:
        session.run(f"{MODEL}\ntrain(3)")
        yield session


def test_a_rank_that_is_late_is_named_with_step_and_operation(
    pair: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without = pair.run("train(3)").run
    run = pair.run("train(10, late=5)", timeline=True).run
    folder = paths.runs_dir() / run
    assert not list((paths.runs_dir() / without).glob("*trace*"))
    found = analyse_run(folder, {}, range(10))
    assert (found.ranks, found.steps, found.knows_ranks, found.recorded_by) == (2, 9, True, "jax.profiler")
    # The first step has no beginning, and is not counted. A busy machine may delay another rank in another step.
    fifth = next(one for one in found.kept if one.number == 4)
    assert fifth.late is not None
    assert fifth.late.rank == 1
    assert fifth.late.tensor.startswith("all-reduce")
    assert fifth.late.tensor.endswith(" of jit_step")
    assert fifth.wait_us(0) > 40_000
    for one in found.kept:
        assert one.hidden_us + one.exposed_us == pytest.approx(one.exchange_us)
    # Its trace has no sizes.
    assert {one.bytes for one in found.tensors} == {None}
    target = tmp_path / "perfetto.json"
    assert cli.main(["timeline", run, "--perfetto", str(target)]) == 0
    events = json.loads(target.read_text())
    for rank in (0, 1):
        names = {event["name"] for event in events if event["pid"] == rank}
        assert any(name.startswith("all-reduce") for name in names)
    assert cli.main(["timeline", run]) == 0
    assert "Recorded by jax.profiler" in capsys.readouterr().out


def test_a_script_is_recorded_from_its_initialize_on(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"{MODEL}train(8)\n")
    before = set(paths.runs_dir().iterdir())
    subprocess.run([sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", "2", "--timeline", str(script)], check=True)
    (folder,) = set(paths.runs_dir().iterdir()) - before
    assert analyse_run(folder, {}).steps == 7
