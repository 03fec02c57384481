"""A site's limit of memory, on real ranks: the one that passes it is ended and named, and the next cell works."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from ranks.kernels import without
from ranks.script_jobs import RANK, run

import jupyter_ddl
from jupyter_ddl.errors import ClusterLost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

MOST = 400_000_000
GONE_S = 30.0
# A rank that has imported nothing holds a quarter of this.
GROWS = """
import time
print("before", rank, flush=True)
held = []
while True:
    held.append(b"x" * 20_000_000)
    time.sleep(0.05)
"""
WAITS = "import time\ntime.sleep(600)\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give the file of a site's profiles."""
    folder = tmp_path_factory.mktemp("site")
    file = folder / "jupyter_ddl.d" / "site.toml"
    file.parent.mkdir()
    file.write_text(f'[small]\nlimits = {{memory_per_rank = "{MOST // 10**6}MB"}}\n')
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("JUPYTER_CONFIG_DIR", str(folder))
        yield file


@pytest.fixture(scope="module")
def session(site: Path) -> Iterator[Session]:
    """Give two ranks that have no TensorFlow to import, under the site's limit."""
    made = jupyter_ddl.start(n=2, name="limited", profile="small", env=without(site.parent, "tensorflow"))
    yield made
    made.stop()


def lost(session: Session, code: str) -> str:
    """Run a cell that passes the limit; return what it raised, once the next cell has worked and nothing is left."""
    session.run("mine = rank")
    before = {ready.pid for ready in session.ranks}
    there = [psutil.Process(pid) for pid in before]
    with pytest.raises(ClusterLost) as error:
        session.run(code)
    result = session.run("('mine' in globals(), rank)")
    assert [result.ranks[rank].value for rank in range(2)] == ["(False, 0)", "(False, 1)"]
    assert not before & {ready.pid for ready in session.ranks}
    _, alive = psutil.wait_procs(there, timeout=GONE_S)
    assert not alive
    return str(error.value)


def test_a_rank_that_holds_too_much_is_named_with_what_it_held_and_who_set_the_limit(
    session: Session, site: Path
) -> None:
    assert session.note.endswith(" Each may hold 400MB of memory (the profile small).")
    text = lost(session, f"if rank == 1:\n    {GROWS.strip().replace(chr(10), chr(10) + '    ')}\n{WAITS}")
    host = os.uname().nodename
    assert text.startswith(
        f"Ranks must live to the end of the cell. Received: rank 1 on {host} was ended, since it held "
    ), text
    assert "of memory" in text
    assert " and may hold 0.373 GiB. The limit is set by the profile small " in text
    assert f"(memory_per_rank = 400MB in {site}). Take smaller batches or fewer worker processes, " in text
    assert "2 new ranks are being started on the same devices: the next cell waits for them. The variables" in text


def test_its_record_has_the_fault_and_what_it_printed(session: Session) -> None:
    lost(session, GROWS)
    folder = max(
        path for path in jupyter_ddl.paths.runs_dir().glob("*-limited-*") if "held" in (path / "cell.py").read_text()
    )
    fault = json.loads((folder / "run.json").read_text())["fault"]
    assert (fault["kind"], fault["subject"], fault["cause"]) == ("lost", "rank", "memory limit")
    assert fault["facts"]["excess"]["held_bytes"] > fault["facts"]["excess"]["most_bytes"] == MOST
    assert [(folder / f"rank-{rank}.log").read_text() for rank in range(2)] == ["before 0\n", "before 1\n"]


@pytest.mark.parametrize(
    "starts",
    [
        pytest.param("children = [subprocess.Popen(command)]", id="a child"),
        # Its own parent is gone, and it is in a session of its own.
        pytest.param(
            "subprocess.run(['sh', '-c', 'setsid \"$@\" & echo $!', '-', *command], check=True)", id="a daemon"
        ),
        pytest.param(
            "import multiprocessing\n"
            "pool = multiprocessing.get_context('fork').Pool(2)\n"
            "sizes = pool.map(holds, [180_000_000] * 2, chunksize=1)",
            id="workers",
        ),
    ],
)
def test_what_a_rank_has_started_counts_and_ends_with_it(session: Session, starts: str) -> None:
    code = (
        "import subprocess, sys, time\n"
        "def holds(size):\n    held = b'x' * size\n    time.sleep(600)\n"
        "command = [sys.executable, '-c', 'held = b\"x\" * 350_000_000; import time; time.sleep(601.25)']\n"
        f"if rank == 0:\n    {starts.replace(chr(10), chr(10) + '    ')}\n{WAITS}"
    )
    text = lost(session, code)
    assert "Received: rank 0 on " in text
    assert " processes and may hold 0.373 GiB. " in text
    until_s = time.monotonic() + GONE_S
    while any("601.25" in " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])):
        assert time.monotonic() < until_s
        time.sleep(0.1)


def test_ranks_that_stay_below_it_are_left_alone(session: Session) -> None:
    session.run("x = rank")
    before = [ready.pid for ready in session.ranks]
    # All but a tenth, and far more address space than anybody has.
    session.run(f"""
import mmap, re, time
reserved = mmap.mmap(-1, 2**40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
pages = dict(re.findall(r"(Pss_\\w+): +(\\d+) kB", open("/proc/self/smaps_rollup").read()))
held = b"x" * (int(0.9 * {MOST}) - 1024 * (int(pages["Pss_Anon"]) + int(pages["Pss_Shmem"])))
time.sleep(4)
""")
    assert session.run("x").ranks[1].value == "1"
    assert [ready.pid for ready in session.ranks] == before


def test_a_script_under_it_ends_likewise(tmp_path: Path, site: Path) -> None:
    done = run(tmp_path, f"{RANK}{GROWS}", "-n2", "--no-legacy", "--profile=small")
    assert done.returncode == 137
    assert "was ended, since it held " in done.stderr
    assert f"The limit is set by the profile small (memory_per_rank = 400MB in {site})." in done.stderr
    assert "before" in done.stdout
    done = run(tmp_path, f"{RANK}import time\ntime.sleep(3)\nprint('well')", "-n2", "--no-legacy", "--profile=small")
    assert (done.returncode, "well" in done.stdout) == (0, True)


ADVISED = "from jupyter_ddl.memory.device import capacity\ncapacity(2)"


def test_advice_is_within_it(session: Session, tmp_path: Path, site: Path) -> None:
    by = f"the profile small (memory_per_rank = 400MB in {site})"
    expected = f"Capacity(size_bytes={MOST}, what='a rank may hold, by {by}', is_gpu=False)"
    assert {rank.value for rank in session.run(ADVISED).ranks.values()} == {expected}
