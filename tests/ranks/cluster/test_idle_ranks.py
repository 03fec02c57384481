"""Ranks that no cell uses end by themselves after the time that was chosen: with a kernel that is busy, or without."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import KernelError, eventually, gone_within, kernel, without

from jupyter_ddl import paths
from jupyter_ddl.cluster.ending_notes import log_file
from jupyter_ddl.cluster.idle_end import end_as_idle
from jupyter_ddl.cluster.use_lock import kept_from_use, note_use
from jupyter_ddl.oversight import clusters
from jupyter_ddl.oversight.table import clusters_table

if TYPE_CHECKING:
    from pathlib import Path

    from ranks.kernels import Kernel

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


BACK = "): offset, words. Random numbers are drawn from new seeds."
KEPT = """import threading
def shifted(x):
    return x + offset
offset = 10 * rank
lock = threading.Lock()
if rank == 1:
    words = ["only", "there"]"""


def test_what_cells_defined_is_kept_for_a_restart(bare: dict[str, str]) -> None:
    with kernel(bare) as other:
        other.do("import jupyter_ddl\ns = jupyter_ddl.start(n=2, name='k', idle_stop='3s', keep_variables=True)")
        other.do(f"s.run({KEPT!r})")
        said = ended_and_restarted(other)
        assert f"{BACK}\nNot kept, run their cells again:\n  lock: TypeError: cannot pickle" in said
        assert other.do("answer = s.run('offset = 1\\nshifted(rank)').ranks[1].value") == "2"
        assert other.do("answer = s.pull('words', [1])[1]") == ["only", "there"]
        # An administrator ends them, and the new ranks keep it too. Who does holds the ranks' lock meanwhile.
        folder = folder_of("k")
        with kept_from_use(folder.path) as is_free:
            assert is_free
            assert end_as_idle(folder, "an administrator", 60.0)
        assert ended_and_restarted(other).endswith(BACK)
        assert other.do("answer = s.run('shifted(rank)').ranks[1].value") == "2"
        other.do("s.stop()")
        assert not list((paths.clusters_dir().parent / "variables").iterdir())


SLOW = """import time
class Slow:
    def __reduce__(self):
        time.sleep(100)
        return str, ()
slow = Slow()"""


@pytest.mark.slow
def test_a_stop_does_not_wait_for_variables_that_take_long_to_save(bare: dict[str, str]) -> None:
    with kernel(bare) as other:
        other.do("import jupyter_ddl\ns = jupyter_ddl.start(n=2, name='slow', idle_stop='2s', keep_variables=True)")
        other.do(f"s.run({SLOW!r})")
        variables = paths.clusters_dir().parent / "variables"
        assert eventually(lambda: len(list(variables.glob("*/*rank-*.pickle*"))) == 2)
        began_s = time.monotonic()
        other.do("s.stop()")
        # Killed after 20 s, the lease would leave the ranks behind.
        assert time.monotonic() - began_s < 19
        assert not gone_within(other, 5.0)
        assert not list(variables.glob("*/kept.json"))


def ended_and_restarted(other: Kernel) -> str:
    """Wait until ranks have ended as idle, start them again with what they kept, and return what is said of that."""
    assert eventually(lambda: other.do("answer = s.why_lost is not None"))
    with pytest.raises(KernelError) as told:
        other.do("s.run('x')")
    assert str(told.value).endswith("is kept. %ddl restart starts it again, with its variables.")
    said: str = other.do("answer = s.restart(idle_stop='never')")
    assert said.startswith("The variables of the ranks before are back (")
    return said


@pytest.mark.slow
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
