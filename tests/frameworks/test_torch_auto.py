"""Loops of PyTorch's that were written for one process, under --auto: the model is the one that one process trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl.errors import RankError
from jupyter_ddl.protocol.cell_options import AutoOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

GLOBAL = AutoOptions(batch="global")
# In float64, so that only the order of the sums could differ. 103 rows are 6 batches of 16, and one of 7.
BEGIN = """
import torch
torch.manual_seed(3)
inputs = torch.randn(103, 4, dtype=torch.float64)
targets = inputs.sum(1, keepdim=True) + 0.1 * torch.randn(103, 1, dtype=torch.float64)
data = torch.utils.data.TensorDataset(inputs, targets)
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
steps = 0
"""
END = """
with torch.no_grad():
    rows = sum(len(x) for x, _ in loader)
weights = torch.cat([one.detach().reshape(-1) for one in model.parameters()]).tolist()
"""
STEP = """
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        steps += 1
"""
LOOP = f"""
for epoch in range(2):
    for x, y in loader:{STEP}"""
PROGRAMS = {
    "as it is": LOOP,
    "adam, and a schedule": """
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
"""
    + LOOP
    + "    schedule.step()\n",
    "gradients clipped": LOOP.replace(
        "        optimizer.step()",
        "        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n        optimizer.step()",
    ),
    "two batches a step": """
for i, (x, y) in enumerate(loader):
    (torch.nn.functional.mse_loss(model(x), y) / 2).backward()
    if i % 2:
        optimizer.step()
        optimizer.zero_grad()
""",
    "two optimizers": """
ends = torch.optim.SGD(model[2].parameters(), lr=0.05)
starts = torch.optim.Adam(model[0].parameters(), lr=0.01)
for x, y in loader:
    for one in (ends, starts):
        one.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        one.step()
""",
    "a branch that few rows take": """
extra = torch.nn.Linear(4, 1).double()
torch.nn.init.zeros_(extra.weight)
optimizer.add_param_group({"params": extra.parameters()})
model.append(torch.nn.Identity())
for x, y in loader:
    optimizer.zero_grad()
    kept = x[:, 0] > 1.2
    total = (model(x) - y).square()
    if kept.any():
        total = total + torch.zeros_like(total).masked_scatter(kept[:, None], extra(x[kept]).square())
    total.mean().backward()
    optimizer.step()
weights_of_extra = extra.weight.tolist()
""",
    "workers": "loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True, num_workers=2)" + LOOP,
    "a last batch of one row": "loader = torch.utils.data.DataLoader(data, batch_size=34)" + LOOP,
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
    pair.run(BEGIN + PROGRAMS[program] + END, auto=GLOBAL, timeout_s=120)
    for weights in pair.pull("weights").values():
        assert weights == pytest.approx(expected["weights"], abs=1e-12)
    if "weights_of_extra" in expected:
        assert pair.pull("weights_of_extra")[0][0] == pytest.approx(expected["weights_of_extra"][0], abs=1e-12)
    assert pair.pull("rows") == {0: 103, 1: 103}
    assert pair.pull("steps")[0] == expected["steps"]


def test_each_rank_takes_whole_batches_where_nothing_is_said(pair: Session) -> None:
    """As --auto does elsewhere: the batch is a rank's, so the step's is twice that, and the rate of SGD is doubled."""
    twice = BEGIN.replace("batch_size=16", "batch_size=32").replace("lr=0.1", "lr=0.2")
    names: dict[str, Any] = {}
    exec(twice + LOOP + END, names)
    result = pair.run(BEGIN + LOOP + "length = len(loader)" + END, auto=AutoOptions(), timeout_s=60)
    for weights in pair.pull("weights").values():
        assert weights == pytest.approx(names["weights"], abs=1e-12)
    assert pair.pull("steps") == {0: 8, 1: 8}
    assert pair.pull("length") == {0: 4, 1: 4}
    assert "  learning rate  0.1 -> 0.2 (linear)\n" in result.ranks[0].stdout
    assert result.ranks[1].stdout == ""


def test_a_rank_that_raises_releases_the_other_and_the_next_cell_trains_on(pair: Session) -> None:
    pair.run(BEGIN, auto=GLOBAL)
    fails = LOOP.replace("in loader:", "in loader:\n        if rank == 1 and steps == 2: raise ValueError('broken')")
    with pytest.raises(RankError, match=r"Rank 1 of 2 .* ValueError: broken"):
        pair.run(fails, auto=GLOBAL, timeout_s=60)
    pair.run(LOOP + END, auto=GLOBAL, timeout_s=60)
    first, second = pair.pull("weights").values()
    assert first == second


def test_an_optimizer_from_a_cell_without_auto_is_refused(pair: Session) -> None:
    pair.run(BEGIN)
    with pytest.raises(RankError, match="InvalidInput: Under --auto the optimizer must be made in a cell with --auto"):
        pair.run(LOOP, auto=GLOBAL)


def test_an_order_that_differs_between_ranks_is_refused(pair: Session) -> None:
    own = "generator = torch.Generator(); generator.manual_seed(rank)\n"
    own += "loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True, generator=generator)\n"
    with pytest.raises(RankError, match="Under --auto every rank must draw the same batches"):
        pair.run(BEGIN + own + LOOP, auto=GLOBAL)


def test_an_iterable_dataset_is_refused(pair: Session) -> None:
    own = """
