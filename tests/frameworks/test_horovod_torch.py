"""Programs for `horovod.torch` where no Horovod is built for PyTorch, on two real ranks."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl import paths
from jupyter_ddl.errors import RankError

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

BEGIN = """
import torch
import torch.nn.functional as F
import horovod.torch as hvd
hvd.init()
rank, size = hvd.rank(), hvd.size()
"""
MODEL = """
torch.manual_seed(1)
data, target = torch.randn(16, 4), torch.randn(16, 2)
# Another seed on each rank: weights are alike by the broadcast alone.
torch.manual_seed(rank)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
own = slice(rank, None, size)
plain = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
"""
DISTRIBUTED = """
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(plain, root_rank=0)
optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters(){})
"""
TRAIN = """
for _ in range(10):
    optimizer.zero_grad()
    F.mse_loss(model(data[own]), target[own]).backward()
    optimizer.step()
"""
ALONE = f"import torch\nimport torch.nn.functional as F\nrank, size = 0, 1\n{MODEL}optimizer = plain\n{TRAIN}"
FLAT = "[value for parameter in model.parameters() for value in parameter.detach().flatten().tolist()]"
IN_HALVES = """
for _ in range(10):
    optimizer.zero_grad()
    for half in (slice(0, 4), slice(4, 8)):
        (F.mse_loss(model(data[own][half]), target[own][half]) / 2).backward()
    optimizer.step()
"""
BY_HAND = """
for _ in range(10):
    optimizer.zero_grad()
    F.mse_loss(model(data[own]), target[own]).backward()
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
    with optimizer.skip_synchronize():
        optimizer.step()
"""
BY_CLOSURE = """
def closure():
    optimizer.zero_grad()
    loss = F.mse_loss(model(data[own]), target[own])
    loss.backward()
    return loss
for _ in range(10):
    optimizer.step(closure)
"""
# It knew the plain optimizer, whose `step` it has replaced.
SCHEDULED = f"""
scheduler = torch.optim.lr_scheduler.StepLR(plain, 100)
optimizer = hvd.DistributedOptimizer(plain)
{TRAIN}    scheduler.step()
"""
# The last layer comes later.
ADDED_LATER = f"""
plain = torch.optim.SGD(model[0].parameters(), lr=0.1, momentum=0.9)
optimizer = hvd.DistributedOptimizer(plain)
optimizer.add_param_group({{"params": list(model[2].parameters())}})
{TRAIN}"""
# A way to come to the same steps -> the optimizer's arguments, and the loop.
WAYS = {
    "as it is": (", compression=hvd.Compression.none", TRAIN),
    "divided before and after": (", gradient_predivide_factor=2.0", TRAIN),
    "two passes a step": (", backward_passes_per_step=2", IN_HALVES),
    "synchronised by hand": ("", BY_HAND),
    "by a closure": ("", BY_CLOSURE),
    "under a scheduler": ("", SCHEDULED),
    "a group added later": ("", ADDED_LATER),
}


def flat(session: Session, code: str) -> list[list[float]]:
    return [ast.literal_eval(rank.value or "") for rank in session.run(f"{code}\n{FLAT}").ranks.values()]


def alone(code: str = ALONE) -> list[float]:
    """Return the weights after the same training in one process."""
    command = [sys.executable, "-c", f"{code}\nprint({FLAT})"]
    return ast.literal_eval(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.fixture(scope="module")
def expected() -> list[float]:
    return alone()


@pytest.mark.parametrize("way", WAYS)
def test_it_trains_as_one_process_does_with_the_global_batch(
    torch_pair: Session, way: str, expected: list[float]
) -> None:
    options, train = WAYS[way]
    first, second = flat(torch_pair, BEGIN + MODEL + DISTRIBUTED.format(options) + train)
    assert first == second
    assert first == pytest.approx(expected, abs=1e-6)


def test_a_cell_that_distributes_an_optimizer_may_run_again(torch_pair: Session, expected: list[float]) -> None:
    again = f"kept = optimizer\n{DISTRIBUTED.format('')}"
    first, second = flat(torch_pair, BEGIN + MODEL + DISTRIBUTED.format("") + again + TRAIN)
    assert first == second == pytest.approx(expected, abs=1e-6)


def test_half_precision_on_the_way(torch_pair: Session, expected: list[float]) -> None:
    options = ", compression=hvd.Compression.fp16"
    first, second = flat(torch_pair, BEGIN + MODEL + DISTRIBUTED.format(options) + TRAIN)
    assert first == second
    assert first == pytest.approx(expected, abs=5e-3)
    assert first != pytest.approx(expected, abs=1e-6)


def test_a_parameter_that_one_ranks_loss_does_not_reach(torch_pair: Session) -> None:
    uneven = """
