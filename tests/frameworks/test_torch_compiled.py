"""What torch.compile keeps outlives the ranks, and their temporary folder does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import jupyter_ddl

CACHE = """
import os
from torch._inductor.codecache import cache_dir

places = os.environ["TMPDIR"], cache_dir()
"""


@pytest.mark.slow
def test_it_is_kept_for_the_next_ranks_and_nothing_else_is() -> None:
    name = f"compiled-{os.getpid()}"
    found = []
    for _ in range(2):
        with jupyter_ddl.start(n=1, name=name, framework="torch", standby="never") as session:
            session.run(CACHE)
            temporary, kept = session.pull("places", [0])[0]
            assert Path(temporary).is_dir()
        found.append(Path(kept))
        assert not Path(temporary).exists()
    assert found[0] == found[1]
    assert found[0].is_dir()
