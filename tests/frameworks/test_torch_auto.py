"""A training of PyTorch's under --auto: refused, since each rank would train a model of its own."""

from __future__ import annotations

import pytest

import jupyter_ddl
from jupyter_ddl.errors import RankError
from jupyter_ddl.protocol.cell_options import AutoOptions

pytestmark = pytest.mark.frameworks

STEP = """
import torch
weight = torch.nn.Parameter(torch.ones(2))
weight.sum().backward()
torch.optim.SGD([weight], lr=0.1).step()
"""


def test_a_loop_of_pytorchs_under_auto_is_refused() -> None:
    with jupyter_ddl.start(n=2, name="torch-auto", framework="torch") as session:
        with pytest.raises(RankError, match=r"InvalidInput: --auto distributes Keras on TensorFlow; .* a step of SGD"):
            session.run(STEP, auto=AutoOptions())
        session.run(STEP)
        session.run("import torch.distributed as dist; dist.init_process_group()" + STEP, auto=AutoOptions())
