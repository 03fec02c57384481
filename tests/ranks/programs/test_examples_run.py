"""The examples of the public names do what they show, on two ranks and in a program that starts ranks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from examples import OF_THE_KERNEL, Public, public_names

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).with_name("examples_program.py")


def test_examples_of_ranks(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", "2", str(PROGRAM), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    count = sum(public.name not in OF_THE_KERNEL for public in public_names())
    assert f"{count} examples ran" in done.stdout, done.stdout


OF_SESSIONS = [public for public in public_names() if public.name in OF_THE_KERNEL and public.example]


@pytest.mark.parametrize("public", OF_SESSIONS, ids=lambda public: public.name)
def test_examples_of_the_kernel(public: Public) -> None:
    # In a program of its own, as users run it: a kept cluster that was detached from leaves its lease's pipes open.
    program = (
        "import doctest, sys, jupyter_ddl\n"
        "names = {'jupyter_ddl': jupyter_ddl}\n"
        "test = doctest.DocTestParser().get_doctest(sys.stdin.read(), names, 'example', None, None)\n"
        "sys.exit(doctest.DocTestRunner().run(test).failed)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], input=public.example, capture_output=True, text=True, timeout=280, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
