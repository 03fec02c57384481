"""A cluster's folder is this user's: what a stranger made is refused, and what is said of it."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from own_clusters import OWN, SETTINGS, SPEC, names, running
from users import STRANGER, as_user, needs_root

import jupyter_ddl
from jupyter_ddl import paths
from jupyter_ddl.cluster import folder as folders
from jupyter_ddl.cluster import registry
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.errors import FolderNotPrivate, FolderNotWritable
from jupyter_ddl.host.preflight import check_surroundings

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(60)


# --- another user ----------------------------------------------------------------------------------------------------


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a folder that a stranger can write to."""
    needs_root()
    with tempfile.TemporaryDirectory(prefix="ddl-") as made:
        Path(made).chmod(0o1777)
        monkeypatch.setenv(paths.RUNTIME_VARIABLE, f"{made}/ddl")
        yield Path(made)


# S1: what a local user plants in a runtime folder that was made before its owner came to it.
def plant(runtime: Path, thesis: Path, mode: int) -> None:
    place = runtime / "clusters" / registry.here().name
    for name in ("default", "planted"):
        folder = place / name
        folder.mkdir(parents=True)
        command = ["/bin/sh", "-c", f"id > {runtime}/PWNED", "sh"]
        planted = {
            "spec": json.loads(replace(SPEC, name=name).to_json()),
            **SETTINGS,
            "command": command,
            "environment": {},
            "scratch": {"TMPDIR": str(thesis), "OMPI_MCA_btl_sm_backing_directory": str(thesis)},
        }
        (folder / "cluster.json").write_text(json.dumps(planted))
        (folder / "lease.json").write_text(json.dumps(OWN))
    for folder in (place, place.parent, runtime):
        folder.chmod(mode)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o755])
def test_a_runtime_folder_that_a_stranger_made_is_refused(shared: Path, mode: int) -> None:
    thesis = shared / "thesis"
    thesis.mkdir(mode=0o700)
    (thesis / "chapter-1.tex").write_text("mine")
    runtime = shared / "ddl"
    as_user(STRANGER, lambda: plant(runtime, thesis, mode))
    for attempt in (
        lambda: jupyter_ddl.start(n=1),
        lambda: jupyter_ddl.start(n=1, name="another"),
        lambda: jupyter_ddl.attach("default"),
        check_surroundings,
    ):
        with pytest.raises(FolderNotPrivate, match=f"is user {STRANGER}'s"):
            attempt()
    # Nor is what is planted there believed by those who only look.
    assert names() == []
    assert list(folders.kept()) == []
    assert list(registry.elsewhere()) == []
    assert ClusterFolder("default").lease() is None
    assert ClusterFolder("default").settings() == {}
    assert (thesis / "chapter-1.tex").read_text() == "mine"
    assert not (runtime / "PWNED").exists()


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_a_runtime_folder_of_ones_own_that_is_open_is_refused(shared: Path, mode: int) -> None:
    running("good")
    (shared / "ddl").chmod(mode)
    if mode == 0o775:
        os.chown(shared / "ddl", 0, STRANGER)
    # (b) of S1: who can write there can put another folder in the place of this one while it starts.
    for attempt in (lambda: jupyter_ddl.start(n=1), lambda: jupyter_ddl.attach("good")):
        with pytest.raises(FolderNotPrivate, match="can write to"):
            attempt()
    assert ClusterFolder("good").lease() is None


def test_a_file_that_a_stranger_owns_is_not_believed() -> None:
    needs_root()
    folder = running("good")
    os.chown(folder.path / "lease.json", STRANGER, STRANGER)
    assert folder.lease() is None
    os.chown(folder.path / "lease.json", 0, 0)
    os.chown(folder.path / "cluster.json", STRANGER, STRANGER)
    assert folder.settings() == {}
    assert names() == []


def test_a_folder_that_cannot_be_made_anew_is_told(runtime: Path) -> None:
    folder = ClusterFolder("good")
    folder.path.parent.mkdir(parents=True)
    folder.path.touch()
    with pytest.raises(FolderNotWritable, match="File exists"):
        folder.create(SPEC, SETTINGS)
