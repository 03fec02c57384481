"""Where caches go: places with room on this node, and folders that are cleared away, ours alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from jupyter_ddl.errors import FolderNotPrivate, InvalidInput
from jupyter_ddl.host import process_identity
from jupyter_ddl.pipelines import owned_folders, storage
from jupyter_ddl.pipelines.owned_folders import MARK, PREFIX, own_folder, remove_stale

GB = 10**9


@pytest.fixture
def disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the places of a node folders of this test, on what the machine has there."""
    monkeypatch.setattr(
        storage,
        "PLACES",
        {"ramdisk": (f"{tmp_path}/memory", f"{tmp_path}/shm"), "nvme": ("$SLURM_TMPDIR", "$TMPDIR", f"{tmp_path}/mnt")},
    )
    monkeypatch.delenv("SLURM_TMPDIR", raising=False)
    monkeypatch.delenv("TMPDIR", raising=False)
    # What the machine that runs the tests has below tmp_path says nothing here.
    monkeypatch.setattr(storage, "_file_system", lambda path, mounts: "tmpfs" if path.name == "memory" else "ext4")
    return tmp_path


def test_the_first_place_that_is_there(disks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (disks / "shm").mkdir()
    (disks / "mnt").mkdir()
    assert storage.find_place("ramdisk", 1).path == disks / "shm"
    assert storage.find_place("nvme", 1).path == disks / "mnt"
    (disks / "memory").mkdir()
    (disks / "job").mkdir()
    monkeypatch.setenv("SLURM_TMPDIR", str(disks / "job"))
    monkeypatch.setenv("TMPDIR", str(disks / "shm"))
    assert storage.find_place("ramdisk", 1).path == disks / "memory"
    assert storage.find_place("nvme", 1).path == disks / "job"
    assert storage.find_place(disks, 1).path == disks


def test_no_room_says_of_each_place_why(disks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (disks / "memory").mkdir()
    monkeypatch.setenv("TMPDIR", str(disks / "memory"))
    with pytest.raises(InvalidInput) as raised:
        storage.find_place("nvme", 3 * GB)
    assert str(raised.value) == (
        "A cache needs room: 3 GB for the ranks of this host. Received: $SLURM_TMPDIR is not set; $TMPDIR is memory, "
        f"not a disk; {disks}/mnt is no folder here. Pass a folder with more room as where=..., cache smaller elements "
        "(before they are decoded), or do not cache."
    )
    with pytest.raises(InvalidInput, match=r"/memory has room for [\d.,]+ .B; .*/shm is no folder here"):
        storage.find_place("ramdisk", 10**18)


def test_a_disk_on_a_network_is_none_of_this_node(disks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(disks))
    monkeypatch.setattr(storage, "_file_system", lambda path, mounts: "lustre")
    with pytest.raises(InvalidInput, match=r"\$TMPDIR is on a network \(lustre\)"):
        storage.find_place("nvme", 1)
    assert storage.find_place(disks, 1).path == disks, "but the user may name it"


def test_the_innermost_mount_counts(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    mounts = {"/": "ext4", str(tmp_path): "lustre", str(inner): "tmpfs", "/other": "nfs"}
    assert storage._file_system(inner / "deeper", mounts) == "tmpfs"
    assert storage._file_system(tmp_path, mounts) == "lustre"
    assert storage._file_system(Path("/other-one"), mounts) == "ext4"


def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root may write anywhere, so it is asked in another's place.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InvalidInput, match="cannot be written to"):
        storage.find_place(tmp_path, 1)


def test_memory() -> None:
    assert storage.check_memory(1).path is None
    with pytest.raises(InvalidInput) as raised:
        storage.check_memory(10**18)
    assert str(raised.value).startswith("A cache in memory needs room: 1,000,000 TB for the ranks of this host. ")
    assert str(raised.value).endswith(' free. Pass where="nvme", or cache smaller elements (before they are decoded).')


def test_a_job_s_share_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    held = psutil.Process().memory_info().rss
    monkeypatch.setattr(storage, "memory_limit_bytes", lambda: held + 100 * 10**6)
    assert storage.check_memory(1).free_bytes == pytest.approx(95e6, rel=0.1)
    monkeypatch.setattr(storage, "memory_limit_bytes", lambda: 1)
    with pytest.raises(InvalidInput, match="0 B free"):
        storage.check_memory(1)


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 B"), (999, "999 B"), (3200, "3.2 kB"), (64e6, "64 MB"), (2.5e12, "2.5 TB")]
)
def test_sizes(number: float, told: str) -> None:
    assert storage.size(number) == told


# --- folders ---------------------------------------------------------------------------------------------------------


def child(place: Path, ending: str) -> subprocess.CompletedProcess[str]:
    """Run a process that makes its folder, writes to it, and ends in some way; it prints the folder."""
    program = (
        "import os, sys; from pathlib import Path; from jupyter_ddl.pipelines.owned_folders import own_folder\n"
        f"folder = own_folder(Path({str(place)!r})); (folder / 'data').write_text('x'); print(folder, flush=True)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program + ending], capture_output=True, text=True, check=False, timeout=60
    )


def test_a_folder_is_its_process_s_alone_and_goes_with_it(tmp_path: Path) -> None:
    done = child(tmp_path, "print(oct(folder.stat().st_mode & 0o777), own_folder(folder.parent) == folder)")
    assert done.stdout.split()[1:] == ["0o700", "True"], done.stderr
    assert not list(tmp_path.iterdir())


def test_it_goes_after_an_error_too(tmp_path: Path) -> None:
    assert child(tmp_path, "raise SystemExit('no data today')").stderr == "no data today\n"
    assert not list(tmp_path.iterdir())


def test_a_child_leaves_its_parent_s_folder(tmp_path: Path) -> None:
    ending = "pid = os.fork()\nif not pid: sys.exit()\nos.waitpid(pid, 0); print((folder / 'data').exists())"
    assert child(tmp_path, ending).stdout.split()[-1] == "True"


def test_what_a_killed_process_left_goes_at_the_next_use(tmp_path: Path) -> None:
    killed = child(tmp_path, "os.kill(os.getpid(), 9)")
    assert killed.returncode == -signal.SIGKILL
    left = Path(killed.stdout.strip())
    assert (left / "data").exists()
    assert own_folder(tmp_path).exists()
    assert not left.exists()
    assert own_folder(tmp_path) == own_folder(tmp_path / ".")


def test_nothing_that_is_not_ours_is_removed(tmp_path: Path) -> None:
    stale = json.loads((own_folder(tmp_path) / MARK).read_text()) | {"start_ticks": 1}

    def folder(name: str, mark: object, mode: int = 0o700) -> Path:
        path = tmp_path / name
        path.mkdir(mode=mode)
        if mark is not None:
            (path / MARK).write_text(mark if isinstance(mark, str) else json.dumps(mark))
        return path

    kept = [
        folder(f"{PREFIX}unmarked", None),
        folder(f"{PREFIX}half-written", '{"pid": 1'),
        folder(f"{PREFIX}list", [1]),
        folder(f"{PREFIX}another-host", stale | {"host": "another"}),
        folder(f"{PREFIX}another-boot", stale | {"boot": "another"}),
        folder(f"{PREFIX}another-container", stale | {"pid_namespace": "pid:[1]"}),
        folder(f"{PREFIX}open-to-all", stale, mode=0o755),
        folder(f"{PREFIX}alive", {**stale, "pid": os.getppid(), "start_ticks": _start_of(os.getppid())}),
        folder("another-program's", stale),
    ]
    (tmp_path / f"{PREFIX}link").symlink_to(kept[-1])
    gone = folder(f"{PREFIX}stale", stale)
    assert remove_stale(tmp_path) == [gone]
    assert all(path.exists() for path in kept)


def test_another_user_s_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = json.loads((own_folder(tmp_path) / MARK).read_text()) | {"start_ticks": 1}
    path = tmp_path / f"{PREFIX}other"
    path.mkdir(mode=0o700)
    (path / MARK).write_text(json.dumps(mark))
    monkeypatch.setattr(owned_folders.os, "getuid", lambda: os.geteuid() + 1)
    assert remove_stale(tmp_path) == []


def _start_of(pid: int) -> object:
    found = process_identity.of(pid)
    assert found is not None
    return found["start_ticks"]


def test_a_place_where_others_can_replace_a_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(
        FolderNotPrivate, match=rf"every user can write to {tmp_path}, mode 0777.*or set where= to a folder"
    ):
        own_folder(tmp_path)
    assert not list(tmp_path.iterdir())
    tmp_path.chmod(0o1777)
    assert own_folder(tmp_path).parent == tmp_path
