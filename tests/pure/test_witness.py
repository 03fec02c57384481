"""The witness of a host: the world's folders are there while a rank lives, and gone once none does."""

from __future__ import annotations

import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.host import run_module
from jupyter_ddl.paths import WORLD_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WITNESSED = run_module.command("jupyter_ddl.cluster.witness")
RANK = "echo $TMPDIR $OMPI_MCA_btl_sm_backing_directory; touch $TMPDIR/ompi.host.0; read line"


def variables(temporary: Path, world_id: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "TMPDIR": str(temporary), WORLD_VARIABLE: world_id}


def folders(temporary: Path, world_id: str) -> list[Path]:
    return [place / f"jupyter_ddl-{world_id}" for place in (temporary, Path("/dev/shm"))]


@contextmanager
def daemon(temporary: Path, world_id: str, *ranks: str) -> Iterator[subprocess.Popen[str]]:
    """Run what stands for the ranks of a host, with their daemon, until its standard input closes."""
    each = [f"{shlex.join([*WITNESSED, 'sh', '-c', rank])} <&0 &" for rank in ranks]
    made = "export PMIX_SERVER_TMPDIR=$TMPDIR/prted.host.$$\nmkdir $PMIX_SERVER_TMPDIR\n"
    script = f"{made}exec 3<&0\n" + "\n".join(each).replace("<&0", "<&3") + "\nwait"
    command: Sequence[str] = ["sh", "-c", script]
    process = subprocess.Popen(
        command, env=variables(temporary, world_id), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        yield process


def wait_gone(*paths: Path) -> None:
    deadline_s = time.monotonic() + 30
    while left := [path for path in paths if path.exists()]:
        assert time.monotonic() < deadline_s, left
        time.sleep(0.02)


def test_the_folders_are_there_while_a_rank_lives(tmp_path: Path) -> None:
    world_id = f"pair{os.getpid()}"
    own = folders(tmp_path, world_id)
    with daemon(tmp_path, world_id, RANK, RANK) as running:
        assert running.stdout is not None
        for _ in range(2):
            assert running.stdout.readline().split() == [str(path) for path in own]
        assert all(path.stat().st_mode & 0o777 == 0o700 for path in own)
        of_daemon = tmp_path / f"prted.host.{running.pid}"
        assert of_daemon.is_dir()
    wait_gone(*own, of_daemon)


def test_the_witness_keeps_no_stream_of_the_rank_that_started_it(tmp_path: Path) -> None:
    """Intel MPI's Hydra leaves a rank a second descriptor of its output, and reads that to its end."""
    world_id = f"stream{os.getpid()}"
    reads, writes = os.pipe()
    command, own = [*WITNESSED, "sh", "-c", RANK], variables(tmp_path, world_id)
    with ExitStack() as stack:
        stack.callback(os.close, reads)
        ranks = []
        for passed in ((writes,), ()):
            rank = subprocess.Popen(command, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=passed)
            ranks.append(stack.enter_context(rank))
            assert rank.stdout is not None
            assert rank.stdout.readline()
        os.close(writes)
        ranks[0].kill()
        assert select.select([reads], [], [], 30)[0]
        assert os.read(reads, 1) == b""
        assert folders(tmp_path, world_id)[0].is_dir()
    wait_gone(*folders(tmp_path, world_id))


def test_what_the_user_left_stays(tmp_path: Path) -> None:
    world_id = f"mine{os.getpid()}"
    temporary, memory = folders(tmp_path, world_id)
    with daemon(tmp_path, world_id, "touch $TMPDIR/mine"):
        pass
    wait_gone(memory, temporary / "jupyter_ddl-ranks.lock")
    assert [path.name for path in temporary.iterdir()] == ["mine"]


def test_a_place_that_is_taken_is_not_used(tmp_path: Path) -> None:
    world_id = f"taken{os.getpid()}"
    temporary, memory = folders(tmp_path, world_id)
    temporary.write_text("a file")
    said = "import os; print(os.environ['TMPDIR'], 'OMPI_MCA_btl_sm_backing_directory' in os.environ)"
    program = [*WITNESSED, sys.executable, "-c", said]
    found = subprocess.run(
        program, env=variables(tmp_path, world_id), check=True, timeout=60, capture_output=True, text=True
    )
    assert found.stdout == f"{tmp_path} False\n"
    assert not memory.exists()


def test_what_apptainer_left_with_the_ranks_lock_is_ended(tmp_path: Path) -> None:
    """A program of the name of Apptainer's, which inherits the lock, and would hold it for good."""
    world_id = f"image{os.getpid()}"
    driver = tmp_path / "squashfuse_ll"
    shutil.copy(shutil.which("sleep") or "", driver)
    own = folders(tmp_path, world_id)
    with daemon(tmp_path, world_id, f"{driver} 600 >&2 & echo $!; read line") as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        # Not while a rank lives.
        time.sleep(2.5)
        assert Path(f"/proc/{pid}/comm").read_text() == "squashfuse_ll\n"
    wait_gone(*own, Path(f"/proc/{pid}"))


def test_what_a_world_left_whose_witness_was_killed_goes_with_the_next_one(tmp_path: Path) -> None:
    first, second = f"first{os.getpid()}", f"second{os.getpid()}"
    own = folders(tmp_path, first)
    with daemon(tmp_path, first, RANK) as running:
        own.append(tmp_path / f"prted.host.{running.pid}")
        assert running.stdout is not None
        running.stdout.readline()
        for pid in witnesses_of(tmp_path / f"jupyter_ddl-{first}"):
            os.kill(pid, signal.SIGKILL)
        # While a rank of it lives, all of it stays.
        with daemon(tmp_path, second, RANK) as other:
            assert other.stdout is not None
            other.stdout.readline()
        wait_gone(*folders(tmp_path, second))
        assert all(path.is_dir() for path in own)
    assert all(path.is_dir() for path in own)
    with daemon(tmp_path, second, RANK):
        wait_gone(*own)
    wait_gone(*folders(tmp_path, second))


def witnesses_of(folder: Path) -> list[int]:
    """Return the processes that have the witness's lock of a world open."""
    lock, found = folder / "jupyter_ddl-witness.lock", []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(one.readlink() == lock for one in (process / "fd").iterdir()):
                found.append(int(process.name))
    return found


def test_a_rank_that_holds_more_than_its_site_allows_is_ended_with_a_note_of_it(tmp_path: Path) -> None:
    world_id = f"memory{os.getpid()}"
    (tmp_path / "log").mkdir()
    limit = {"most_bytes": 200_000_000, "by": "the profile small"}
    settings = {"world_id": world_id, "folder": str(tmp_path), "apart": {}, "memory": limit}
    # What a rank does: it notes its process, here once it holds all, as the witness may look while memory is
    # written. The second one is within the limit.
    program = """
import json, os, pathlib, socket, sys
rank, mib, folder = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
held = b"x" * mib * 2**20
note = {"rank": rank, "host": socket.gethostname(), "pid": os.getpid()}
(folder / "new").with_suffix(f".{rank}").write_text(json.dumps(note))
(folder / "new").with_suffix(f".{rank}").rename(folder / f"rank-{rank}.process")
print("up", flush=True)
sys.stdin.read()
"""
    own = {**variables(tmp_path, world_id), "JUPYTER_DDL_RANKS": json.dumps(settings)}
    with ExitStack() as stack:
        ranks = []
        for rank, mib in ((0, 300), (1, 100)):
            command = [*WITNESSED, sys.executable, "-c", program, str(rank), str(mib), str(tmp_path / "log")]
            process = subprocess.Popen(command, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            ranks.append(stack.enter_context(process))
        assert ranks[0].wait(30) == -signal.SIGKILL
        excess = json.loads((tmp_path / "log" / "rank-0.excess").read_text())
        assert 300 * 2**20 < excess.pop("held_bytes") < 400 * 2**20
        assert excess == {"processes": 1, "on_gpu": False, **limit}
        assert ranks[1].stdout is not None
        assert ranks[1].stdout.readline() == b"up\n"
        with suppress(subprocess.TimeoutExpired):
            assert not ranks[1].wait(3)
        assert ranks[1].poll() is None
        assert not (tmp_path / "log" / "rank-1.excess").exists()
    wait_gone(*folders(tmp_path, world_id))
