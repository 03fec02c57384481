"""Ranks that no cell uses end by themselves after the time that was chosen: with a kernel that is busy, or without."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import KernelError, eventually, gone_within, kernel, without

from jupyter_ddl import paths
from jupyter_ddl.cluster.ending_notes import log_file
from jupyter_ddl.cluster.use_lock import note_use
from jupyter_ddl.oversight import clusters
from jupyter_ddl.oversight.table import clusters_table

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.cluster.folder import ClusterFolder

pytestmark = pytest.mark.mpi

START = "import jupyter_ddl\ns = jupyter_ddl.start(n=2, name={name!r}, idle_stop={idle_stop!r}, keep={keep})"
SLEEP = "import time\ntime.sleep({seconds})"
UNTIL = """import time, pathlib
pathlib.Path({end!r} + '.begun').touch()
while not pathlib.Path({end!r}).exists():
    time.sleep(0.05)"""


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Clusters of other tests are none of these; ranks need no TensorFlow."""
    monkeypatch.setenv(paths.RUNTIME_VARIABLE, str(tmp_path / "runtime"))
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    return without(tmp_path, "tensorflow")


def start(name: str, idle_stop: str, *, keep: bool = False) -> str:
    return START.format(name=name, idle_stop=idle_stop, keep=keep)


def folder_of(name: str) -> ClusterFolder:
    (found,) = [folder for folder, summary in clusters.found() if summary.name == name]
    return found


def test_they_end_while_their_kernel_is_busy_and_a_restart_starts_them_again(bare: dict[str, str]) -> None:
    with kernel(bare) as other:
        other.do(start("idle", "3s"))
        # A cell that takes longer is no idle time.
        assert other.do(f"answer = s.run({SLEEP.format(seconds=5)!r} + chr(10) + 'x = rank').outcome") == "finished"
        assert eventually(lambda: ", ends in " in clusters_table([one for _, one in clusters.found()]))
        # Its main thread is busy with other work.
        other.send("import time\ntime.sleep(12)\nanswer = s.why_lost.subject")
        assert not gone_within(other, 9.0)
        assert other.answer() == "idle"
        with pytest.raises(KernelError) as told:
            other.do("s.run('x')")
        said = str(told.value)
        assert said.startswith(
            "NoCluster: Ranks must run. Received: the cluster 'idle' was stopped by --idle-stop 3s, after "
        )
        assert said.endswith(" s without a run; what its cells defined is lost. %ddl restart starts it again.")
        assert "idle (2 ranks) was stopped by --idle-stop 3s, after " in log_file().read_text()
        assert other.do("s.restart(idle_stop='never')\nanswer = s.run('10 * rank').ranks[1].value") == "10"
        assert other.do("answer = s.idle_count") is None


def test_kept_ranks_end_without_a_kernel_once_their_cell_has_ended(bare: dict[str, str], tmp_path: Path) -> None:
    end = tmp_path / "end"
    with kernel(bare) as other:
        other.do(start("kept", "2s", keep=True))
        other.send(f"s.run({UNTIL.format(end=str(end))!r})")
        assert eventually((tmp_path / "end.begun").exists)
        other.kill()
        time.sleep(4.0)
        assert len(other.descendants()) > 2
        end.touch()
        assert not gone_within(other, 20.0)


def test_their_time_is_counted_anew_where_a_user_keeps_them(bare: dict[str, str]) -> None:
    with kernel(bare) as other:
        other.do(start("wanted", "4s"))
        other.do("s.run('x = 1')")
        folder = folder_of("wanted")
        for _ in range(3):
            time.sleep(2.5)
            other.do("s.idle_count.restart()")
        assert other.do("answer = s.pull('x')[0]") == 1
        left_s = other.do("import time\nanswer = s.describe()['idle_ends_at_s'] - time.time()")
        assert 3.0 < left_s <= 4.0
        # Another kernel's use counts too.
        ends_s = other.do("answer = s.idle_count.ends_at_s")
        time.sleep(2.0)
        note_use(folder.path)
        assert eventually(lambda: other.do("answer = s.idle_count.ends_at_s") > ends_s + 1.0)
        assert not gone_within(other, 12.0)
