"""A profile's limit of a user's clusters and scripts, with ranks that run."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import without
from ranks.script_jobs import COMMAND, started

from jupyter_ddl import paths, start
from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize(("name", "profile"), [pytest.param("one", "one", marks=pytest.mark.slow), ("default", None)])
def test_a_profile_bounds_the_clusters_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, profile: str | None
) -> None:
    # Clusters of other tests would count.
    monkeypatch.setenv(paths.RUNTIME_VARIABLE, str(tmp_path / "runtime"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    (tmp_path / "jupyter_ddl.d").mkdir()
    (tmp_path / "jupyter_ddl.d" / "site.toml").write_text(f"[{name}]\nlimits = {{clusters = 1}}\n")
    variables = without(tmp_path, "tensorflow")
    with start(n=1, name="first", profile=profile, env=variables) as first:
        with pytest.raises(
            InvalidInput, match=r"at most 1 cluster of a user at a time\. Received: one more; running: first\."
        ):
            start(n=1, name="second", profile=profile, env=variables)
        script = tmp_path / "train.py"
        script.touch()
        options = ["-n", "1", "--gpus", "none", *([] if profile is None else ["--profile", profile])]
        told = subprocess.run(
            [*COMMAND, *options, str(script)], capture_output=True, text=True, timeout=60, check=False
        )
        assert "Received: one more; running: first. End one:" in told.stderr
        # A restart is no further cluster.
        first.restart()
        assert first.run("rank").ranks[0].value == "0"
    with start(n=1, name="second", profile=profile, env=variables) as second:
        assert second.run("rank").ranks[0].value == "0"


def test_a_script_counts_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.RUNTIME_VARIABLE, str(tmp_path / "runtime"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    (tmp_path / "jupyter_ddl.d").mkdir()
    (tmp_path / "jupyter_ddl.d" / "site.toml").write_text("[default]\nlimits = {clusters = 1}\n")
    with started(tmp_path, "import time\nprint('ready')\ntime.sleep(600)\n", "--gpus", "none") as job:
        job.wait_for("ready")
        running = rf"Received: one more; running: script\.py \(script of pid {job.process.pid}\)\."
        with pytest.raises(InvalidInput, match=running):
            start(n=1, gpus="none", env=without(tmp_path, "tensorflow"))
        # Killed, so that it can end nothing by itself.
        job.process.kill()
        job.process.wait(20)
        with start(n=1, gpus="none", env=without(tmp_path, "tensorflow")) as session:
            assert session.run("rank").ranks[0].value == "0"
