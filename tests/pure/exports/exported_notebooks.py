"""Makes notebooks, for the tests of exports."""

from __future__ import annotations

from typing import Any

import nbformat

START = "%load_ext jupyter_ddl\n%ddl start -n 2"
PARAMETERS = "rate = 0.1\nepochs: int = 1\nn = None"


def notebook_of(*sources: str) -> Any:
    """Return a notebook of code cells, the first of which has the parameters."""
    first = nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
    outputs = [nbformat.v4.new_output("stream", text="old\n")]
    cells = [nbformat.v4.new_code_cell(source, outputs=outputs, execution_count=3) for source in sources]
    return nbformat.v4.new_notebook(cells=[first, *cells])


SUBMITS = "%load_ext jupyter_ddl\n%ddl submit"
