"""What is told when lost ranks have been replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from kernel_sides import TestCluster, ready

from jupyter_ddl import paths
from jupyter_ddl.kernel.rebuilder import Rebuilder
from jupyter_ddl.kernel.settling import wait_settled
from jupyter_ddl.kernel.setup_cells import SetupCells
from jupyter_ddl.protocol.events import RankLost
from jupyter_ddl.protocol.faults import loss_in_words
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.run import Run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_newest_checkpoint_of_a_lost_training_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    saved = tmp_path / "saved" / "fit-1" / "epoch-3.npz"
    saved.parent.mkdir(parents=True)
    np.savez(saved, weights=np.ones(3))
    folder = RunFolder("lost")
    folder.write("model.fit(x, y)", options={"checkpoint": str(saved.parent.parent)})
    cluster = TestCluster()
    lifecycle, ranks = ready(cluster, Rebuilder(lambda *_: TestCluster(), SetupCells()))  # type: ignore[arg-type,return-value]
    ranks.runs.begin(Run(folder, (0, 1), 2))
    cluster.say(RankLost(1, loss_in_words("rank 1 was ended"), 5.0))
    told = wait_settled(lifecycle, lambda _: None) or ""
    assert told.startswith("rank 1 was ended.\n2 new ranks were started in ")
    assert told.endswith(f"\nThe newest checkpoint is {saved}: run the cell again to resume from there.")
    assert wait_settled(lifecycle, lambda _: None) is None
