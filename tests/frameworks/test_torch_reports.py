"""A loop of PyTorch's shows by itself how it trains, and its ranks say so where they do not train one model."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from statistics import median
from typing import TYPE_CHECKING

import pytest
from frameworks.blocked import TORCH

from jupyter_ddl import paths
from jupyter_ddl.errors import RankError
from jupyter_ddl.protocol.cell_options import AutoOptions
from jupyter_ddl.protocol.events import MetricsSample, ParametersLogged
from jupyter_ddl.runs import stragglers
from jupyter_ddl.runs.reading import run_events

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

DATA = f"""{TORCH}
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from torch.nn.parallel import DistributedDataParallel
torch.manual_seed(0)
inputs = torch.randn(128, 4)
data = TensorDataset(inputs, inputs.sum(1, keepdim=True))

def made():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

def trained(model, optimizer, loader, epochs=1, every=1, sleep_s=0.0):
    for epoch in range(epochs):
        for i, (x, y) in enumerate(loader):
            time.sleep(sleep_s)
            torch.nn.functional.mse_loss(model(x), y).backward()
            if (i + 1) % every == 0:
                optimizer.step()
                optimizer.zero_grad()
"""
BEGUN = f"""{DATA}
dist.init_process_group()
model = DistributedDataParallel(made())
optimizer = torch.optim.SGD(model.parameters(), 0.05)
own = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
"""
# Ranks that share all data, one after the other: a sampler of its own would be one of none here.
SHARED = "shared = DataLoader(data, batch_size=8)\n"


def events_of(result: object, kind: type) -> dict[int, list]:
    found = [one for one in run_events(paths.runs_dir() / result.run) if isinstance(one, kind)]  # type: ignore[attr-defined]
    return {rank: [one for one in found if one.rank == rank] for rank in (0, 1)}


def samples_of(result: object) -> dict[int, list[MetricsSample]]:
    return {rank: [one for one in mine if one.steps] for rank, mine in events_of(result, MetricsSample).items()}


def test_a_plain_loop_shows_its_steps_samples_and_where_time_goes(torch_pair: Session) -> None:
    # 8 batches of 8 a rank and epoch, 4 of which make one step; and a validation, with gradients and without.
    evaluated = """
for x, y in DataLoader(data, batch_size=16):
    model.module(x)
with torch.no_grad():
    for x, y in DataLoader(data, batch_size=16):
        model(x)
"""
    epoch = textwrap.indent(f"trained(model, optimizer, own, every=4)\n{evaluated}", "    ")
    code = f"{BEGUN}for _ in range(3):\n{epoch}"
    result = torch_pair.run(code, sample_every_s=0.2)
    assert result.ranks[0].stderr == result.ranks[1].stderr == ""
    for mine in samples_of(result).values():
        assert mine[-1].step == sum(sample.steps for sample in mine) == 3 * 2
        assert mine[-1].model == "SGD, 49 parameters, batch 8"
        assert (mine[-1].epoch, mine[-1].epoch_part) == (2, 1.0)
        for sample in mine:
            assert sample.samples_per_s == pytest.approx(4 * 8 / sample.step_s)
            assert sample.input_s is not None
            assert sample.exchange_s is not None
            assert 0 < sample.input_s < sample.step_s
            assert 0 < sample.exchange_s < sample.step_s
    given = events_of(result, ParametersLogged)[1][0].parameters
    assert given == {"optimizer": "SGD", "learning_rate": 0.05, "batch_size": 8, "model_parameters": 49}


def test_the_rank_that_the_others_wait_for_is_marked(torch_pair: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    # A fraction of what users wait for.
    monkeypatch.setattr(stragglers, "SECONDS", 1.0)
    code = f"{BEGUN}trained(model, optimizer, own, epochs=3, sleep_s=0.1 if rank == 1 else 0)"
    result = torch_pair.run(code, sample_every_s=0.5)
    waited_s = {rank: median(sample.exchange_s or 0 for sample in mine) for rank, mine in samples_of(result).items()}
    assert waited_s[0] > 5 * waited_s[1]
    marks = [event for event in run_events(paths.runs_dir() / result.run) if event.type == "straggler"]
    assert [(mark.rank, mark.is_straggler, mark.spends_on) for mark in marks[:1]] == [(1, True, "compute")]


def test_a_loss_is_reported_without_samples(torch_pair: Session) -> None:
    code = f"""{BEGUN}
