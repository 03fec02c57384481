"""A class on one machine: ten learners, each with 2 ranks and notebook 01, begun within a minute.

python -m benchmarks.class_of_ten [--learners 10]

The other side is plain ipyparallel: the same cells by `%%px` on engines that its own MPI launcher starts, with the same
Horovod. Each learner has a home, a kernel and a cluster of its own. All must finish. Judged is the time until all have,
and told are the slowest and the fastest learner, the longest cell, and the memory of a learner's processes (PSS).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.harness import Row, report
from jupyter_ddl.host import mpi
from jupyter_ddl.host.process_tree import adopt_orphans, end_descendants

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "01-from-one-gpu-to-all.ipynb"
AIM = 1.0
WITHIN_S = 60.0
_LOOK_S = 3.0
_ENDS_S = 3600
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
        longest_cell_s: of all.
        memory_mib: the most that one learner's processes took, in the median of the learners.
    """

    until_all_s: float
    learners_s: tuple[float, ...]
    longest_cell_s: float
    memory_mib: float


def main() -> int:
    """Measure both sides once."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--learners", type=int, default=10)
    learners: int = parser.parse_args().learners
    adopt_orphans()
    # Both sides' ranks are bound to no core: what a learner leaves idle is the others'.
    os.environ.update(mpi.launch_environment(mpi.find_mpi()))
    ours, theirs = lesson(learners, "ours"), lesson(learners, "theirs")
    holds = report(
        f"class_of_ten, {learners} learners",
        [Row("until all have finished", (ours.until_all_s,), (theirs.until_all_s,), "s")],
        AIM,
        "lower",
        also=[
            Row("slowest learner", (max(ours.learners_s),), (max(theirs.learners_s),), "s"),
            Row("fastest learner", (min(ours.learners_s),), (min(theirs.learners_s),), "s"),
            Row("longest cell", (ours.longest_cell_s,), (theirs.longest_cell_s,), "s"),
            Row("memory of a learner", (ours.memory_mib,), (theirs.memory_mib,), "MiB"),
        ],
    )
    return 0 if holds else 1


def lesson(learners: int, side: str) -> Lesson:
    """Hold one class; return what it took."""
    with tempfile.TemporaryDirectory(prefix="ddl-class-") as folder:
        homes = [Path(folder) / str(number) for number in range(learners)]
        peaks_mib = [0.0] * learners
        answers: list[dict[str, Any]] = [{} for _ in homes]
        threads = [
            threading.Thread(target=_learn, args=(home, side, number, learners, answers, peaks_mib))
            for number, home in enumerate(homes)
        ]
        began_s = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
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
        max(answer["longest_cell_s"] for answer in answers),
        statistics.median(peaks_mib),
    )


def _learn(
    home: Path, side: str, number: int, learners: int, answers: list[dict[str, Any]], peaks_mib: list[float]
) -> None:
    home.mkdir()
    notebook = home / "lesson.ipynb"
    notebook.write_text(json.dumps(_notebook(side)))
    names = ("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    own = {name: str(home / name.lower()) for name in (*names, "JUPYTER_DDL_RUNTIME", "JUPYTER_DDL_RUNS")}
    threads = {} if side == "ours" else {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
    Path(own["HOME"]).mkdir()
    time.sleep(number * WITHIN_S / learners)
    command = [sys.executable, "-m", "benchmarks.class_learner", str(notebook)]
    with subprocess.Popen(command, env=os.environ | own | threads, stdout=subprocess.PIPE, text=True) as learner:
        watched = psutil.Process(learner.pid)
        while learner.poll() is None:
            peaks_mib[number] = max(peaks_mib[number], _memory_mib(watched))
            time.sleep(_LOOK_S)
        said, _ = learner.communicate(timeout=_ENDS_S)
    answers[number] = json.loads(said.splitlines()[-1]) if said else {"problem": f"status {learner.returncode}"}


def _memory_mib(process: psutil.Process) -> float:
    """Return what a process and all below it take, what they share divided among those that share it."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
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
            cell["source"] = source if side == "ours" else _in_plain_words(source)
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