class Rows(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(data)
loader = torch.utils.data.DataLoader(Rows(), batch_size=16)
"""
    with pytest.raises(RankError, match="--auto divides batches of rows that have an index"):
        pair.run(BEGIN + own + LOOP, auto=GLOBAL)


def test_a_program_with_a_group_of_its_own_is_left_alone(pair: Session) -> None:
    own = "import torch.distributed as dist\ndist.init_process_group()\nlength = len(list(loader))"
    result = pair.run(BEGIN.partition("optimizer =")[0] + own, auto=GLOBAL)
    assert pair.pull("length") == {0: 7, 1: 7}
    assert result.ranks[0].stdout == ""
    # In the next cell that group is there, and the cell is distributed by it.
    pair.run(BEGIN + LOOP + END, auto=GLOBAL)
    assert pair.pull("weights")[1] == pytest.approx(in_one_process(LOOP)["weights"], abs=1e-12)
    assert pair.run("sum(len(x) for x, _ in loader)", auto=GLOBAL).ranks[1].value == "51"


def test_a_file_that_every_rank_saves_is_whole(pair: Session, tmp_path: Path) -> None:
    """Also one that a rank reads while others write it: 200 times, with ranks that are not in step."""
    saved = f"""
from pathlib import Path
path = Path({str(tmp_path / "model.pt")!r})
for i in range(200):
    torch.save(dict(i=i, weights=torch.full((1 << 14,), i)), path if i % 2 else str(path))
    found = torch.load(path)
    assert bool((found["weights"] == found["i"]).all())
torch.save(model, "/dev/null")
"""
    pair.run(BEGIN + saved, auto=GLOBAL, timeout_s=60)
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]


def test_dropout_differs_between_ranks_and_batch_normalisation_is_noted(pair: Session) -> None:
    own = """
layers = torch.nn.Linear(4, 64), torch.nn.BatchNorm1d(64), torch.nn.Dropout(), torch.nn.Linear(64, 1)
model = torch.nn.Sequential(*layers).double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
    noise = LOOP.replace("steps += 1", "steps += 1; dropped = (model[2](torch.ones(64)) == 0).tolist()")
    result = pair.run(BEGIN + own + noise + END, auto=GLOBAL)
    first, second = pair.pull("dropped").values()
    assert first != second
    assert len(set(map(str, pair.pull("weights").values()))) == 1
    assert "NOTE: batch normalisation takes the mean of a rank's own rows" in result.ranks[0].stderr
