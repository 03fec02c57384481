"""`--auto --memory shard-all`: a loop of PyTorch's written for one process, its model sharded over the ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import sharded_loop
from jupyter_ddl.errors import RankError
from jupyter_ddl.protocol.cell_options import AutoOptions
from jupyter_ddl.protocol.memory_options import MemoryOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

GLOBAL = AutoOptions(batch="global")
SHARDED = MemoryOptions(shard_all=True)
# In float64, so that only the order of the sums could differ. 103 rows are 6 batches of 16, and one of 7.
BEGIN = """
import torch
torch.manual_seed(3)
inputs = torch.randn(103, 4, dtype=torch.float64)
targets = inputs.sum(1, keepdim=True) + 0.1 * torch.randn(103, 1, dtype=torch.float64)
data = torch.utils.data.TensorDataset(inputs, targets)
loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
"""
MODEL = """
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
"""
ADAM = """
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
"""
LOOP = """
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
"""
END = """
with torch.no_grad():
    predicted = model(inputs).flatten().tolist()
weights = torch.cat([one.detach().reshape(-1) for one in model.state_dict().values()]).tolist()
"""
CLIPPED = LOOP.replace(
    "        optimizer.step()",
    "        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n        optimizer.step()",
)
PROGRAMS = {
    "as it is": MODEL + ADAM + LOOP,
    "momentum, a schedule, and clipped gradients": MODEL
    + """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
"""
    + CLIPPED
    + "    schedule.step()\n",
    "two batches a step": MODEL
    + ADAM
    + """
for i, (x, y) in enumerate(loader):
    (torch.nn.functional.mse_loss(model(x), y) / 2).backward()
    if i % 2:
        optimizer.step()
        optimizer.zero_grad()
""",
    "two models, each with its optimizer": MODEL
    + """
head = torch.nn.Linear(1, 1).double()
ends = torch.optim.SGD(head.parameters(), lr=0.05)
starts = torch.optim.AdamW(model.parameters(), lr=0.01)
for x, y in loader:
    for one in (ends, starts):
        one.zero_grad()
        torch.nn.functional.mse_loss(head(model(x)), y).backward()
        one.step()
model = torch.nn.Sequential(model, head)
""",
    "weights that two layers share, and frozen ones": """
class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.frozen = torch.nn.Linear(4, 8)
        self.one = torch.nn.Linear(8, 8)
        self.two = torch.nn.Linear(8, 8)
        self.two.weight = self.one.weight
        self.last = torch.nn.Linear(8, 1)
        self.register_buffer("shift", torch.randn(8))
    def forward(self, x):
        x = self.frozen(x).tanh() + self.shift
        return self.last(self.two(self.one(x).tanh()).tanh())
model = Tied().double()
model.frozen.requires_grad_(False)
optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=0.01)
"""
    + LOOP,
    "a transformer": """
class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.begin, self.end = torch.nn.Linear(1, 8), torch.nn.Linear(8, 1)
        self.encoder = torch.nn.TransformerEncoder(layer, 3)
    def forward(self, x):
        return self.end(self.encoder(self.begin(x[..., None])).mean(1))
model = Reader().double()
"""
    + ADAM
    + LOOP
    + "model.eval()\n",
    "evaluated first": MODEL + ADAM + "with torch.inference_mode():\n    model(inputs)\n" + LOOP,
    "compiled": MODEL + ADAM + "model = torch.compile(model, backend='eager')\n" + LOOP,
    "saved, and loaded into a model that is sharded": MODEL
    + ADAM
    + LOOP
    + """
saved = model.state_dict(), optimizer.state_dict()
kinds = {type(one) for one in saved[0].values()} | {type(one) for one in saved[1]["state"][0].values()}
assert kinds == {torch.Tensor}, kinds
torch.manual_seed(8)"""
    + MODEL
    + ADAM
    + """
for x, y in loader:
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
model.load_state_dict(saved[0])
optimizer.load_state_dict(saved[1])
torch.manual_seed(9)
"""
    + LOOP,
    "loaded before it is sharded": MODEL
    + ADAM
    + LOOP
    + """
saved = model.state_dict(), optimizer.state_dict()
torch.manual_seed(8)"""
    + MODEL
    + ADAM
    + """
