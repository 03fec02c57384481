"""`--memory remat,mixed,host` on loops of PyTorch's: the same training, in less memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import memory_remedies
from jupyter_ddl.errors import RankError
from jupyter_ddl.protocol.cell_options import AutoOptions
from jupyter_ddl.protocol.memory_options import parsed

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

GLOBAL = AutoOptions(batch="global")
BEGIN = """
import torch
torch.manual_seed(3)
inputs = torch.randn(67, 4, dtype=torch.float64)
targets = inputs.sum(1, keepdim=True)
data = torch.utils.data.TensorDataset(inputs, targets)
loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
"""
# Blocks that normalise by a batch's statistics, which a second pass would count twice.
BLOCKS = """
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.first, self.last = torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
    def forward(self, x, *, times=1.0):
        calls.append(torch.is_grad_enabled())
        return x + times * self.last(self.first(self.norm(x)).tanh())
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.begin, self.end = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(3))
    def forward(self, x):
        x = self.begin(x)
        for block in self.blocks:
            x = block(x, times=0.5)
        return self.end(x)
calls = []
model = Net().double()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
"""
LOOP = """
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
"""
END = """
weights = torch.cat([one.detach().reshape(-1).double() for one in model.state_dict().values()]).tolist()
trained = len(calls)
"""
DROPOUT = BLOCKS.replace("torch.nn.BatchNorm1d(8)", "torch.nn.Dropout(0.3)")
PLAIN = BLOCKS.replace("torch.nn.BatchNorm1d(8)", "torch.nn.Identity()")
STEPS = 2 * 5


@pytest.fixture
def one(torch_ranks: Callable[[int], Session]) -> Session:
    return torch_ranks(1)


def trained(session: Session, program: str, words: str | None, **options: Any) -> Any:
    memory = None if words is None else parsed(words)
    return session.run(program, memory=memory, timeout_s=120, **options)


@pytest.mark.parametrize("model", [BLOCKS, DROPOUT], ids=["statistics", "random numbers"])
@pytest.mark.parametrize("words", ["remat", "host", "remat,host"])
def test_a_training_is_the_same(one: Session, model: str, words: str) -> None:
    trained(one, BEGIN + model + LOOP + END, None)
    expected, calls = one.pull("weights")[0], one.pull("trained")[0]
    result = trained(one, BEGIN + model + LOOP + END, words)
    assert one.pull("weights")[0] == pytest.approx(expected, abs=1e-12)
    assert calls == 3 * STEPS
    # Each block's forward pass ran a second time.
    assert one.pull("trained")[0] == (2 * calls if "remat" in words else calls)
    assert "had no effect" not in result.ranks[0].stderr


def test_a_copy_and_a_saved_model_are_as_without(one: Session) -> None:
    program = """
import copy, io
twin = copy.deepcopy(model)
same = all(bool((a == b).all()) for a, b in zip(twin(inputs), model(inputs)))
file = io.BytesIO()
torch.save(model.begin, file)
ours = b"jupyter_ddl" in file.getvalue()
"""
    trained(one, BEGIN + PLAIN + LOOP + program, "remat,host")
    assert (one.pull("same")[0], one.pull("ours")[0]) == (True, False)
    # Later cells are without.
    one.run(f"calls.clear()\n{LOOP}{END}")
    assert one.pull("trained")[0] == 3 * STEPS


def test_half_precision_is_bfloat16_and_what_comes_out_is_single(one: Session) -> None:
    program = """
kinds = set()
model = model.float()
hook = model.blocks[1].first.register_forward_hook(lambda _, given, made: kinds.add(str(made.dtype)))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs.float(), targets.float()), batch_size=16)
"""
    ends = END + "kind = str(model(inputs.float()).dtype), str(loss.dtype), str(model.end.weight.grad.dtype)\n"
    trained(one, BEGIN + PLAIN + program + LOOP + END, None)
    exact = one.pull("weights")[0]
    trained(one, BEGIN + PLAIN + program + LOOP + ends, "mixed,remat")
    assert one.pull("kinds")[0] == {"torch.bfloat16"}
    assert one.pull("kind")[0] == ("torch.float32",) * 3
    found = one.pull("weights")[0]
    assert found != exact
    assert found == pytest.approx(exact, abs=0.05)
    # A program's own choice stays.
    own = LOOP.replace("loss =", "with torch.autocast('cpu', torch.float16):\n            loss =")
    trained(one, BEGIN + PLAIN + program + own, "mixed")
    assert one.pull("kinds")[0] == {"torch.float16"}


@pytest.mark.parametrize("words", ["shard-all,remat", "remat", "host"])
def test_on_two_ranks_it_is_one_process(torch_ranks: Callable[[int], Session], words: str) -> None:
    names: dict[str, Any] = {}
    exec(BEGIN + PLAIN + LOOP + END, names)
    pair = torch_ranks(2)
    result = trained(pair, BEGIN + PLAIN + LOOP + END, words, auto=GLOBAL)
    for found in pair.pull("weights").values():
        assert found == pytest.approx(names["weights"], abs=1e-10)
    assert set(pair.pull("trained").values()) == {3 * STEPS if words == "host" else 6 * STEPS}
    said = {"host": "what the backward pass needs, and the optimizer's state, is kept", "remat": "activations of large"}
    assert f"  memory         {said[words.rpartition(',')[2]]}" in result.ranks[0].stdout


def test_what_it_does_not_act_on_is_said(one: Session) -> None:
    compiled = LOOP.replace("model(x)", "fast(x)")
    with pytest.raises(RankError, match=r"a call of OptimizedModule, which is compiled\. Leave out remat"):
        trained(one, BEGIN + PLAIN + "fast = torch.compile(model, backend='eager')\n" + compiled, "remat")
    with pytest.raises(
        RankError, match=r"are for Keras's models\. Received: --memory accumulate=2, and a step of Adam"
    ):
        trained(one, BEGIN + PLAIN + LOOP, "accumulate=2")
    flat = (
        "model = torch.nn.Sequential(torch.nn.Linear(4, 1)).double()\noptimizer = torch.optim.SGD(model.parameters())"
    )
    assert "remat had no effect on Sequential" in trained(one, BEGIN + flat + LOOP, "remat").ranks[0].stderr
    assert "--memory host had no effect" in trained(one, "pass", "host").ranks[0].stderr


@pytest.mark.parametrize(("memory", "status"), [((), 1), (("--memory", "remat"), 0)])
def test_a_model_that_dies_of_memory_trains(tmp_path: Path, memory: tuple[str, ...], status: int) -> None:
    """In 200 MiB of address space beyond the start."""
    answer = tmp_path / "answer.json"
    program = Path(memory_remedies.__file__).with_name(memory_remedies.PROGRAMS["torch"])
    command = [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", "1", *memory]
    ran = subprocess.run(
        [*command, str(program), str(answer), "200"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == status, ran.stderr
    assert ("can't allocate memory" in ran.stderr) == (status == 1), ran.stderr
    assert not memory or json.loads(answer.read_text())["loss"] > 0
