"""Text output under a notebook's cell: while it runs, folded, complete on disk, short in the notebook."""

import json
import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.mpi

DEADLINE_S = 10


def last_run():
    """Return the folder of the newest run."""
    return max(Path(os.environ["JUPYTER_DDL_RUNS"]).iterdir(), key=lambda folder: folder.stat().st_mtime_ns)


def test_output_comes_while_the_cell_runs(notebook):
    cell = notebook.send("%%distributed\nimport time\nprint('early')\ntime.sleep(1.5)\nprint('late')")
    cell.wait_for("early")
    assert cell.seconds is None
    cell.wait()
    assert cell.lines == ["[0-1] early", "[0-1] late"]
    print(f"first output after {cell.shown_s[0]:.2f} s of {cell.seconds:.2f} s")
    assert cell.shown_s[0] < cell.seconds - 1


def test_the_same_shows_once_and_what_differs_by_rank(notebook):
    cell = notebook.run(
        "from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\nprint('same')\nprint('rank', rank)\nprint('same again')"
    )
    assert sorted(cell.lines) == sorted(["[0-1] same", "[0]   rank 0", "[1]   rank 1", "[0-1] same again"])


def test_a_carriage_return_rewrites_the_line(notebook):
    cell = notebook.send(
        "%%distributed\nimport sys, time\n"
        "for step in range(10):\n    sys.stdout.write(f'\\rstep {step}')\n    sys.stdout.flush()\n    time.sleep(0.1)"
    )
    cell.wait_for("step")
    assert cell.seconds is None
    assert cell.wait().lines == ["[0-1] step 9"]
    assert len(cell.outputs) == 1
    assert len(cell.shown_s) > 2


def test_tqdm_updates_in_place(notebook):
    cell = notebook.run(
        "from tqdm import tqdm\nimport time\nfor _ in tqdm(range(20), desc=f'rank {rank}'): time.sleep(0.05)"
    )
    assert len(cell.lines) == 2
    assert all("100%" in line and "20/20" in line for line in cell.lines)
    assert len(cell.outputs) == 1


def test_keras_progress_updates_in_place(notebook):
    cell = notebook.run(
        "import keras, numpy as np\n"
        "model = keras.Sequential([keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')\n"
        "model.fit(np.ones((64, 2)), np.ones((64, 1)), batch_size=2, epochs=2);"
    )
    assert cell.error is None
    assert sum("Epoch" in line for line in cell.lines) <= 4
    bars = [line for line in cell.lines if "32/32" in line]
    assert 2 <= len(bars) <= 4
    assert len([line for line in cell.lines if "WARNING: each of the 2 ranks" not in line]) <= 8


def test_output_of_c_and_of_child_processes(notebook):
    cell = notebook.run(
        "import ctypes, os, subprocess, sys\n"
        "print('python')\n"
        "os.write(1, b'descriptor 1\\n')\n"
        "os.write(2, b'descriptor 2\\n')\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.printf(b'printf %d\\n', 42)\nlibc.fflush(None)\n"
        "os.system('echo shell')\n"
        "subprocess.run(['echo', 'child'])\n"
        "print('stderr', file=sys.stderr);"
    )
    assert sorted(cell.lines) == sorted(
        f"[0-1] {line}" for line in ["python", "descriptor 1", "descriptor 2", "printf 42", "shell", "child", "stderr"]
    )


def test_c_output_that_is_not_flushed_is_there_at_the_end(notebook):
    # A line, and one that has not ended.
    cell = notebook.run("import ctypes\nctypes.CDLL(None).printf(b'held\\nback');")
    assert cell.error is None, cell.told
    logs = [path.read_text() for path in sorted(last_run().glob("rank-*.log"))]
    assert (cell.lines, logs) == (["[0-1] held", "[0-1] back"], ["held\nback"] * 2)


def test_a_line_that_c_prints_is_there_while_the_cell_runs(notebook):
    cell = notebook.run(
        "import ctypes, glob, os, time\n"
        "ctypes.CDLL(None).printf(b'at once\\n')\n"
        "logs = glob.glob(os.path.join(os.environ['JUPYTER_DDL_RUNS'], '*', f'rank-{rank}.log'))\n"
        "newest = max(logs, key=os.path.getmtime)\n"
        "deadline_s = time.monotonic() + 20\n"
        "while 'at once' not in open(newest).read() and time.monotonic() < deadline_s: time.sleep(0.05)\n"
        "print('at once' in open(newest).read())"
    )
    assert cell.lines == ["[0-1] at once", "[0-1] True"], cell.told