import jupyter_ddl
for x, y in own:
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    jupyter_ddl.report(loss=loss, seen=len(x))
"""
    last = samples_of(torch_pair.run(code, sample_every_s=0.2))[0][-1]
    assert (last.step, last.metrics) == (8, {"seen": 8.0})
    assert last.loss is not None
    assert last.samples_per_s is not None


def test_a_loop_under_auto_is_shown(torch_pair: Session) -> None:
    code = f"""{DATA}
model = made()
optimizer = torch.optim.SGD(model.parameters(), 0.05)
trained(model, optimizer, DataLoader(data, batch_size=16), epochs=2)
"""
    result = torch_pair.run(code, sample_every_s=0.2, auto=AutoOptions("global"))
    for mine in samples_of(result).values():
        assert (mine[-1].step, mine[-1].model) == (16, "SGD, 49 parameters, batch 8")
        assert mine[-1].exchange_s
    assert "WARNING" not in result.ranks[0].stderr + result.ranks[1].stderr


def test_what_trains_is_the_same_to_the_bit_as_without(torch_pair: Session) -> None:
    code = f"""{BEGUN}
own = DataLoader(data, batch_size=8, sampler=DistributedSampler(data, seed=3), num_workers=1)
trained(model, optimizer, own, epochs=2)
dropped = torch.nn.Dropout()(torch.ones(1000)).sum().item()
(dropped, [one.item().hex() for parameter in model.parameters() for one in parameter.double().flatten()])
"""
    watched = torch_pair.run(code, sample_every_s=0.2)
    plain = torch_pair.run(code, sample_every_s=None, independent=True)
    for rank in (0, 1):
        assert watched.ranks[rank].value == plain.ranks[rank].value


def test_a_script_shows_its_steps(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"import os\nrank = int(os.environ['RANK'])\n{BEGUN}trained(model, optimizer, own)\n")
    command = [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", "2", script]
    before = set(paths.runs_dir().iterdir())
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    (folder,) = set(paths.runs_dir().iterdir()) - before
    steps = [one.step for one in run_events(folder) if isinstance(one, MetricsSample) and one.steps]
    assert max(steps) == 8


# --- ranks that do not train one model


def warnings_of(result: object) -> list[str]:
    return [line for rank in (0, 1) for line in result.ranks[rank].stderr.splitlines() if "WARNING" in line]  # type: ignore[attr-defined]


def test_ranks_that_train_on_the_same_batches_are_warned_once(torch_pair: Session) -> None:
    (told,) = warnings_of(torch_pair.run(f"{BEGUN}{SHARED}trained(model, optimizer, shared)"))
    assert told.startswith("WARNING: the 2 ranks train on the same batches, so they learn no more than one of them")
    assert "sampler=torch.utils.data.DistributedSampler(data)" in told
    assert warnings_of(torch_pair.run(f"{BEGUN}{SHARED}trained(model, optimizer, shared)", independent=True)) == []


def test_ranks_that_exchange_nothing_are_warned_once(torch_pair: Session) -> None:
    alone = f"""{DATA}
torch.manual_seed(rank)
model = made()
optimizer = torch.optim.SGD(model.parameters(), 0.05)
trained(model, optimizer, DataLoader(data, batch_size=8, shuffle=True))
"""
    (told,) = warnings_of(torch_pair.run(alone))
    assert told.startswith("WARNING: each of the 2 ranks trains a model of its own: no gradients are exchanged.")
    assert warnings_of(torch_pair.run(alone, independent=True)) == []


def test_weights_that_come_apart_stop_the_cell(torch_pair: Session) -> None:
    apart = f"""{BEGUN}