two = torch.nn.ModuleList([torch.nn.Linear(1, 1, bias=False) for _ in range(2)])
hvd.broadcast_parameters(two.state_dict(), root_rank=0)
before = [one.weight.item() for one in two]
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(two.parameters(), lr=1.0), two.named_parameters())
two[rank](torch.ones(1, 1)).sum().backward()
optimizer.step()
[b - one.weight.item() for b, one in zip(before, two)]
"""
    for rank in torch_pair.run(BEGIN + uneven).ranks.values():
        assert ast.literal_eval(rank.value or "") == pytest.approx([0.5, 0.5])


def test_sparse_gradients_are_sent_as_dense_ones(torch_pair: Session) -> None:
    table = """
table = torch.nn.Embedding(4, 1, sparse=True)
hvd.broadcast_parameters(table.state_dict(), root_rank=0)
before = table.weight.detach().clone()
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=1.0), sparse_as_dense={})
table(torch.tensor([rank, 2])).sum().backward()
optimizer.step()
(before - table.weight.detach()).flatten().tolist()
"""
    for rank in torch_pair.run(BEGIN + table.format(True)).ranks.values():
        assert ast.literal_eval(rank.value or "") == pytest.approx([0.5, 0.5, 1.0, 0.0])
    with pytest.raises(RankError, match="reduces dense gradients"):
        torch_pair.run(BEGIN + table.format(False))


def test_an_optimizers_state_is_that_of_the_root(torch_pair: Session) -> None:
    code = """
plain = torch.optim.Adam(model.parameters(), lr=0.1 * (rank + 1))
model(data).sum().backward()
plain.step()
optimizer = hvd.DistributedOptimizer(plain)
hvd.broadcast_optimizer_state(optimizer, root_rank=1)
[optimizer.param_groups[0]["lr"], float(sum(state["exp_avg"].sum() for state in optimizer.state.values()))]
"""
    first, second = (ast.literal_eval(r.value or "") for r in torch_pair.run(BEGIN + MODEL + code).ranks.values())
    assert first == second
    assert first[0] == 0.2


COLLECTIVES = """
mine = torch.tensor([1.0, 2.0]) * (rank + 1)
kept = mine.clone()
handles = [hvd.allreduce_async(mine, op=hvd.Sum), hvd.allreduce_async(mine, average=False)]
both, one = hvd.add_process_set([0, 1]), hvd.add_process_set([1])
written = mine.clone()
found = {
    "mean": hvd.allreduce(mine).tolist(),
    "sum": hvd.allreduce(mine, average=False).tolist(),
    "max": hvd.allreduce(mine, op=hvd.Max).tolist(),
    "scaled": hvd.allreduce(mine, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5).tolist(),
    "whole numbers": hvd.allreduce(torch.tensor([3, 5]) + rank).tolist(),
    "async": [hvd.synchronize(handle).tolist() for handle in handles],
    "ended": hvd.poll(handles[0]),
    "in place": [hvd.allreduce_(written).tolist(), written.tolist()],
    "grouped": [one.tolist() for one in hvd.grouped_allreduce([mine, mine * 2], op=hvd.Sum)],
    "rows": hvd.allgather(torch.arange(rank + 1)).tolist(),
    "root's": hvd.broadcast(mine, 1).tolist(),
    "own part": hvd.reducescatter(torch.ones(3, 1), op=hvd.Sum).tolist(),
    "sent": hvd.alltoall(torch.arange(4) + 10 * rank).tolist(),
    "counted": [part.tolist() for part in hvd.alltoall(torch.arange(3), splits=torch.tensor([1, 2]))],
    "objects": hvd.allgather_object({"rank": rank}),
    "object": hvd.broadcast_object(rank, root_rank=1, name="who"),
    "of both": hvd.allreduce(mine, op=hvd.Sum, process_set=both).tolist(),
    "of one": hvd.allreduce(mine, process_set=one).tolist() if one.included() else None,
    "unchanged": torch.equal(mine, kept),
    "local": [hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size(), hvd.is_initialized()],
}
hvd.barrier()
"""


def test_collectives(torch_pair: Session) -> None:
    torch_pair.run(BEGIN + COLLECTIVES, timeout_s=60)
    every = torch_pair.pull("found")
    alike = {
        "mean": [1.5, 3.0],
        "sum": [3.0, 6.0],
        "max": [2.0, 4.0],
        "scaled": [3.0, 6.0],
        "whole numbers": [3, 5],
        "async": [[3.0, 6.0], [3.0, 6.0]],
        "ended": True,
        "in place": [[1.5, 3.0], [1.5, 3.0]],
        "grouped": [[3.0, 6.0], [6.0, 12.0]],
        "rows": [0, 0, 1],
        "root's": [2.0, 4.0],
        "objects": [{"rank": 0}, {"rank": 1}],
        "object": 1,
        "of both": [3.0, 6.0],
        "unchanged": True,
    }
    own: tuple[dict[str, Any], ...] = (
        {"own part": [[2.0], [2.0]], "sent": [0, 1, 10, 11], "counted": [[0, 0], [1, 1]], "of one": None},
        {"own part": [[2.0]], "sent": [2, 3, 12, 13], "counted": [[1, 2, 1, 2], [2, 2]], "of one": [2.0, 4.0]},
    )
    for rank, found in every.items():
        assert found == alike | own[rank] | {"local": [rank, 2, 0, 1, True]}


def test_a_loss_goes_through_values_of_other_ranks(torch_pair: Session) -> None:
    code = """
