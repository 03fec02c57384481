"""jupyter_ddl.data.load_once: one copy a host."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from ranks.kernel import Kernel

pytestmark = pytest.mark.mpi

LOAD = """
import os
import numpy as np, psutil
import jupyter_ddl.data as data
import jupyter_ddl.keras as hvd
hvd.init()
calls = []
def load():
    calls.append(rank)
    return {'x': np.arange(8_000_000, dtype='float32').reshape(-1, 4), 'y': (np.ones(3, 'int8'), np.zeros(0))}
def own_mb():
    return psutil.Process().memory_full_info().uss / 2**20
before = own_mb()
loaded = data.load_once(load)
total = float(loaded['x'].sum(dtype='float64'))
"""
# In a cell of its own: what one rank has read and the other has not yet is as good as its own.
GROWN = "grown = own_mb() - before"


def test_one_rank_loads_and_all_share_its_memory(notebook: Kernel) -> None:
    # What the ranks import meanwhile would be counted.
    notebook.run("import tensorflow, keras")
    cell = notebook.run(LOAD)
    assert cell.error is None, cell.told
    notebook.run(GROWN)
    # 32 MB: each rank reads all of it, and has next to nothing of it to itself.
    cell = notebook.run("total == sum(range(8_000_000)), loaded['x'].shape, loaded['y'][0].dtype.name, grown < 20")
    assert cell.lines == ["[0-1] (True, (2000000, 4), 'int8', True)"]
    assert notebook.run("len(calls)").lines == ["[0]   1", "[1]   0"]


def test_a_rank_that_writes_changes_its_own(notebook: Kernel) -> None:
    notebook.run("if rank == 0: loaded['y'][0][:] = 7")
    assert notebook.run("loaded['y'][0].tolist()").lines == ["[0]   [7, 7, 7]", "[1]   [1, 1, 1]"]


def test_nothing_is_left_behind(notebook: Kernel) -> None:
    cell = notebook.run("[name for name in os.listdir('/dev/shm') if name.startswith('jupyter_ddl-cache-')]")
    assert cell.lines == ["[0-1] []"]


def test_what_is_no_array_is_told(notebook: Kernel) -> None:
    told = notebook.run("data.load_once(lambda: {'names': ['a', object()]})").told
    assert "jupyter_ddl.data.load_once shares arrays of numbers. Received: builtins.object of dtype object." in told


def test_no_room_says_of_each_place_why(notebook: Kernel) -> None:
    told = notebook.run("data.load_once(lambda: np.broadcast_to(np.zeros(1, 'int8'), (10**16,)))").told
    assert "InvalidInput: What is loaded once needs room where all ranks of this host find it: 10,000 TB. " in told
    assert "/dev/shm has room for " in told
    assert "; /tmp has room for " in told
    assert " Set TMPDIR to a folder with room." in told


def test_what_is_made_once_is_made_on_rank_0(notebook: Kernel, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    cell = notebook.run(
        "made = []\n"
        f"folder = data.make_once(lambda: (made.append(rank), os.mkdir({str(folder)!r}), {str(folder)!r})[-1])\n"
        "os.path.isdir(folder), folder == data.make_once(lambda: folder)"
    )
    assert cell.lines == ["[0-1] (True, True)"]
    assert notebook.run("made").lines == ["[0]   [0]", "[1]   []"]


def test_what_fails_on_rank_0_fails_on_all(notebook: Kernel, tmp_path: Path) -> None:
    cell = notebook.run(
        "try:\n"
        f"    data.make_once(lambda: os.mkdir({str(tmp_path)!r}))\n"
        "except Exception as error:\n"
        "    found = str(error)\n"
        "found.replace(' ', '_')"
    )
    first, second = cell.lines
    assert "[Errno_17]_File_exists:" in first
    assert "What_jupyter_ddl.data.make_once_calls_on_rank_0_must_succeed_there._Received:_FileExistsError:" in second


# A job of one process, with a ramdisk of its own, that is killed while it writes.
KILLED = """
import os, sys
from jupyter_ddl.pipelines import storage
storage.PLACES["ramdisk"] = (sys.argv[1],)
import numpy as np
import horovod.tensorflow as hvd
import jupyter_ddl.data as data
hvd.init()
np.save = lambda file, array: (file.write_bytes(b'half'), os.kill(os.getpid(), 9))
data.load_once(lambda: np.ones(3))
"""
NEXT_USE = """
from jupyter_ddl.pipelines import storage
usual = storage.PLACES["ramdisk"]
storage.PLACES["ramdisk"] = ({0!r},)
try:
    found = data.load_once(lambda: np.ones(3)).sum()
finally:
    storage.PLACES["ramdisk"] = usual
found.tolist() == 3
"""


def test_what_a_killed_rank_left_goes_at_the_next_use(notebook: Kernel, tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    assert notebook.run(NEXT_USE.format(str(tmp_path))).lines == ["[0-1] True"]
    assert not list(tmp_path.iterdir())
