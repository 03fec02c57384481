"""A class on one machine: ten learners, each with 2 ranks and notebook 01, begun within a minute.

python -m benchmarks.class_of_ten [--learners 10] [--pairs 1] [--jupyterhub PYTHON]

The other side is plain ipyparallel: the same cells by `%%px` on engines that its own MPI launcher starts, with the same
Horovod. Each learner has a home, a kernel and a cluster of its own. All must finish. Judged is the time until all have,
and told are the slowest and the fastest learner, the longest cell, the longest that a cell took beyond the same cell of
a learner alone, and the memory of a learner's processes (PSS). Before the classes one learner of each side is alone.

With --jupyterhub, as root, each learner is an account of this machine, who has a JupyterHub on loopback start a server,
and runs the notebook there through its proxy. PYTHON is of an environment with jupyterhub beside what jupyter_ddl
needs; configurable-http-proxy must be on PATH.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.class_hub import HubClass
from benchmarks.harness import Row, report, rounds
from benchmarks.local_users import opened_way
from jupyter_ddl.host import mpi
from jupyter_ddl.host.process_tree import adopt_orphans, end_descendants

if TYPE_CHECKING:
    from collections.abc import Iterable

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "01-from-one-gpu-to-all.ipynb"
AIM = 1.0
WITHIN_S = 60.0
_LOOK_S = 3.0
_ENDS_S = 3600
SIDES = OURS, THEIRS = "ours", "theirs"
# Of plain ipyparallel, whose engines know nothing of each other's threads.
_THREADS = {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
# Of plain ipyparallel: what stands for the cell that starts ranks. Each engine is one rank.
_START = """
import ipyparallel as ipp

cluster = ipp.Cluster(engines="mpi", n=n)
client = cluster.start_and_connect_sync()
view = client[:]
view.block = True
view.activate()
%px from mpi4py import MPI; rank, world_size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
"""


@dataclass(frozen=True)
class Lesson:
    """What a class took.

    Attributes:
        until_all_s: from the first learner's start to the last one's end.
        learners_s: of each learner.
        cells_s: of each learner, the seconds of each cell.
        memory_mib: the most that one learner's processes took, in the median of the learners.
    """

    until_all_s: float
    learners_s: tuple[float, ...]
    cells_s: tuple[tuple[float, ...], ...]
    memory_mib: float

    @property
    def longest_cell_s(self) -> float:
        """The longest cell of all learners."""
        return max(max(cells) for cells in self.cells_s)

    def longest_wait(self, alone: Lesson) -> tuple[float, float]:
        """Return the longest that a cell took beyond the same cell of a learner alone, and how often its time that is.

        Args:
            alone: the lesson of one learner.
        """
        pairs = [pair for cells in self.cells_s for pair in zip(cells, alone.cells_s[0], strict=True)]
        took_s, alone_s = max(pairs, key=lambda pair: pair[0] - pair[1])
        return took_s - alone_s, took_s / alone_s


def main() -> int:
    """Measure one learner alone on each side, then the classes in turns."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--learners", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=1, help="classes of each side; judged is the median of the ratios")
    parser.add_argument("--jupyterhub", metavar="PYTHON", help="hold the class in a real JupyterHub, of this python")
    given = parser.parse_args()
    if given.jupyterhub:
        _open_the_way(given.jupyterhub)
    # Accounts are removed then too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    adopt_orphans()
    # Neither side's ranks are bound to a core by mpiexec: what a learner leaves idle is the others'.
    variables = mpi.launch_environment(mpi.find_mpi())
    os.environ.update(variables)
    taught = partial(lesson, variables=variables, jupyterhub=given.jupyterhub)
    alone = {side: taught(1, side) for side in SIDES}
    sides = {side: partial(taught, given.learners, side) for side in SIDES}
    held = rounds(sides, given.pairs, show=lambda one: f"{one.until_all_s:.0f} s")
    waits = {side: [one.longest_wait(alone[side]) for one in held[side]] for side in SIDES}
    holds = report(
        f"class_of_ten, {given.learners} learners{' in a JupyterHub' if given.jupyterhub else ''}",
        [_row("until all have finished", "s", *((one.until_all_s for one in held[side]) for side in SIDES))],
        AIM,
        "lower",
        also=[
            _row("slowest learner", "s", *((max(one.learners_s) for one in held[side]) for side in SIDES)),
            _row("fastest learner", "s", *((min(one.learners_s) for one in held[side]) for side in SIDES)),
            _row("a learner alone", "s", *([alone[side].until_all_s] for side in SIDES)),
            _row("longest cell", "s", *((one.longest_cell_s for one in held[side]) for side in SIDES)),
            _row("longest wait beyond the same cell alone", "s", *((s for s, _ in waits[side]) for side in SIDES)),
            _row("that cell, in its times alone", "times", *((of for _, of in waits[side]) for side in SIDES)),
            _row("memory of a learner", "MiB", *((one.memory_mib for one in held[side]) for side in SIDES)),
        ],
    )
    return 0 if holds else 1


