"""Unit tests for engine.compiled_cache."""

from __future__ import annotations

import os
import stat
import tempfile
from typing import TYPE_CHECKING

import pytest
from users import STRANGER, needs_root

from jupyter_ddl.engine.compiled_cache import keep_compiled

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


@pytest.fixture
def of_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the temporary folder that this process has, as a rank."""
    # What the code sets is undone too.
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delenv(VARIABLE)
    folder = tmp_path / "jupyter_ddl-abcdefgh"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_it_is_kept_in_a_folder_of_the_users_alone(of_world: Path) -> None:
    kept = keep_compiled()
    assert kept is not None
    assert os.environ[VARIABLE] == str(kept)
    assert kept.parent.parent == of_world.parent
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_what_the_user_chose_stays(of_world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/scratch/me")
    assert keep_compiled() is None
    assert os.environ[VARIABLE] == "/scratch/me"


def test_where_the_temporary_folder_is_the_users_torch_chooses(of_world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(of_world.parent))
    assert keep_compiled() is None
    assert VARIABLE not in os.environ


@pytest.mark.parametrize("what", ["others may write there", "another's link", "a file"])
def test_a_place_that_is_not_the_users_alone_is_not_read(what: str, of_world: Path) -> None:
    place = of_world.with_name(f"jupyter_ddl-{os.geteuid()}")
    if what == "a file":
        place.touch()
    elif what == "another's link":
        needs_root()
        place.symlink_to(of_world)
        os.lchown(place, STRANGER, STRANGER)
    else:
        place.mkdir()
        place.chmod(0o777)
    assert keep_compiled() is None
    assert VARIABLE not in os.environ
