"""What ran on real ranks is listed, shown again, read and pruned: in the notebook, and in a terminal beside it."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from ranks.kernels import eventually, kernel, without

from jupyter_ddl.cli import main
from jupyter_ddl.protocol import number_texts as figure
from jupyter_ddl.runs.store import newest_first, read_record

pytestmark = pytest.mark.mpi

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
TIMEOUT_S = 60
# Ranks that say the same fold however their output arrives; what they say apart has no order between ranks.
TALK = """
import sys
print('same')
print('rank', rank)
print('problem of', rank, file=sys.stderr)
rank * 10
"""


def terminal(*arguments):
    """Return what `jupyter ddl ...` prints."""
    with redirect_stdout(StringIO()) as printed:
        assert main(arguments) == 0
    return printed.getvalue()


def lines_under_heading(shown):
    return [line for output in shown.outputs[1:] for line in output.data["text/plain"].splitlines()]


def newest():
    return next(newest_first())


def test_a_cell_is_listed_with_its_outcome(notebook):
    assert notebook.run("print('hello')").error is None
    run = newest().run
    listed = notebook.execute("%ddl runs -n 1")
    assert listed.error is None
    heading, line = listed.lines[:2]
    assert heading.split() == ["run", "when", "ranks", "outcome", "took", "samples/s", "loss"]
    assert re.match(rf"{run}  just now +0-1 +finished +\d[\d.]* s$", line)
    assert re.search(rf"{run}  .* +0-1 +finished +\d[\d.]* s\n", terminal("runs"))


def test_a_cell_that_trains_is_listed_with_its_speed_and_loss(notebook, tmp_path):
    cell = notebook.run(
        "import keras, numpy as np, time, jupyter_ddl\n"
        "jupyter_ddl.log_params(data='ones', batch_size=4)\n"
        "import jupyter_ddl.keras as hvd\n"
        "hvd.init()\n"
        "model = keras.Sequential([keras.layers.Dense(1)])\n"
        "model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), 'mse')\n"
        "class Slow(keras.callbacks.Callback):\n"
        "    def on_train_batch_end(self, batch, logs=None): time.sleep(0.02)\n"
        "callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), Slow()]\n"
        f"if rank == 0: callbacks.append(keras.callbacks.TensorBoard({str(tmp_path / 'logs')!r}))\n"
        "model.fit(np.ones((64, 2)), np.ones((64, 1)), batch_size=2, epochs=2, verbose=0, callbacks=callbacks);",
        timeout_s=120,
    )
    assert cell.error is None, cell.told
    record = newest()
    line = terminal("runs", "-n", "1").splitlines()[1]
    assert record.samples_per_s is not None
    assert record.samples_per_s > 0
    assert record.loss is not None
    assert line.endswith(f"  {figure.number(record.samples_per_s)}  {figure.loss(record.loss)}")
    assert record.first_line == "import keras, numpy as np, time, jupyter_ddl"
    assert record.cell_number is not None
    model = record.parameters.pop("model")
    assert str(model).startswith("sequential")
    of_cell = {
        "data": "ones",
        # The user's own, and not what `fit` was given.
        "batch_size": 4,
        "model_parameters": 3,
        "epochs": 2,
        "steps_per_epoch": 32,
        "optimizer": "SGD",
        "learning_rate": 0.01,
        "loss": "mse",
        # Which %ddl tensorboard shows.
        "tensorboard": str(tmp_path / "logs"),
    }
    assert record.parameters == of_cell
    logged = notebook.execute("import jupyter_ddl\njupyter_ddl.log_params(seed=3)")
    assert logged.error is None
    assert newest().parameters == {"model": model, **of_cell, "seed": 3}


def test_a_run_is_shown_as_it_showed(notebook):
    cell = notebook.run(TALK)
    run = newest().run
    shown = notebook.execute("%ddl show")
    assert shown.error is None
    heading, lines = shown.outputs[0].data["text/plain"].strip(), lines_under_heading(shown)
    assert re.fullmatch(rf"{run}: ranks 0-1; finished after [\d.]+ s", heading)
    assert sorted(lines) == sorted(cell.lines)
    assert {output.kind for output in shown.outputs[1:]} == {"display_data"}
    # An earlier one by a part of its id, when another is the newest.
    notebook.run("print('another')")
    again = notebook.execute(f"%ddl show {run[-10:]}")
    assert again.lines[0] == heading
    assert lines_under_heading(again) == lines


def test_what_a_thread_says_after_the_cell_is_in_the_logs_alone(notebook):
    notebook.run(
        "import threading, time\n"
        "def late():\n    time.sleep(0.3)\n    print('from the thread')\n"
        "threading.Thread(target=late).start()\nprint('from the cell')"
    )
    run = newest().run
    assert eventually(lambda: terminal("logs", run).count("[1] from the thread\n") == 1)
    assert terminal("show", run).splitlines()[1:] == ["[0-1] from the cell"]


def test_figures_are_shown_again_and_the_first_cell_stays_as_it_is(notebook):
    cell = notebook.run(
        "from IPython.display import HTML, display\n"
        "handle = display(HTML(f'<b>{rank} begins</b>'), display_id=True)\n"
        "handle.update(HTML(f'<b>{rank} ends</b>'));"
    )
    html = {"<b>0 ends</b>", "<b>1 ends</b>"}
    assert {output.data.get("text/html") for output in cell.outputs} - {None} == html
    before = [output.data for output in cell.outputs]
    updates = len(cell.shown_s)
    shown = notebook.execute("%ddl show")
    assert {output.data.get("text/html") for output in shown.outputs} - {None} == html
    assert ([output.data for output in cell.outputs], len(cell.shown_s)) == (before, updates)


def test_a_failure_is_told_again_as_it_was_told(notebook):
    cell = notebook.run("print('before')\nif rank == 1: raise ValueError('no such luck')\nimport time\ntime.sleep(30)")
    assert cell.error is not None
    assert newest().state == "failed"
    shown = notebook.execute("%ddl show")
    assert shown.error is None
    assert cell.told in shown.text
    assert "Rank 0 aborted because rank 1 raised" in shown.text
    in_terminal = terminal("show")
    assert COLOURS.sub("", cell.told).split() == in_terminal[in_terminal.index("Rank 1 of 2") :].split()


def test_logs_by_rank_stream_pattern_and_end(notebook):
    notebook.run(TALK + "\nfor step in range(100): print('step', step)")
    run = newest().run
    logs = notebook.execute(f"%ddl logs {run}")
    assert logs.error is None
    for rank in (0, 1):
        own = [line.removeprefix(f"[{rank}] ") for line in logs.lines if line.startswith(f"[{rank}] ")]
        assert sorted(own) == sorted(
            ["same", f"rank {rank}", f"problem of {rank}", *(f"step {step}" for step in range(100))]
        )
    assert logs.text.strip() == terminal("logs", run).strip()
    assert notebook.execute("%ddl logs --stderr").lines == ["[0] problem of 0", "[1] problem of 1"]
    assert notebook.execute(r"%ddl logs -r 1 --grep ^step\s\d$ --tail 2").lines == ["[1] step 8", "[1] step 9"]
    assert terminal("logs", "-r", "0", "--grep", "rank") == "[0] rank 0\n"
    refused = notebook.execute("%ddl logs -r 2")
    assert "Received: rank 2, world_size=2." in refused.told


def test_the_rest_of_a_flood_is_the_command_away_that_the_cell_names(notebook):
    cell = notebook.run("for line in range(3_000): print('line', line, 'of rank', rank)")
    command = re.search(r"… [\d,]+ more lines: (%ddl logs \S+)", cell.text)[1]
    logs = notebook.execute(command)
    assert logs.lines == [f"[{rank}] line {line} of rank {rank}" for rank in (0, 1) for line in range(3_000)]


def test_logs_are_followed_while_the_cell_runs(notebook):
    cell = notebook.send(
        "%%distributed\nimport time\nprint('begun', flush=True)\n"
        "for step in range(4):\n    time.sleep(0.3)\n    print('step', step, flush=True)"
    )
    cell.wait_for("begun")
    command = [sys.executable, "-m", "jupyter_ddl.cli", "logs", "-f", "-r", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout.readline() == "[1] begun\n"
        assert newest().state == "running"
        assert re.search(r"  0-1 +running  ", terminal("runs", "-n", "1"))
        assert follower.wait(TIMEOUT_S) == 0
        assert follower.stdout.read() == "".join(f"[1] step {step}\n" for step in range(4))
    assert cell.wait().error is None


def test_pruning_leaves_what_runs(notebook):
    for number in range(3):
        notebook.run(f"print({number})")
    cell = notebook.send("%%distributed\nimport time\nprint('at it')\nfor _ in range(400): time.sleep(0.05)")
    cell.wait_for("at it")
    running = newest()
    folders = set(running.path.parent.iterdir())
    told = terminal("runs", "--prune", "--keep", "1")
    assert "Nothing is deleted yet: add --yes." in told
    assert set(running.path.parent.iterdir()) == folders
    told = terminal("runs", "--prune", "--keep", "0", "--yes")
    assert f"{running.run} stays: it is running" in told
    notebook.interrupt()
    cell.wait()
    assert running.path.is_dir()
    assert read_record(running.path).state == "interrupted"
    assert "RunInterrupted: The cell was interrupted after" in terminal("show", running.run)
    # Of other tests: what they keep open runs, and what a killed kernel has left was written to just now.
    others = [record for record in newest_first() if record.run != running.run]
    reasons = {True: "it is running", False: "it was written to in the last 10 minutes"}
    assert all(f"{record.run} stays: {reasons[record.state == 'running']}" in told for record in others)
    pruned = notebook.execute("%ddl runs --prune --keep 0 --yes")
    # What was written to just now may have come of age meanwhile.
    left = {record.run for record in newest_first()}
    assert running.run not in left
    stay, go = ([record for record in others if (record.run in left) is stays] for stays in (True, False))
    assert all(f"{record.run} stays: " in pruned.text for record in stay)
    assert f"Deleting {1 + len(go)} run" in pruned.text
    assert not running.path.exists()
    assert notebook.run("print('a run after that')").error is None


def test_a_run_whose_kernel_was_killed_is_readable(tmp_path):
    with kernel(without(tmp_path, "tensorflow")) as other:
        other.do("import jupyter_ddl, time; session = jupyter_ddl.start(n=2, name='killed')")
        folder = Path(other.do(
            "follower = session.submit(\"import time\\nprint('so far', rank)\\ntime.sleep(60)\")\n"
            "follower.follow_in_background()\n"
            "answer = str(follower.run.folder.path)"
        ))  # fmt: skip
        assert eventually(lambda: terminal("show", folder.name).count("so far") == 2)
        assert read_record(folder).state == "running"
        other.kill()
        assert read_record(folder).state == "cut off"
        assert terminal("logs", folder.name) == "[0] so far 0\n[1] so far 1\n"
        heading, *lines = terminal("show", folder.name).splitlines()
        assert heading.startswith(f"{folder.name}: ranks 0-1; cut off")
        assert sorted(lines[:2]) == ["[0]   so far 0", "[1]   so far 1"]
        assert lines[-1] == "The kernel that ran it ended before it did."


def test_ctrl_c_ends_following_and_nothing_else(notebook):
    cell = notebook.send("%%distributed\nimport time\nprint('begun')\ntime.sleep(2)\nprint('end')")
    cell.wait_for("begun")
    command = [sys.executable, "-m", "jupyter_ddl.cli", "logs", "-f", "-r", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        assert follower.stdout.readline() == "[0] begun\n"
        time.sleep(0.3)
        os.kill(follower.pid, signal.SIGINT)
        assert follower.wait(TIMEOUT_S) == 130
        assert follower.stderr.read() == ""
    assert cell.wait().error is None
    assert "[0-1] end" in cell.lines
