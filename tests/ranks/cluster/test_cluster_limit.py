"""A profile's limit of a user's clusters, with ranks that run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ranks.kernels import without

from jupyter_ddl import paths, start
from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize(("name", "profile"), [("one", "one"), ("default", None)])
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
        with pytest.raises(InvalidInput, match=r"at most 1 cluster at a time\. Received: one more; running: first\."):
            start(n=1, name="second", profile=profile, env=variables)
        # A restart is no further cluster.
        first.restart()
        assert first.run("rank").ranks[0].value == "0"
    with start(n=1, name="second", profile=profile, env=variables) as second:
        assert second.run("rank").ranks[0].value == "0"
