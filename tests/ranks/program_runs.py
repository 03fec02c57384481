"""Runs the programs of tests/programs on ranks as somebody would paste them in a cell, and finds what came of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jupyter_ddl.datasets import digits
from jupyter_ddl.errors import RankError
from jupyter_ddl.paths import DATA_VARIABLE

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

PROGRAMS = Path(__file__).parents[1] / "programs"
REPORT = Path(__file__).with_name("program_report.py").read_text()
TIMELINE = "timeline.json"
LIMIT_S = 200
# As many as scikit-learn's digits, which a machine without MNIST has.
TRAIN_IMAGES, TEST_IMAGES = 1618, 179

BEGIN = """
import os as _os
_home = _os.getcwd()
_os.chdir({folder!r})
_data = _os.environ.get("JUPYTER_DDL_DATA")
_os.environ.update(HOROVOD_TIMELINE={timeline!r}, JUPYTER_DDL_DATA={data!r})
# Models that other tests left on these ranks would be taken for the program's.
for _name in [name for name, value in globals().items() if type(value).__module__.startswith("keras")]:
    del globals()[_name]
# Keras draws what a program does not seed from these; other weights on each rank show that they are broadcast.
import random as _random
import numpy as _np
_random.seed(100 + rank)
_np.random.seed(100 + rank)
_before = set(globals())
"""

# The next program finds the ranks as this one found them. Keras's settings are those of the process.
END = """
import keras as _keras
_keras.config.set_dtype_policy("float32")
_keras.backend.clear_session()
for _name in set(globals()) - _before - {"_before"}:
    del globals()[_name]
del _os.environ["HOROVOD_TIMELINE"], _os.environ["JUPYTER_DDL_DATA"]
if _data is not None:
    _os.environ["JUPYTER_DDL_DATA"] = _data
_os.chdir(_home)
"""


@dataclass(frozen=True)
class Outcome:
    """What a program left behind.

    Attributes:
        ranks: each rank's report.
        exchanges: how many tensors Horovod's timeline says were reduced or gathered over the ranks.
        output: what each rank printed.
    """

    ranks: list[dict[str, Any]]
    exchanges: int
    output: list[str]

    def one(self, finding: str) -> Any:
        """Return what every rank found, where all must have found the same."""
        first, *others = [rank[finding] for rank in self.ranks]
        assert all(other == first for other in others), [rank[finding] for rank in self.ranks]
        return first


def text_of(name: str) -> str:
    """Return a program's text."""
    return (PROGRAMS / f"{name}.py").read_text()


def write_mnist(folder: Path) -> Path:
    """Write what `keras.datasets.mnist` reads: digits from this machine, since a test downloads nothing.

    Returns:
        The folder.
    """
    train, test, _ = digits.mnist(download=False)
    arrays = [part[:TRAIN_IMAGES] for part in train] + [part[:TEST_IMAGES] for part in test]
    np.savez(folder / "mnist.npz", **dict(zip(digits.ARRAYS, arrays, strict=True)))
    return folder


def run_in_cell(session: Session, name: str, folder: Path, data: Path) -> Outcome:
    """Run a program on all ranks in a cell of its own.

    Args:
        session: the ranks.
        name: the program's.
        folder: where it runs.
        data: with what `write_mnist` wrote.
    """
    timeline = folder / TIMELINE
    session.run(BEGIN.format(folder=str(folder), timeline=str(timeline), data=str(data)))
    try:
        result = session.run(text_of(name), timeout_s=LIMIT_S)
        # A cell for which Horovod need not run comes after its shutdown, which completes the timeline.
        session.run("pass")
        exchanges = exchanges_in(timeline)
        session.run(REPORT, timeout_s=LIMIT_S)
        reports = session.pull("report")
    except RankError as error:
        print(error.report)  # the ranks' tracebacks, for whoever reads why a test failed
        raise
    finally:
        session.run(END)
    ranks = sorted(reports)
    return Outcome([reports[rank] for rank in ranks], exchanges, [result.ranks[rank].stdout for rank in ranks])


def run_as_script(n: int, name: str, folder: Path, data: Path, *arguments: str) -> str:
    """Run a program on n ranks from the command line, in a folder, and return what it printed."""
    timeline = folder / TIMELINE
    done = subprocess.run(
        [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", str(n), str(PROGRAMS / f"{name}.py"), *arguments],
        cwd=folder,
        env={**os.environ, "HOROVOD_TIMELINE": str(timeline), DATA_VARIABLE: str(data)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def exchanges_in(timeline: Path) -> int:
    """Return how many tensors were reduced or gathered, as Horovod's timeline has it."""
    # Horovod leaves the file without its last bracket, so it is no JSON.
    return len(re.findall(r'"name": ?"(?:ALLREDUCE|ALLGATHER|ADASUM)"', timeline.read_text(errors="replace")))
