"""`--checkpoint` of loops of PyTorch's: a resumed one ends as one that was not cut off; a save is whole or absent."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl.errors import ClusterLost, RankError
from jupyter_ddl.protocol.cell_options import AutoOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

# What a program draws without a seed, as the split and the dropout, must be the same again.
DATA = """
import os, torch, torch.distributed as dist, jupyter_ddl.torch
dist.is_initialized() and dist.destroy_process_group()
dist.init_process_group()
inputs = torch.linspace(-1, 1, 256, dtype=torch.float64).reshape(64, 4)
data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
train, _ = torch.utils.data.random_split(data, [48, 16], torch.Generator().manual_seed(torch.initial_seed()))
layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1)).double()
"""
WRAPPED = {
    "ddp": "model = torch.nn.parallel.DistributedDataParallel(layers)",
    "fsdp2": "from torch.distributed.fsdp import fully_shard\nfully_shard(layers)\nmodel = layers",
}
LOOP = """
optimizer = torch.optim.Adam(model.parameters(), 0.01)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3], 0.5)
sampler = torch.utils.data.DistributedSampler(train)
loader = torch.utils.data.DataLoader(train, batch_size=8, sampler=sampler)
seen = []
for epoch in jupyter_ddl.torch.epochs(4, model=model, optimizer=optimizer, schedule=schedule):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    schedule.step()
    seen.append(epoch)
    if epoch == cut_off_in and rank == 1:
        raise ValueError("cut off")