with torch.no_grad():
    model.module[2].weight += 0.1 * rank
trained(model, optimizer, own)
"""
    with pytest.raises(RankError, match="All ranks must hold the same weights") as caught:
        torch_pair.run(apart)
    told = str(caught.value)
    assert "rank 1 of 2 differs from rank 0 after step 3 of the cell, in 2.weight" in told
    assert "Set them before, or on all ranks, and call the wrapped model." in told


def test_weights_that_come_apart_under_auto_stop_the_cell(torch_pair: Session) -> None:
    apart = f"""{DATA}
model = made()
optimizer = torch.optim.SGD(model.parameters(), 0.05)
with torch.no_grad():
    model[0].bias += 0.1 * rank
trained(model, optimizer, DataLoader(data, batch_size=16))
"""
    with pytest.raises(RankError, match=r"differs from rank 0 after step 3 of the cell, in parameter 1 \[8\] \(SGD\)"):
        torch_pair.run(apart, auto=AutoOptions("global"))


def test_a_wrapped_model_that_is_not_called_stops_the_cell(torch_pair: Session) -> None:
    with pytest.raises(RankError, match=r"differs from rank 0 after step 3 .*or model\.module was called in place of"):
        torch_pair.run(f"{BEGUN}trained(model.module, optimizer, own)")


def test_weights_that_come_apart_are_warned_of_where_that_is_wanted(torch_pair: Session) -> None:
    apart = f"""{BEGUN}
with torch.no_grad():
    model.module[2].weight += 0.1 * rank
trained(model, optimizer, own)
"""
    (told,) = warnings_of(torch_pair.run(apart, on_drift="warn"))
    assert told.startswith("WARNING: All ranks must hold the same weights. Received: rank 1 of 2 differs from rank 0")


def test_weights_that_were_set_after_the_last_look_stop_the_cell_at_its_end(torch_pair: Session) -> None:
    late = f"{BEGUN}trained(model, optimizer, own)\nmodel.module[0].bias.data += rank"
    with pytest.raises(RankError, match=r"after step 8 of the cell, in 0\.bias \(SGD\)"):
        torch_pair.run(late)


def test_gradients_that_are_averaged_by_hand_need_equal_weights_to_begin_with(torch_pair: Session) -> None:
    by_hand = f"""{DATA}
dist.init_process_group()
torch.manual_seed(SEED)
model = made()
optimizer = torch.optim.SGD(model.parameters(), 0.05)
for x, y in DataLoader(data, batch_size=8, sampler=DistributedSampler(data)):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
"""
    assert warnings_of(torch_pair.run(by_hand.replace("SEED", "1"))) == []
    (told,) = warnings_of(torch_pair.run(by_hand.replace("SEED", "rank")))
    assert "differs from rank 0 after step 8 of the cell, in parameter 0 [8, 4], parameter 1 [8]" in told
    assert "Wrap the model with torch.nn.parallel.DistributedDataParallel" in told


def test_parameters_of_which_ranks_hold_parts_are_left_out(torch_pair: Session) -> None:
    sharded = f"""{DATA}
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
dist.init_process_group()
model = fully_shard(made(), mesh=init_device_mesh("cpu", (world_size,)))
optimizer = torch.optim.Adam(model.parameters(), 0.01)
trained(model, optimizer, DataLoader(data, batch_size=8, sampler=DistributedSampler(data)), epochs=2)
"""
    result = torch_pair.run(sharded, sample_every_s=0.2)
    assert warnings_of(result) == []
    assert samples_of(result)[0][-1].exchange_s


def test_checks_enter_no_collective(torch_pair: Session) -> None:
    code = f"""{BEGUN}
before = dist.group.WORLD._get_sequence_number_for_group()
trained(model, optimizer, own)
dist.group.WORLD._get_sequence_number_for_group() - before
"""
    watched = [int(rank.value or 0) for rank in torch_pair.run(code).ranks.values()]
    plain = [int(rank.value or 0) for rank in torch_pair.run(code, independent=True).ranks.values()]
    assert watched == plain
    assert ast.literal_eval(str(watched))[0] > 0


def test_an_optimizer_whose_state_ranks_share_is_compared_when_its_step_is_done(torch_pair: Session) -> None:
    zero = f"""{BEGUN}