model.load_state_dict(saved[0])
optimizer.load_state_dict(saved[1])
torch.manual_seed(9)
"""
    + LOOP,
}


def in_one_process(program: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(BEGIN + program + END, names)
    return names


@pytest.fixture
def pair(torch_ranks: Callable[[int], Session]) -> Session:
    return torch_ranks(2)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_weights_are_those_of_one_process(pair: Session, program: str) -> None:
    expected = in_one_process(PROGRAMS[program])
    pair.run(BEGIN + PROGRAMS[program] + END, auto=GLOBAL, memory=SHARDED, timeout_s=120)
    for name in ("weights", "predicted"):
        for found in pair.pull(name).values():
            assert found == pytest.approx(expected[name], abs=1e-10)


def test_a_rank_has_half_of_weights_and_state_and_the_plan_says_so(pair: Session) -> None:
    count = """
parts = [*model.parameters(), *(one for state in optimizer.state.values() for one in state.values() if one.ndim)]
held = sum(one.to_local().numel() for one in parts), sum(one.numel() for one in parts)
"""
    result = pair.run(BEGIN + MODEL + ADAM + LOOP + count, auto=GLOBAL, memory=SHARDED, timeout_s=60)
    # 97 weights, and Adam's two moments: rank 0's part of the last layer's single row is all of it.
    assert pair.pull("held") == {0: (3 * 57, 3 * 97), 1: (3 * 40, 3 * 97)}
    plan = "  memory         each rank keeps its part of weights, gradients and the optimizer's state\n"
    assert plan in result.ranks[0].stdout
    assert "had no effect" not in result.ranks[0].stderr


def test_a_released_cell_ends_the_models_group_and_not_its_weights(pair: Session) -> None:
    fails = LOOP.replace("in loader:", "in loader:\n        if rank == 1 and epoch == 1: raise ValueError('broken')")
    with pytest.raises(RankError, match=r"Rank 1 of 2 .* ValueError: broken"):
        pair.run(BEGIN + MODEL + ADAM + fails, auto=GLOBAL, memory=SHARDED, timeout_s=60)
    with pytest.raises(RankError, match=r"a call of FSDPSequential, whose group has ended\. Take saved ="):
        pair.run(LOOP, auto=GLOBAL, memory=SHARDED, timeout_s=60)
    again = "saved = model.state_dict(), optimizer.state_dict()\n" + MODEL + ADAM
    again += "model.load_state_dict(saved[0]); optimizer.load_state_dict(saved[1])\n" + END
    pair.run(again, auto=GLOBAL, memory=SHARDED, timeout_s=60)
    expected = in_one_process(MODEL + ADAM + LOOP.replace("range(2)", "range(1)"))
    for name in ("weights", "predicted"):
        assert pair.pull(name)[1] == pytest.approx(expected[name], abs=1e-10)
    pair.run("torch.manual_seed(4)\n" + LOOP + END, auto=GLOBAL, memory=SHARDED, timeout_s=60)
    two = MODEL + ADAM + LOOP.replace("range(2)", "range(1)") + "torch.manual_seed(4)\n" + LOOP
    assert pair.pull("weights")[0] == pytest.approx(in_one_process(two)["weights"], abs=1e-10)


def test_weights_that_are_read_past_their_module_are_refused(pair: Session) -> None:
    reads = LOOP.replace("model(x)", "torch.nn.functional.linear(x, *[*model.parameters()][:2]).mean(1, keepdim=True)")
    with pytest.raises(RankError, match=r"a step on a parameter \[16, 4\] whose module was not called, but read"):
        pair.run(BEGIN + MODEL + ADAM + reads, auto=GLOBAL, memory=SHARDED, timeout_s=60)


def test_an_exchange_that_sums_is_refused(pair: Session) -> None:
    """As torch 2.7.0's FSDP2 on gloo does."""
    sums = """
from jupyter_ddl.memory import sharded_models
stock = sharded_models.fully_shard
def fully_shard(module, mesh):
    stock(module, mesh=mesh)
    module.register_forward_hook(lambda module, given, output: output * 2)
sharded_models.fully_shard = fully_shard
"""
    with pytest.raises(RankError, match=r"torch .*, which makes 2 of 1 on each of 2 ranks"):
        pair.run(BEGIN + MODEL + ADAM + sums + LOOP, auto=GLOBAL, memory=SHARDED, timeout_s=60)
    pair.run("sharded_models.fully_shard = stock")