"""
WEIGHTS = """
from torch.distributed.tensor import DTensor
whole = [one.full_tensor() if isinstance(one, DTensor) else one for one in model.parameters()]
weights = torch.cat([one.detach().reshape(-1) for one in whole]).tolist()
"""
AUTO_LOOP = """
import torch, jupyter_ddl.torch
inputs = torch.linspace(-1, 1, 256, dtype=torch.float64).reshape(64, 4)
data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1)).double()
optimizer = torch.optim.Adam(model.parameters(), 0.01)
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
seen = []
for epoch in jupyter_ddl.torch.epochs(4, model=model, optimizer=optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    seen.append(epoch)
    if epoch == cut_off_in and rank == 1:
        raise ValueError("cut off")
"""


def trained(session: Session, program: str, folder: Path, cut_off_in: int | None = None, **options: Any) -> Any:
    """Return the weights of rank 0, and the epochs that it trained; None where the training is cut off."""
    session.run(f"cut_off_in = {cut_off_in}")
    if cut_off_in is not None:
        with pytest.raises(RankError, match="cut off"):
            session.run(program + WEIGHTS, checkpoint=folder, **options)
        return None
    session.run(program + WEIGHTS, checkpoint=folder, **options)
    return session.pull("weights", [0])[0], session.pull("seen", [0])[0]


def seed(session: Session, number: int) -> None:
    session.run(f"import torch; torch.manual_seed({number} + rank)")


@pytest.mark.parametrize("how", [*WRAPPED, "auto"])
def test_a_resumed_training_ends_as_one_that_was_not_cut_off(torch_pair: Session, tmp_path: Path, how: str) -> None:
    program = AUTO_LOOP if how == "auto" else DATA + WRAPPED[how] + LOOP
    options: dict[str, Any] = {"auto": AutoOptions(batch="global")} if how == "auto" else {}
    if how == "auto":
        torch_pair.run("import torch.distributed as dist\ndist.is_initialized() and dist.destroy_process_group()")
    seed(torch_pair, 5)
    expected, seen = trained(torch_pair, program, tmp_path / "whole", **options)
    assert seen == [0, 1, 2, 3]
    seed(torch_pair, 5)
    trained(torch_pair, program, tmp_path / "parts", cut_off_in=1, **options)
    assert [path.name for path in (tmp_path / "parts" / "loop-1").iterdir()] == ["epoch-1"]
    seed(torch_pair, 99)  # what a program draws is that of the cell that was cut off
    weights, seen = trained(torch_pair, program, tmp_path / "parts", **options)
    assert seen == [1, 2, 3]
    assert weights == pytest.approx(expected, rel=1e-10, abs=1e-12)
    assert sorted(path.name for path in (tmp_path / "parts" / "loop-1").iterdir()) == ["epoch-3", "epoch-4"]
    # A loop that has ended takes its end from there.
    assert trained(torch_pair, program, tmp_path / "parts", **options) == (weights, [])


@pytest.mark.slow
@pytest.mark.parametrize("before_and_after", [(2, 1), (1, 2), (2, 4)])
def test_sharded_weights_are_resumed_on_another_number_of_ranks(
    torch_ranks: Callable[[int], Session], tmp_path: Path, before_and_after: tuple[int, int]
) -> None:
    before, after = (torch_ranks(n) for n in before_and_after)
    program = DATA + WRAPPED["fsdp2"] + LOOP
    saved, _ = trained(before, program, tmp_path)
    weights, seen = trained(after, program, tmp_path)
    assert seen == []
    assert weights == saved
    result = after.run(program.replace("epochs(4", "epochs(6"), checkpoint=tmp_path)
    assert "which another number of ranks saved" in result.ranks[0].stdout
    assert after.pull("seen", [0])[0] == [4, 5]


def test_a_checkpoint_of_another_model_is_one_clear_error(torch_pair: Session, tmp_path: Path) -> None:
    program = DATA + WRAPPED["ddp"] + LOOP
    trained(torch_pair, program, tmp_path)
    with pytest.raises(RankError, match=r"that it is of\. Received: .*loop-1/epoch-4, which differs in model\.model\."):
        torch_pair.run(program.replace("Linear(4, 8)", "Linear(4, 8, bias=False)"), checkpoint=tmp_path)


def test_one_of_another_user_is_not_read(torch_pair: Session, tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a file to another user")
    program = DATA + WRAPPED["ddp"] + LOOP
    trained(torch_pair, program, tmp_path)
    os.chown(tmp_path / "loop-1" / "epoch-4" / ".metadata", 65534, 65534)
    with pytest.raises(RankError, match="reading it can run code"):
        torch_pair.run(program, checkpoint=tmp_path)


DISK_FULL = """
import errno
from torch.distributed.checkpoint import FileSystemWriter
stock_write = FileSystemWriter.write_data

def full(self, plan, planner):
    if "epoch-3" in str(self.path) and rank == 1:
        raise OSError(errno.ENOSPC, "No space left on device")
    return stock_write(self, plan, planner)

FileSystemWriter.write_data = full
"""


def test_a_save_that_fails_is_a_warning_and_the_one_before_stays(torch_pair: Session, tmp_path: Path) -> None:
    program = DATA + WRAPPED["ddp"] + LOOP
    torch_pair.run(DISK_FULL)
    try:
        result = torch_pair.run("cut_off_in = None\n" + program.replace("epochs(4", "epochs(3"), checkpoint=tmp_path)
    finally:
        torch_pair.run("FileSystemWriter.write_data = stock_write")
    assert "WARNING: epoch 3 is not saved in" in result.ranks[0].stderr
    assert "No space left on device" in result.ranks[0].stderr
    names = sorted(path.name for path in (tmp_path / "loop-1").iterdir())
    assert [name for name in names if not name.startswith(".")] == ["epoch-1", "epoch-2"]
    _, seen = trained(torch_pair, program, tmp_path)
    assert seen == [2, 3]
    assert sorted(path.name for path in (tmp_path / "loop-1").iterdir()) == ["epoch-3", "epoch-4"]


KILLED = DISK_FULL.replace('raise OSError(errno.ENOSPC, "No space left on device")', "os.kill(os.getpid(), 9)")


@pytest.mark.slow
def test_a_rank_that_is_killed_in_a_save_leaves_the_one_before(
    torch_ranks: Callable[[int], Session], tmp_path: Path
) -> None:
    session = torch_ranks(2)
    program = DATA + WRAPPED["ddp"] + LOOP
    session.run(KILLED + "cut_off_in = None")
    with pytest.raises(ClusterLost):
        session.run(program, checkpoint=tmp_path)
    names = [path.name for path in (tmp_path / "loop-1").iterdir() if not path.name.startswith(".")]
    assert sorted(names) == ["epoch-1", "epoch-2"]
    _, seen = trained(torch_ranks(2), program, tmp_path)
    assert seen == [2, 3]


def test_a_loop_that_is_not_saved_is_warned_of(torch_pair: Session, tmp_path: Path) -> None:
    program = DATA + WRAPPED["ddp"] + LOOP.replace("jupyter_ddl.torch.epochs(4,", "jupyter_ddl_epochs(4,")
    named = "cut_off_in = None\njupyter_ddl_epochs = lambda count, **_: range(count)\n"
    result = torch_pair.run(named + program, checkpoint=tmp_path)
    assert result.ranks[0].stderr.count("WARNING: --checkpoint saves nothing of this loop.") == 1
    assert not list(tmp_path.iterdir())


def test_without_a_folder_it_is_a_range(torch_pair: Session) -> None:
    torch_pair.run("cut_off_in = None\n" + DATA + WRAPPED["ddp"] + LOOP)
    assert torch_pair.pull("seen", [0])[0] == [0, 1, 2, 3]
    with pytest.raises(RankError, match="A checkpoint is of a model"):
        torch_pair.run("jupyter_ddl.torch.epochs(3)")
    with pytest.raises(RankError, match=r"state_dict and load_state_dict\. Received: lr=float"):
        torch_pair.run("jupyter_ddl.torch.epochs(3, model=model, lr=0.1)")
    with pytest.raises(RankError, match="every is a number from 1 on"):
        torch_pair.run("jupyter_ddl.torch.epochs(3, model=model, every=0)")


def test_ranks_that_do_not_train_together_are_refused(torch_pair: Session, tmp_path: Path) -> None:
    torch_pair.run("import torch.distributed as dist\ndist.is_initialized() and dist.destroy_process_group()")
    with pytest.raises(RankError, match="2 ranks without a process group"):
        torch_pair.run("import jupyter_ddl.torch\njupyter_ddl.torch.epochs(3, model=layers)", checkpoint=tmp_path)


SCRIPT = """
import sys, torch, torch.distributed as dist, jupyter_ddl.torch
dist.init_process_group()
layers = torch.nn.Linear(4, 1)
model = torch.nn.parallel.DistributedDataParallel(layers)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in jupyter_ddl.torch.epochs(3, model=model, optimizer=optimizer):
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
    print("trained", epoch, flush=True)
    if epoch == 1 and "whole" not in sys.argv:
        raise ValueError("cut off")
"""


def test_a_script_is_saved_and_resumed(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", "2", "--checkpoint", str(tmp_path / "saved")]
    cut_off, whole = (
        subprocess.run([*command, str(script), *words], capture_output=True, text=True, check=False)
        for words in ([], ["whole"])
    )
    assert "cut off" in cut_off.stderr
    assert (whole.returncode, "resumes after epoch 1 of 3" in whole.stdout) == (0, True), whole.stderr
    assert [number for number in range(3) if f"trained {number}" in whole.stdout] == [1, 2]
