from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_ddl import errors, paths
from jupyter_ddl.host.private_folders import private_folder
from jupyter_ddl.protocol.events import RankFailed

FAILURE = RankFailed("run-1", 1, "node-a", "ValueError", "no good", ("its traceback",), released=False, at_s=1.0)


def test_an_error_says_rule_received_and_remedy() -> None:
    error = errors.InvalidInput("Engines must not outnumber GPUs.", "n=8, GPUs=4", "Pass n<=4, or --oversubscribe.")
    assert str(error) == "Engines must not outnumber GPUs. Received: n=8, GPUs=4. Pass n<=4, or --oversubscribe."
    assert isinstance(error, ValueError)


def test_a_notebook_shows_an_error_without_a_traceback_of_ours() -> None:
    assert errors.NoCluster("no ranks")._render_traceback_() == ["NoCluster: no ranks"]


def test_a_ranks_error_is_headed_and_shown_with_its_own_traceback() -> None:
    error = errors.RankError([FAILURE], [0], 2)
    assert str(error) == "Rank 1 of 2 on node-a: ValueError: no good"
    assert error._render_traceback_() == ["RankError: Rank 1 of 2 on node-a: ValueError: no good"]
    error.report = "what the rank said"
    assert error._render_traceback_() == ["what the rank said"]


def test_a_build_error_names_the_log() -> None:
    error = errors.BuildError("A compiler is needed.", "none", "Install g++.", Path("/logs/build.log"))
    assert str(error) == "A compiler is needed. Received: none. Install g++. Full log: /logs/build.log"


def test_an_interrupted_run_is_a_keyboard_interrupt() -> None:
    assert issubclass(errors.RunInterrupted, KeyboardInterrupt)


def test_a_folder_that_cannot_be_made_names_its_variable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.FolderNotWritable) as caught:
        private_folder(tmp_path / "file" / "runs", variable=paths.RUNS_VARIABLE)
    assert str(caught.value) == (
        f"jupyter_ddl must be able to write to its folder. Received: {tmp_path}/file/runs (Not a directory). "
        "Set JUPYTER_DDL_RUNS to a folder that you may write to."
    )


def test_folders_go_where_their_variables_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in (paths.CACHE_VARIABLE, paths.RUNTIME_VARIABLE, paths.RUNS_VARIABLE, paths.HOROVOD_VARIABLE):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    assert paths.cache_dir() == tmp_path / paths.CACHE_VARIABLE
    assert paths.clusters_dir() == tmp_path / paths.RUNTIME_VARIABLE / "clusters"
    assert paths.runs_dir() == tmp_path / paths.RUNS_VARIABLE
    assert paths.horovod_dir() == tmp_path / paths.HOROVOD_VARIABLE
    monkeypatch.delenv(paths.HOROVOD_VARIABLE)
    assert paths.horovod_dir() is None


def test_a_private_folder_is_its_owners_alone(tmp_path: Path) -> None:
    assert private_folder(tmp_path / "a" / "b", variable=paths.RUNS_VARIABLE).stat().st_mode & 0o777 == 0o700