def lesson(learners: int, side: str, *, variables: dict[str, str], jupyterhub: str | None) -> Lesson:
    """Hold one class; return what it took.

    Args:
        learners: how many.
        side: "ours" or "theirs".
        variables: of each learner's kernel.
        jupyterhub: the python of one; None for kernels without.
    """
    variables = variables | ({} if side == OURS else _THREADS)
    peaks_mib = [0.0] * learners
    answers: list[dict[str, Any]] = [{} for _ in range(learners)]
    with ExitStack() as stack:
        if jupyterhub:
            learn = partial(_learn_in_hub, stack.enter_context(HubClass(jupyterhub, learners, variables)))
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ddl-class-")))
            learn = partial(_learn, folder, variables)
        began_s = time.monotonic()

        def begin(number: int) -> None:
            time.sleep(number * WITHIN_S / learners)
            answers[number] = learn(number, _notebook(side), peaks_mib)

        taking_part = [threading.Thread(target=begin, args=(number,)) for number in range(learners)]
        for thread in taking_part:
            thread.start()
        for thread in taking_part:
            thread.join()
        until_all_s = time.monotonic() - began_s
    end_descendants()
    for number, answer in enumerate(answers):
        if answer.get("problem") or not answer:
            sys.exit(f"Each learner must finish. Received: {side}, learner {number}: {answer.get('problem')}")
    print(f"  {side}: all of {learners} after {until_all_s:.0f} s", file=sys.stderr, flush=True)
    return Lesson(
        until_all_s,
        tuple(answer["seconds"] for answer in answers),
        tuple(tuple(answer["cells_s"]) for answer in answers),
        statistics.median(peaks_mib),
    )


def _row(name: str, unit: str, ours: Iterable[float], theirs: Iterable[float]) -> Row:
    return Row(name, tuple(ours), tuple(theirs), unit)


def _open_the_way(python: str) -> None:
    """Run this program again where all accounts can reach it, Python and the package, if they cannot here."""
    if os.geteuid() != 0 or shutil.which("configurable-http-proxy") is None:
        sys.exit("--jupyterhub takes root, who can make accounts, and configurable-http-proxy on PATH.")
    if way := opened_way(sys.executable, python, __file__):
        again = [sys.executable, "-m", "benchmarks.class_of_ten", *sys.argv[1:]]
        os.execvp("unshare", ["unshare", "--mount", "sh", "-ec", f'{way}\nexec "$@"', "sh", *again])


def _learn(
    folder: Path, variables: dict[str, str], number: int, content: dict[str, Any], peaks_mib: list[float]
) -> dict[str, Any]:
    """Be one learner, whose kernel is of this account; return what the learner's process prints."""
    home = folder / str(number)
    home.mkdir()
    notebook = home / "lesson.ipynb"
    notebook.write_text(json.dumps(content))
    names = ("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    own = {name: str(home / name.lower()) for name in (*names, "JUPYTER_DDL_RUNTIME", "JUPYTER_DDL_RUNS")}
    Path(own["HOME"]).mkdir()
    command = [sys.executable, "-m", "benchmarks.class_learner", str(notebook)]
    with subprocess.Popen(command, env=os.environ | own | variables, stdout=subprocess.PIPE, text=True) as learner:
        watched = psutil.Process(learner.pid)
        while learner.poll() is None:
            below = [watched, *watched.children(recursive=True)]
            peaks_mib[number] = max(peaks_mib[number], _memory_mib(below))
            time.sleep(_LOOK_S)
        said, _ = learner.communicate(timeout=_ENDS_S)
    answer: dict[str, Any] = json.loads(said.splitlines()[-1]) if said else {"problem": f"status {learner.returncode}"}
    return answer


def _learn_in_hub(hub: HubClass, number: int, content: dict[str, Any], peaks_mib: list[float]) -> dict[str, Any]:
    """Be one learner, who has an account; return the same."""
    has_ended = threading.Event()

    def look() -> None:
        while not has_ended.wait(_LOOK_S):
            peaks_mib[number] = max(peaks_mib[number], _memory_mib(hub.processes(number)))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        return hub.learn(number, content)
    finally:
        has_ended.set()
        looking.join()


def _memory_mib(processes: Iterable[psutil.Process]) -> float:
    """Return what processes take, what they share divided among those that share it."""
    total = 0
    for one in processes:
        try:
            total += one.memory_full_info().pss
        except psutil.Error:
            # It has ended.
            continue
    return total / 2**20


def _notebook(side: str) -> dict[str, Any]:
    """Return notebook 01 with 2 ranks; for the other side its cells in plain ipyparallel's words."""
    notebook: dict[str, Any] = json.loads(NOTEBOOK.read_text())
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            source = source.replace("n = None", "n = 2")
            cell["source"] = source if side == OURS else _in_plain_words(source)
    return notebook


def _in_plain_words(source: str) -> str:
    if "%load_ext jupyter_ddl" in source:
        return _START
    source = re.sub(r"^%%distributed -r 0$", "%%px --targets 0", source, flags=re.MULTILINE)
    source = re.sub(r"^%%distributed$", "%%px", source, flags=re.MULTILINE)
    source = source.replace("%ddl pull figures -r 0", 'figures = client[0]["figures"]')
    source = source.replace("%ddl stop", "cluster.stop_cluster_sync()")
    return source.replace("session.world_size", "len(client)")


if __name__ == "__main__":
    sys.exit(main())