from torch.distributed.optim import ZeroRedundancyOptimizer
layers = [torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)]
model = DistributedDataParallel(torch.nn.Sequential(*layers))
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
trained(model, optimizer, own, epochs=3)
"""
    assert warnings_of(torch_pair.run(zero)) == []


def test_no_model_and_no_optimizer_is_kept(torch_pair: Session) -> None:
    code = f"""{BEGUN}
import gc, weakref
trained(model, optimizer, own)
kept = [weakref.ref(model), weakref.ref(optimizer), weakref.ref(model.module[0].weight)]
del model, optimizer, own
gc.collect()
[one() is None for one in kept]
"""
    assert {rank.value for rank in torch_pair.run(code).ranks.values()} == {"[True, True, True]"}


def test_the_table_of_patches_is_what_a_rank_of_pytorchs_has(torch_pair: Session) -> None:
    code = """
import importlib, torch
from jupyter_ddl.host import patching
from jupyter_ddl.protocol.patch_table import PATCHES

def owner(text):
    parts = text.split('.')
    found = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], 2):
        found = getattr(found, part) if hasattr(found, part) else importlib.import_module('.'.join(parts[:i]))
    return found

rows = [(owner(row.owner), name, row.layer) for row in PATCHES if row.library == 'torch' for name in row.names]
made = [(one.owner, one.name, one.layer) for one in patching.patches()]
of_torch = [one for one in made if str(getattr(one[0], '__module__', one[0].__name__)).startswith('torch')]
undeclared = [repr(one) for one in of_torch if one not in rows]
missing = [repr(one) for one in rows if one not in made and one[2] is patching.Layer.RANK]
(undeclared, missing)
"""
    assert {rank.value for rank in torch_pair.run(code).ranks.values()} == {"([], [])"}


ODD = {
    "a compiled model": "model = torch.compile(model, backend='eager')",
    "dictionaries": "own = DataLoader(data, batch_size=8, sampler=own.sampler, collate_fn=lambda rows: "
    "OrderedDict(zip('xy', torch.utils.data.default_collate(rows))))",
    "arrays": "own = DataLoader(data, batch_size=8, sampler=own.sampler, collate_fn=lambda rows: "
    "[part.numpy() for part in torch.utils.data.default_collate(rows)])",
    "workers": "own = DataLoader(data, batch_size=8, sampler=own.sampler, num_workers=2, persistent_workers=True)",
    "a rank's own iterable": "own = DataLoader(Iterable(), batch_size=8)",
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_loops_are_counted(torch_pair: Session, odd: str) -> None:
    code = f"""{BEGUN}
from collections import OrderedDict
class Iterable(torch.utils.data.IterableDataset):
    def __iter__(self):
        return (data[i] for i in range(rank, len(data), world_size))
{ODD[odd]}
for _ in range(2):
    for batch in own:
        x, y = batch.values() if isinstance(batch, dict) else batch
        torch.nn.functional.mse_loss(model(torch.as_tensor(x)), torch.as_tensor(y)).backward()
        optimizer.step()
        optimizer.zero_grad()
"""
    result = torch_pair.run(code, sample_every_s=0.2)
    assert warnings_of(result) == []
    for mine in samples_of(result).values():
        assert (mine[-1].step, mine[-1].epoch, mine[-1].model) == (16, 1, "SGD, 49 parameters, batch 8")


def test_steps_of_each_ranks_own_gradients_may_take_weights_apart(torch_pair: Session) -> None:
    local = f"""{BEGUN}
with model.no_sync():
    trained(model, optimizer, own, epochs=2)
for parameter in model.parameters():
    dist.all_reduce(parameter.data)
    parameter.data /= world_size
"""
    assert warnings_of(torch_pair.run(local)) == []
