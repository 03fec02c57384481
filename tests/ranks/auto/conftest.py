"""A notebook whose ranks have a model to train, for the tests of cells of `--auto`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from auto_cells import MODEL

if TYPE_CHECKING:
    from ranks.kernel import Kernel


@pytest.fixture(scope="module")
def prepared(notebook: Kernel) -> Kernel:
    assert notebook.run(MODEL, "--auto").error is None
    return notebook
