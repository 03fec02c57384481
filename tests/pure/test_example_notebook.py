"""The notebook that the launcher opens: a notebook as Jupyter has them, on data that every machine has."""

from __future__ import annotations

import nbformat
import numpy as np

from jupyter_ddl.datasets import spirals
from jupyter_ddl.server.example import notebook


def test_it_is_a_whole_notebook_without_outputs() -> None:
    nbformat.validate(notebook())
    code = [cell["source"] for cell in notebook()["cells"] if cell["cell_type"] == "code"]
    assert code[0].startswith("%load_ext jupyter_ddl\n%ddl start -n 2 ")
    assert code[-1] == "%ddl stop"


def test_all_ranks_have_the_same_points() -> None:
    (points, labels), (again, _) = spirals(100), spirals(100)
    assert points.shape == (100, 2)
    assert points.dtype == np.float32
    assert np.array_equal(points, again)
    assert not np.array_equal(points, spirals(100, seed=1)[0])
    assert labels.sum() == 50
    # In random order: any shard has points of both.
    assert 0 < labels[:20].sum() < 20
