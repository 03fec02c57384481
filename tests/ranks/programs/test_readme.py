"""README's cells of Keras, and those of docs/start.md, run as they stand; what README shows below them comes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from ranks.program_runs import write_mnist
from readme import README, START, cell_with

from jupyter_ddl import paths
from jupyter_ddl.errors import RankError
from jupyter_ddl.protocol.cell_options import AutoOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

SETUP = """
import os
os.environ["JUPYTER_DDL_DATA"] = {data!r}
from jupyter_ddl.datasets import mnist
import keras
(x_train, y_train), (x_test, y_test), _ = mnist()
x_train, x_test = x_train / 255, x_test / 255
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10, "softmax")])
"""


@pytest.fixture
def pair(ranks: Callable[[int], Session], tmp_path: Path) -> Session:
    """Return two ranks with a data set of this machine's, since a test downloads nothing."""
    write_mnist(tmp_path)
    session = ranks(2)
    session.run(SETUP.format(data=str(tmp_path)))
    return session


def test_the_first_cell_trains_one_model_on_all_ranks(pair: Session) -> None:
    pair.run(cell_with("hvd.DistributedOptimizer"))
    losses = pair.run("model.evaluate(x_test / 255, y_test, verbose=0)[0]").ranks
    sums = pair.run("float(sum(abs(weights).sum() for weights in model.get_weights()))").ranks
    assert losses[0].value == losses[1].value
    assert sums[0].value == sums[1].value


def test_the_cell_for_one_gpu_tells_the_plan_that_readme_shows(pair: Session) -> None:
    cell = cell_with("validation_data").replace("epochs=12", "epochs=1")
    told = (paths.runs_dir() / pair.run(cell, auto=AutoOptions()).run / "rank-0.log").read_text()

    def rows(text: str) -> list[str]:
        return re.findall(r"^(?:\[0\] )? {2,4}(\w[\w ]*?)  ", text.partition("Distributed over ")[2], re.MULTILINE)

    shown = ["optimizer", "data", "batch", "learning rate", "on rank 0", "random seed"]
    # Where another test has set these ranks' seed, the plan has none to tell.
    assert [*rows(told), "random seed"][: len(shown)] == shown
    assert rows(README.read_text())[: len(shown)] == shown


def test_the_cells_of_the_first_five_minutes_run(pair: Session) -> None:
    assert "Hello from rank 1 of 2" in _told_by_rank_1(pair, cell_with("Hello from rank", START))
    pair.run(cell_with("validation_data", START).replace("epochs=3", "epochs=1"), auto=AutoOptions())
    with pytest.raises(RankError, match=r"Rank 1 of 2 [\s\S]*the loss is NaN"):
        pair.run(cell_with("the loss is NaN", START), timeout_s=60)
    kept = pair.run("len(model.layers)").ranks
    assert [kept[rank].value for rank in (0, 1)] == ["3", "3"]


def _told_by_rank_1(session: Session, cell: str) -> str:
    return (paths.runs_dir() / session.run(cell).run / "rank-1.log").read_text()
