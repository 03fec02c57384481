"""`--timeline` on ranks of PyTorch: torch's own profiler records, and the analysis is that of Horovod's timeline."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from ranks.sizes import slow_but

from jupyter_ddl import cli, paths
from jupyter_ddl.errors import RankError
from jupyter_ddl.timeline.run_files import analyse_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

MODEL = """
import time
import torch
import torch.distributed as dist
if not dist.is_initialized():
    dist.init_process_group("gloo")
torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 1)))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
data = torch.ones(4, 8)

def train(steps, late=-1):
    for step in range(steps):
        if step == late and rank == world_size - 1:
            time.sleep(0.05)
        optimizer.zero_grad()
        model(data).sum().backward()
        optimizer.step()
"""
PARAMETERS = 8 * 16 + 16 + 16 + 1


@pytest.mark.parametrize("n", slow_but((2,), (2, 4)))
def test_a_rank_that_is_late_is_named_with_step_and_tensor(
    n: int, torch_ranks: Callable[[int], Session], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = torch_ranks(n)
    session.run(MODEL)
    # DDP groups its gradients again after the first step.
    without = session.run("train(3)").run
    run = session.run("train(10, late=5)", timeline=True).run
    folder = paths.runs_dir() / run
    assert not list((paths.runs_dir() / without).glob("*trace*"))
    assert sorted(path.name for path in folder.glob("*trace*")) == [f"rank-{one}.torch-trace.json" for one in range(n)]
    found = analyse_run(folder, {}, range(10))
    assert (found.ranks, found.steps, found.knows_ranks, found.recorded_by) == (n, 9, True, "torch.profiler")
    # The first step has no beginning, and is not counted. A busy machine may delay another rank in another step.
    fifth = next(step for step in found.kept if step.number == 4)
    assert fifth.late is not None
    assert (fifth.late.rank, fifth.late.tensor) == (n - 1, f"allreduce 1 [{PARAMETERS}]")
    assert max(fifth.wait_us(one) for one in range(n)) > 40_000
    for one in found.kept:
        assert one.hidden_us + one.exposed_us == pytest.approx(one.exchange_us)
        assert one.collective_us + one.copies_us + one.queue_us == pytest.approx(one.exposed_us)
    assert [(one.bytes, one.count) for one in found.tensors] == [(4 * PARAMETERS, 10)]
    # All ranks' kernels are in one file, on one clock, under their steps.
    target = tmp_path / "perfetto.json"
    assert cli.main(["timeline", run, "--perfetto", str(target)]) == 0
    events = json.loads(target.read_text())
    for one in range(n):
        mine = [event for event in events if event["pid"] == one and event["ph"] == "X"]
        sixth = next(event for event in mine if event["name"] == "step 6")
        within = [event["name"] for event in mine if 0 < event["ts"] - sixth["ts"] < sixth["dur"]]
        assert {"aten::addmm", "gloo:all_reduce"} <= set(within)
    assert cli.main(["timeline", run]) == 0
    told = capsys.readouterr().out
    assert f"9 steps on {n} ranks" in told
    assert "Recorded by torch.profiler" in told


def test_what_the_program_prints_is_all_that_a_recorded_cell_prints(torch_pair: Session) -> None:
    torch_pair.run(MODEL)
    # More than is recorded.
    folder = paths.runs_dir() / torch_pair.run("train(120)\nprint('trained')", timeline=True).run
    assert (folder / "rank-0.log").read_text() == "trained\n"


def test_a_cell_that_raised_leaves_none_and_the_next_is_recorded(torch_pair: Session) -> None:
    torch_pair.run(MODEL)
    with pytest.raises(RankError):
        torch_pair.run("train(2)\nraise ValueError('on all')", timeline=True)
    run = torch_pair.run("train(4)", timeline=True).run
    assert analyse_run(paths.runs_dir() / run, {}).steps == 3


def test_a_cell_whose_collective_has_not_ended_has_none(torch_pair: Session) -> None:
    torch_pair.run(MODEL)
    begun = "train(2)\nif rank == 0:\n    work = dist.all_reduce(torch.ones(1), async_op=True)"
    folder = paths.runs_dir() / torch_pair.run(begun, timeline=True).run
    assert "one has not ended" in (folder / "rank-0.log").read_text()
    assert [path.name for path in folder.glob("*trace*")] == ["rank-1.torch-trace.json"]
    # Ranks that have entered different collectives make their groups again.
    torch_pair.run(MODEL)
    run = torch_pair.run("train(4)", timeline=True).run
    assert analyse_run(paths.runs_dir() / run, {}).steps == 3


def test_a_long_loop_is_recorded_at_its_beginning(torch_pair: Session) -> None:
    torch_pair.run(MODEL)
    torch_pair.run("train(3)")
    run = torch_pair.run("train(220)", timeline=True).run
    assert analyse_run(paths.runs_dir() / run, {}).steps == 99


def test_a_script_is_recorded_from_its_import_of_torch_on(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    begin = "import os\nrank, world_size = (int(os.environ[name]) for name in ('RANK', 'WORLD_SIZE'))\n"
    script.write_text(f"{begin}{MODEL}train(8)\n")
    command = [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", "2", "--timeline", str(script)]
    before = set(paths.runs_dir().iterdir())
    subprocess.run(command, check=True)
    (folder,) = set(paths.runs_dir().iterdir()) - before
    assert analyse_run(folder, {}).steps == 7
