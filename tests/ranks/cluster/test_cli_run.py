"""`jupyter ddl run`: a script on real ranks, from its start to its end, whatever that is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from at_limit import NO_MORE_THREADS
from processes import marked_processes
from ranks.script_jobs import COMMAND, GONE_S, HOROVOD, RANK, TIMEOUT_S, run, said, started

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi


# --- as Python would ------------------------------------------------------------------------------------------


def test_a_script_sees_what_it_sees_under_python(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "sibling.py").write_text("name = 'a sibling'")
    (tmp_path / "sub" / "program.py").write_text(
        "import sys, sibling\n"
        "main = sys.modules['__main__']\n"
        "print(sys.argv, sys.path[0], __name__, __file__, __package__, __spec__, main.__dict__ is globals())\n"
        "print(sibling.name, repr(sys.stdin.read()), sys.stdout.encoding)\n"
        "def f(): return 1\n"
        "print(__import__('pickle').loads(__import__('pickle').dumps(f))())\n"
    )
    (tmp_path / "link.py").symlink_to("sub/program.py")
    tail = ["link.py", "-n", "7", "--", "--help", "two words"]
    options = {"cwd": tmp_path, "text": True, "stdin": subprocess.DEVNULL, "capture_output": True, "check": True}
    alone = subprocess.run([sys.executable, *tail], **options)
    on_ranks = subprocess.run([*COMMAND, "-n", "2", "--", *tail], **options, timeout=TIMEOUT_S)
    for rank in range(2):
        assert said(rank, on_ranks.stdout) == alone.stdout.splitlines()


def test_output_comes_in_whole_lines_headed_by_their_ranks(tmp_path: Path) -> None:
    script = RANK + (
        "import os, sys\n"
        "print('all')\n"
        "print('only', rank)\n"
        "sys.stderr.write('to '); sys.stderr.write('stderr\\n')\n"
        "os.system('echo from a child')\n"
        "for step in range(20_000): print(f'\\rstep {step}', end='')\n"
        "print()\n"
        "print('x' * 5_000)\n"
        "print('no newline', end='')\n"
    )
    finished = run(tmp_path, script)
    assert finished.returncode == 0
    lines = finished.stdout.splitlines()
    assert sorted(line for line in lines if "only" in line) == ["[0]   only 0", "[1]   only 1"]
    for rank in range(2):
        wanted = ["all", f"only {rank}", "from a child", "step 19999", "x" * 5_000, "no newline"]
        assert said(rank, finished.stdout) == wanted
    told = finished.stderr.splitlines()
    assert told[0].endswith("2 ranks on 2 cores, 1 thread each.") or "2 ranks" in told[0]
    assert "to stderr" in " ".join(told[1:])


def test_its_options_reach_the_ranks(tmp_path: Path) -> None:
    script = RANK + (
        "import os\n"
        "print(MPI.COMM_WORLD.size, *[os.environ[name] for name in\n"
        " ('TF_NUM_INTRAOP_THREADS', 'CUDA_VISIBLE_DEVICES', 'MY', 'JUPYTER_DDL_LEGACY')], sep=',')\n"
        "print('JUPYTER_DDL_SCRIPT' in os.environ)\n"
    )
    finished = run(tmp_path, script, "-n1", "--threads=3", "--gpus=none", "--env=MY=a=b", "--no-legacy")
    assert finished.stdout == "[0] 1,3,,a=b,0\n[0] False\n"
    assert finished.stderr.startswith("No GPU asked for: 1 rank on ")


def test_a_horovod_of_the_users_own_comes_after_the_scripts_folder(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys; print(sys.path[0], sys.path[1])")
    finished = subprocess.run(
        [*COMMAND, "-n", "1", "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "JUPYTER_DDL_HOROVOD": "elsewhere"},
        timeout=TIMEOUT_S,
        check=True,
    )
    assert finished.stdout == f"[0] {tmp_path} {tmp_path / 'elsewhere'}\n"


# --- how it ends ----------------------------------------------------------------------------------------------


# Which status it is, tests/pure/test_script_outcome.py has.
@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("'too few images'", 1),
        *(pytest.param(*exits, marks=pytest.mark.slow) for exits in [("0", 0), ("None", 0), ("7", 7), ("256", 0)]),
    ],
)
def test_the_status_that_the_script_exits_with_is_kept(tmp_path: Path, code: str, status: int) -> None:
    finished = run(tmp_path, f"import sys\nsys.exit({code})\n")
    assert finished.returncode == status
    for rank in range(2):
        assert said(rank, "\n".join(finished.stderr.splitlines()[1:])) == (["too few images"] if "few" in code else [])


def test_a_rank_that_exits_alone_ends_the_others(tmp_path: Path) -> None:
    finished = run(tmp_path, RANK + "import sys, time\nif rank == 1: sys.exit(3)\ntime.sleep(600)\n")
    assert finished.returncode == 3
    told = finished.stderr.splitlines()
    assert told[1].startswith("Rank 1 of 2 on ")
    assert told[2:] == ["SystemExit: 3", "", "Rank 0 aborted because rank 1 raised"]


def test_an_error_on_all_ranks_is_told_once(tmp_path: Path) -> None:
    # In another folder than the script's: it keeps its traceback.
    finished = run(tmp_path, "import os\nos.chdir('/')\ndef f():\n  return 1 / 0\nf()\n")
    assert finished.returncode == 1
    path = tmp_path / "script.py"
    told = finished.stderr.splitlines()
    assert told[1].startswith("Ranks 0-1 of 2 on ")
    assert told[2] == "Traceback (most recent call last):"
    assert f'\n  File "{path}", line 5, in <module>\n    f()\n' in finished.stderr
    assert f'\n  File "{path}", line 4, in f\n' in finished.stderr
    assert told[-1] == "ZeroDivisionError: division by zero"
    assert finished.stderr.count("ZeroDivisionError") == 1


def test_a_syntax_error_is_told_as_python_tells_it(tmp_path: Path) -> None:
    finished = run(tmp_path, "x = (\n")
    assert finished.returncode == 1
    assert finished.stderr.splitlines()[2] == f'  File "{tmp_path / "script.py"}", line 1'
    assert "SyntaxError: '(' was never closed" in finished.stderr


@pytest.mark.slow  # its text is in tests/pure/test_script_outcome.py
def test_a_collective_that_another_ranks_end_breaks_is_told(tmp_path: Path) -> None:
    with started(tmp_path, HOROVOD + "if rank == 0: hvd.allreduce(tf.constant(1.0))\n") as job:
        assert job.process.wait(TIMEOUT_S) == 1
        told = job.errors.read_text()
        assert "Rank 0 of 2 on " in told
        assert "Horovod has been shut down" in told
        assert told.endswith("Rank 1 had ended before, and Horovod with it\n")


@pytest.mark.slow  # it waits for 10 s; its text is in tests/pure/test_script_outcome.py
def test_a_rank_that_can_start_no_thread_releases_the_other(tmp_path: Path) -> None:
    fails = "if rank == 1:\n    no_more_threads()\n    raise MemoryError('on purpose')\n"
    finished = run(tmp_path, NO_MORE_THREADS + HOROVOD + fails + "hvd.allreduce(tf.ones(1))\n")
    assert finished.returncode == 1
    assert "MemoryError: on purpose" in finished.stderr
    assert "new thread" not in finished.stderr


def test_a_rank_that_does_not_answer_is_killed(tmp_path: Path) -> None:
    script = RANK + (
        "import signal, time\n"
        "if rank == 1: raise ValueError('no such thing')\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])\n"
        "time.sleep(600)\n"
    )
    with started(tmp_path, script) as job:
        assert job.process.wait(TIMEOUT_S) == 1
        assert job.errors.read_text().endswith(
            "ValueError: no such thing\n\nRank 0 had not ended by then, and had to be killed\n"
        )
        assert not job.left()


# One that a signal ended is in test_cli_run_record.py.
def test_a_rank_that_dies_is_named(tmp_path: Path) -> None:
    finished = run(tmp_path, RANK + "import os, time\nif rank == 1: os._exit(7)\ntime.sleep(600)\n")
    assert finished.returncode == 7
    told = "rank 1 exited with status 7"
    assert f"Ranks must live to the end of the script. Received: {told}" in finished.stderr


# --- signals --------------------------------------------------------------------------------------------------


def test_ctrl_c_is_a_keyboard_interrupt_told_once(tmp_path: Path) -> None:
    script = RANK + "import time\nprint('ready')\ntry: time.sleep(600)\nfinally: print('cleaned up')\n"
    with started(tmp_path, script) as job:
        job.wait_for("ready")
        job.process.send_signal(signal.SIGINT)
        assert job.process.wait(TIMEOUT_S) == 130
        assert job.errors.read_text().count("KeyboardInterrupt") == 1
        assert job.errors.read_text().splitlines()[1].startswith("Ranks 0-1 of 2 on ")
        assert job.has_printed("cleaned up")
        assert not job.left()


@pytest.mark.slow
def test_ctrl_c_inside_a_collective(tmp_path: Path) -> None:
    script = HOROVOD + "if rank == 1: time.sleep(600)\nhvd.allreduce(tf.constant(1.0))\n"
    with started(tmp_path, script) as job:
        job.wait_for("sum 3.0")
        time.sleep(1)  # rank 0 goes into the collective
        job.process.send_signal(signal.SIGINT)
        assert job.process.wait(TIMEOUT_S) == 130
        told = job.errors.read_text()
        assert told.endswith("KeyboardInterrupt\n")  # nobody had to be killed
        assert "Rank 1 of 2 on" in told
        assert not job.left()


def test_a_script_may_take_ctrl_c_for_its_end(tmp_path: Path) -> None:
    script = RANK + "import time\nprint('ready')\ntry: time.sleep(600)\nexcept KeyboardInterrupt: print('saved')\n"
    with started(tmp_path, script) as job:
        job.wait_for("ready")
        job.process.send_signal(signal.SIGINT)
        assert job.process.wait(TIMEOUT_S) == 0
        assert job.has_printed("saved")


def test_a_second_ctrl_c_ends_ranks_that_do_not_end(tmp_path: Path) -> None:
    script = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('ready')\ntime.sleep(600)\n"
    with started(tmp_path, script) as job:
        job.wait_for("ready")
        job.process.send_signal(signal.SIGINT)
        deadline_s = time.monotonic() + TIMEOUT_S
        while "another Ctrl-C ends them now" not in job.errors.read_text():
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        job.process.send_signal(signal.SIGINT)
        assert job.process.wait(GONE_S) == 130
        assert job.errors.read_text().endswith("Ranks 0-1 had not ended by then, and had to be killed\n")
        assert not job.left()


def test_a_profile_settles_what_was_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    (tmp_path / "config" / "jupyter_ddl.d").mkdir(parents=True)
    profile = '[two]\ndefaults = {ranks = 2, threads = 1}\nenvironment = {OF_PROFILE = "set"}\n'
    (tmp_path / "config" / "jupyter_ddl.d" / "mine.toml").write_text(profile)
    finished = run(tmp_path, "import os\nprint(os.environ['OF_PROFILE'])\n", "--profile=two")
    assert (finished.returncode, finished.stdout) == (0, "[0-1] set\n")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_asks_to_end_ends_all(tmp_path: Path, signum: signal.Signals) -> None:
    with started(tmp_path, "import time\nprint('ready')\ntime.sleep(600)\n") as job:
        job.wait_for("ready")
        job.process.send_signal(signum)
        assert job.process.wait(GONE_S) == 128 + signum
        assert job.errors.read_text().endswith(f"Ended by {signum.name}.\n")
        assert not job.left()


def test_under_nohup_a_closed_terminal_ends_nothing(tmp_path: Path) -> None:
    script = (
        "import pathlib, time\npathlib.Path('ready').touch()\n"
        "while not pathlib.Path('signalled').exists(): time.sleep(0.02)\ntime.sleep(0.2)\nprint('done')\n"
    )
    (tmp_path / "script.py").write_text(script)
    shell = '"$@" & child=$!; until [ -e ready ]; do sleep 0.02; done; kill -HUP $child; touch signalled; wait $child'
    finished = subprocess.run(
        ["nohup", "bash", "-c", shell, "-", *COMMAND, "-n", "1", "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert finished.returncode == 0
    assert finished.stdout == "[0] done\n"


def test_nothing_outlives_a_killed_command(tmp_path: Path) -> None:
    # Rank 1 is in C with the interpreter's lock: no Python code of it can run, as in a collective that does not end.
    script = RANK + (
        "import ctypes, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "print('ready', flush=True)\n"
        "if rank == 1: ctypes.PyDLL(None).poll(None, 0, 600_000)\n"
        "time.sleep(600)\n"
    )
    with started(tmp_path, script) as job:
        job.wait_for("ready")
        assert sum(process.name() == "sleep" for process in marked_processes(job.mark)) == 2
        job.process.kill()
        job.process.wait()
        assert not job.left()


@pytest.mark.slow
def test_nothing_outlives_a_command_killed_inside_a_collective(tmp_path: Path) -> None:
    with started(tmp_path, HOROVOD + "if rank == 1: time.sleep(600)\nhvd.allreduce(tf.constant(1.0))\n") as job:
        job.wait_for("sum 3.0")
        job.process.kill()
        job.process.wait()
        assert not job.left()


def test_what_the_script_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    script = "import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
    with started(tmp_path, script) as job:
        assert job.process.wait(TIMEOUT_S) == 0
        assert not job.left(0)
