"""What a world of ranks left in temporary folders is removed, and nothing else ever."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from users import STRANGER

from jupyter_ddl.cluster import scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(60)


# --- temporary folders -----------------------------------------------------------------------------------------------

BACKING = "OMPI_MCA_btl_sm_backing_directory"


@pytest.fixture
def own_tmp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ddl-") as made:
        monkeypatch.setattr(tempfile, "tempdir", made)
        yield Path(made)


def test_what_a_world_left_is_removed_and_what_is_the_users_stays(own_tmp: Path) -> None:
    made = scratch.make({})
    temporary, shared = Path(made["TMPDIR"]), Path(made[BACKING])
    assert temporary.parent == own_tmp
    of_ranks = ("__pycache__", "torchinductor_me", "pymp-abcdefgh", "ipykernel_7", "jupyter_ddl-jax-abcdefgh")
    for name in ("ompi.host.0", "prte.host", "prterun.host.7.0", *of_ranks):
        (temporary / name / "deep").mkdir(parents=True)
    (temporary / "pmix-1").touch()
    (temporary / "ompi.link").symlink_to(own_tmp)
    (temporary / "mine.csv").touch()
    (temporary / "prtein.csv").touch()
    (shared / "segment").touch()
    scratch.clear(made)
    assert sorted(path.name for path in temporary.iterdir()) == ["mine.csv", "prtein.csv"]
    assert not shared.exists()
    assert own_tmp.exists()
    (temporary / "mine.csv").unlink()
    (temporary / "prtein.csv").unlink()
    scratch.clear(made)
    scratch.clear(made)
    assert not temporary.exists()


@pytest.mark.parametrize("has_room", [True, False])
def test_a_hosts_ranks_share_files_where_there_is_no_shared_memory(
    has_room: bool, own_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(scratch, "has_shared_memory", lambda ranks: asked.append(ranks) or has_room)
    name = f"room{os.getpid()}"
    first, second = (scratch.make_named({"OMPI_COMM_WORLD_LOCAL_SIZE": "3"}, name) for _ in range(2))
    assert asked == [3]
    assert first == second
    memory = Path(first[BACKING])
    assert memory == (Path("/dev/shm") / f"jupyter_ddl-{name}" if has_room else own_tmp / f"jupyter_ddl-{name}_memory")
    (memory / "segment").touch()
    (Path(first["TMPDIR"]) / "mine.csv").touch()
    # The witness clears what it made, and the lease what it knows by name.
    scratch.clear(first if has_room else scratch.named(name))
    assert not memory.exists()
    assert [path.name for path in Path(first["TMPDIR"]).iterdir()] == ["mine.csv"]


def not_ours(own_tmp: Path) -> dict[str, Path]:
    """Return folders that no world of ours made, each with something in it."""
    made = {
        "elsewhere": own_tmp / "home" / "jupyter_ddl-abcdefgh",
        "of another name": own_tmp / "thesis",
        "of a cache": own_tmp / "jupyter_ddl-cache-0-host-1-2",
        "by a way round": own_tmp / "home" / ".." / "jupyter_ddl-roundabt",
        "by a link": own_tmp / "jupyter_ddl-linklink",
        "the place itself": own_tmp,
        "in a folder of ours": own_tmp / "jupyter_ddl-abcdefgh" / "jupyter_ddl-abcdefgh",
        "of a stranger": own_tmp / "jupyter_ddl-stranger",
    }
    (own_tmp / "home").mkdir()
    (own_tmp / "linked").mkdir()
    (own_tmp / "jupyter_ddl-linklink").symlink_to(own_tmp / "linked")
    for path in made.values():
        path.mkdir(parents=True, exist_ok=True)
        (path / "ompi.thesis").write_text("mine")
    if os.geteuid() == 0:
        os.chown(made["of a stranger"], STRANGER, STRANGER)
    return made


@pytest.mark.parametrize("variable", ["TMPDIR", BACKING, "OMPI_MCA_btl_vader_backing_directory", "HOME"])
def test_nothing_else_is_ever_removed(variable: str, own_tmp: Path) -> None:
    made = not_ours(own_tmp)
    if os.geteuid() != 0:
        del made["of a stranger"]
    for path in made.values():
        scratch.clear({variable: str(path)})
        scratch.clear({variable: f"{path}/"})
        scratch.clear({variable: os.path.relpath(path)})
    assert all((path / "ompi.thesis").read_text() == "mine" for path in made.values())


@pytest.mark.parametrize("variables", [None, [], "text", 1, {"TMPDIR": 3}, {BACKING: None}, {BACKING: ["/"]}, {1: "/"}])
def test_whatever_a_file_says_of_temporary_folders(variables: object, own_tmp: Path) -> None:
    scratch.clear(variables)
    assert own_tmp.exists()