def test_logging_and_warnings(notebook):
    cell = notebook.run("import logging, warnings\nlogging.warning('logged')\nwarnings.warn('warned')")
    assert "[0-1] WARNING:root:logged" in cell.lines
    assert "UserWarning: warned" in cell.text


def test_a_flood_is_short_in_the_notebook_and_whole_on_disk(notebook):
    count = 100_000
    cell = notebook.run(f"for line in range({count}): print('line', line, 'of rank', rank)", timeout_s=120)
    assert cell.error is None
    size = len(json.dumps([output.data for output in cell.outputs]))
    print(f"{2 * count} lines: {size} bytes, {cell.seconds:.1f} s, {len(cell.shown_s)} updates")
    assert size < 100_000
    assert f"line {count - 1} of rank" in cell.text
    folder = last_run()
    assert f"more lines: %ddl logs {folder.name}" in cell.text
    for rank in (0, 1):
        lines = (folder / f"rank-{rank}.log").read_text().splitlines()
        assert lines == [f"line {line} of rank {rank}" for line in range(count)]


@pytest.mark.parametrize("length", [1_000_000, 50_000_000])
def test_a_long_line_is_bounded(notebook, length):
    cell = notebook.run(f"print('x' * {length})")
    assert cell.error is None
    # A flood shows with gaps, and what stands before and after a gap is not one line.
    assert len(cell.text) < (10_000 if length == 1_000_000 else 64_000)
    assert (last_run() / "rank-0.log").stat().st_size == length + 1
    assert len(notebook.execute("%ddl logs").text) < 10_000


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"\xc3", "�"),
        (b"nul \x00 here", "nul"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"<script>alert(1)</script>", "<script>alert(1)</script>"),
        (b"\x1b]0;title\x07after", "after"),
        ("grüße 日本 🎉".encode(), "grüße 日本 🎉"),
    ],
)
def test_odd_bytes_stay_text(notebook, written, shown):
    cell = notebook.run(f"import os\nos.write(1, {written!r} + b'\\n');")
    assert cell.error is None
    assert shown in cell.text
    assert "\x00" not in cell.text
    assert "\x1b" not in cell.text
    assert all(set(output.data) == {"text/plain"} for output in cell.outputs)
    assert (last_run() / "rank-1.log").read_bytes() == written + b"\n"


def test_a_character_cut_in_two_arrives_whole(notebook):
    cell = notebook.run("import os, time\nos.write(1, b'gr\\xc3')\ntime.sleep(0.4)\nos.write(1, b'\\xbcn\\n');")
    assert cell.lines == ["[0-1] grün"]


def test_a_surrogate_is_no_error(notebook):
    cell = notebook.run("print('half \\ud800 pair')")
    assert cell.error is None
    assert "half" in cell.text


def test_what_a_thread_prints_later_does_not_disturb_the_next_cell(notebook):
    notebook.run(
        "import threading, time\n"
        "def late():\n    time.sleep(0.5)\n    print('from the thread')\n"
        "threading.Thread(target=late).start()"
    )
    earlier = last_run()
    notebook.execute("import time; time.sleep(1)")
    cell = notebook.run("print('mine')")
    assert cell.lines == ["[0-1] mine"]
    assert "from the thread" in (earlier / "rank-0.log").read_text()


def test_an_unfinished_line_ends_with_its_cell(notebook):
    notebook.run("print('no newline', end='')")
    assert notebook.run("print('next')").lines == ["[0-1] next"]


def test_a_replaced_stdout_is_the_cells_own_business(notebook):
    cell = notebook.run(
        "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as text:\n    print('kept')\n"
        "text.getvalue()"
    )
    assert cell.lines == [r"[0-1] 'kept\n'"]


def test_a_closed_stdout_does_not_break_the_rank(notebook):
    notebook.run("import sys\nsys.stdout.close()")
    cell = notebook.run("import os\nos.write(1, b'still here\\n')\nprint('and Python')")
    assert cell.error is None
    assert cell.lines == ["[0-1] still here", "[0-1] and Python"]