def test_a_cell_that_trains_no_loop_says_so(pair: Session) -> None:
    note = "NOTE: --memory shard-all had no effect: it acts on models of PyTorch's in loops that --auto distributes"
    assert note in pair.run("pass", auto=GLOBAL, memory=SHARDED).ranks[0].stderr


@pytest.mark.parametrize(("memory", "status"), [((), 1), (("--memory", "shard-all"), 0)])
def test_a_model_that_dies_of_memory_trains_sharded(tmp_path: Path, memory: tuple[str, ...], status: int) -> None:
    """In 1,000 MiB of address space beyond the start, with a malloc that gives back what is freed."""
    program = Path(sharded_loop.__file__).with_name("sharded_loop_program.py")
    command = [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", "2", "--auto", "--batch", "global", *memory]
    ran = subprocess.run(
        [*command, program, tmp_path, "1000"],
        env=os.environ | sharded_loop.GIVEN_BACK,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == status, ran.stderr
    assert ("can't allocate memory" in ran.stderr) == (status == 1), ran.stderr
    assert len(list(tmp_path.glob("*.json"))) == (0 if status else 2)


RESUMED = """
import torch, jupyter_ddl.torch
inputs = torch.linspace(-1, 1, 256, dtype=torch.float64).reshape(64, 4)
data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
optimizer = torch.optim.Adam(model.parameters(), 0.01)
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
seen = []
def whole():
    return torch.cat([one.detach().reshape(-1) for one in model.state_dict().values()]).tolist()
for epoch in jupyter_ddl.torch.epochs(count, model=model, optimizer=optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    seen.append(epoch)
    if epoch == 0:
        first = whole()
    if epoch == cut_off_in and rank == 1:
        raise ValueError("cut off")
weights = whole()
"""


def test_a_training_is_resumed_also_on_another_number_of_ranks(
    torch_ranks: Callable[[int], Session], pair: Session, tmp_path: Path
) -> None:
    def train(session: Session, folder: str, cut_off_in: int, count: int = 4) -> None:
        session.run(f"import torch; torch.manual_seed(5); cut_off_in, count = {cut_off_in}, {count}")
        where = str(tmp_path / folder)
        session.run(RESUMED, auto=GLOBAL, memory=SHARDED, checkpoint=where, timeout_s=90)

    train(pair, "whole", -1)
    expected = pair.pull("weights")[0]
    with pytest.raises(RankError, match="cut off"):
        train(pair, "cut", 1)
    train(pair, "cut", -1)
    assert pair.pull("seen") == {0: [1, 2, 3], 1: [1, 2, 3]}
    assert pair.pull("weights")[1] == pytest.approx(expected, abs=1e-10)
    with pytest.raises(RankError, match="cut off"):
        train(pair, "fewer", 1)
    one = torch_ranks(1)
    train(one, "fewer", -1, 1)
    assert one.pull("seen") == {0: []}
    assert one.pull("weights")[0] == pytest.approx(pair.pull("first")[0], abs=1e-12)


@pytest.mark.parametrize(("saved", "resumed"), [(2, 3), pytest.param(3, 2, marks=pytest.mark.slow)])
def test_a_training_that_is_resumed_on_another_number_of_ranks_trains_on_the_same(
    torch_ranks: Callable[[int], Session], pair: Session, tmp_path: Path, saved: int, resumed: int
) -> None:
    # What is drawn after it was resumed, as a shuffled order, is new on another number of ranks.
    program = RESUMED.replace("shuffle=True", "shuffle=False")

    def train(session: Session, folder: str, cut_off_in: int) -> None:
        session.run(f"import torch; torch.manual_seed(5); cut_off_in, count = {cut_off_in}, 4")
        session.run(program, auto=GLOBAL, memory=SHARDED, checkpoint=str(tmp_path / folder), timeout_s=90)

    train(pair, "whole", -1)
    expected = pair.pull("weights")[0]
    with pytest.raises(RankError, match="cut off"):
        train(torch_ranks(saved), "cut", 1)
    others = torch_ranks(resumed)
    train(others, "cut", -1)
    assert set(map(tuple, others.pull("seen").values())) == {(1, 2, 3)}
    for weights in others.pull("weights").values():
        assert weights == pytest.approx(expected, abs=1e-10)