def gradient(collective):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    made = collective(x)
    (made * (rank + 1)).sum().backward()
    return x.grad.tolist()
[
    gradient(lambda x: hvd.allreduce(x, op=hvd.Sum)),
    gradient(hvd.allreduce),
    gradient(hvd.allgather),
    gradient(lambda x: hvd.broadcast(x, 0)),
    gradient(hvd.alltoall),
    gradient(lambda x: hvd.reducescatter(x, op=hvd.Average)),
]
"""
    first, second = (ast.literal_eval(r.value or "") for r in torch_pair.run(BEGIN + code).ranks.values())
    # Each rank's loss is its own number times the sum: what comes back is the sum or mean of 1 and 2.
    assert first == [[3.0, 3.0], [1.5, 1.5], [1.5, 1.5], [1.5, 1.5], [1.0, 2.0], [1.0, 2.0]]
    assert second == [[3.0, 3.0], [1.5, 1.5], [1.5, 1.5], [0.0, 0.0], [1.0, 2.0], [1.0, 2.0]]


REFUSED = {
    "hvd.join()": "hvd.join is Horovod's own",
    "hvd.elastic.run": "Pass --checkpoint DIR",
    "hvd.allreduce(torch.ones(1), op=hvd.Adasum)": "Adasum is Horovod's own",
    "hvd.allreduce(torch.ones(1), average=True, op=hvd.Sum)": "Leave average out",
    "hvd.allreduce(torch.ones(1, requires_grad=True), op=hvd.Max)": "A gradient goes through",
    "hvd.DistributedOptimizer(torch.optim.LBFGS(model.parameters()))": "LBFGS searches",
    "hvd.DistributedOptimizer(plain, named_parameters=list(model.named_parameters())[1:])": "1 without a name",
    "hvd.DistributedOptimizer(plain, backward_passes_per_step=0)": "a whole number above 0",
    "import copy; copy.deepcopy(hvd.DistributedOptimizer(plain))": r"Save its state_dict\(\)",
    "hvd.broadcast_parameters({'epoch': 3}, root_rank=0)": "epoch of type int",
    "hvd.init(comm=[0])": "takes no communicator",
    "o = hvd.DistributedOptimizer(plain); model(data).sum().backward(); o.zero_grad()": "must stay until",
    "o = hvd.DistributedOptimizer(plain)\nwith o.skip_synchronize(): o.step()": "synchronize\\(\\) first",
    "o = hvd.DistributedOptimizer(plain); [model(data).sum().backward() for _ in range(2)]": "one more than 1",
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_has_nothing_to_do_it_is_refused(torch_pair: Session, code: str) -> None:
    with pytest.raises(RankError, match=REFUSED[code]):
        torch_pair.run(BEGIN + MODEL + code)


def test_weights_that_were_not_broadcast_are_found(torch_pair: Session) -> None:
    optimizer = "optimizer = hvd.DistributedOptimizer(plain)\n"
    with pytest.raises(RankError, match=r"RanksOutOfSync: .*step 3"):
        torch_pair.run(BEGIN + MODEL + optimizer + TRAIN)
    shown = torch_pair.run(BEGIN + MODEL + "optimizer = plain\n" + TRAIN)
    log = paths.runs_dir() / shown.run
    assert "no gradients are exchanged" in "".join((log / f"rank-{rank}.log").read_text() for rank in range(2))


def test_a_rank_that_raises_frees_the_others_and_the_training_goes_on(
    torch_pair: Session, expected: list[float]
) -> None:
    torch_pair.run(BEGIN + MODEL + DISTRIBUTED.format(""))
    before = flat(torch_pair, "")[0]
    # The other one's gradients are on their way.
    broken = "if rank == 1: raise ValueError('broken')\nF.mse_loss(model(data[own]), target[own]).backward()\n"
    with pytest.raises(RankError, match="broken"):
        torch_pair.run(f"{broken}optimizer.step()")
    assert flat(torch_pair, "")[0] == before
    first, second = flat(torch_pair, TRAIN)
    assert first == second == pytest.approx(expected, abs=1e-6)


def test_a_script_of_horovods(tmp_path: Path, expected: list[float]) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"{BEGIN}{MODEL}{DISTRIBUTED.format('')}{TRAIN}\nif rank == 0: print('weights', {FLAT})\n")
    command = [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", "2", str(script)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (line,) = (line for line in printed.splitlines() if "weights [" in line)
    assert ast.literal_eval(line.partition("weights ")[2]) == pytest.approx(expected, abs=1e-6)
