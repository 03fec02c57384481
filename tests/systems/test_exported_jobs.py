"""Notebooks that become jobs of a real Slurm: the same cells on as many ranks come to the same weights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import numpy as np
import papermill
import pytest
from ranks.kernels import eventually
from systems.rig import environment

if TYPE_CHECKING:
    from systems.batch import Slurm

pytestmark = [pytest.mark.mpi, pytest.mark.systems]

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
PARAMETERS = "rate = 0.1\nfails = False"
START = "%load_ext jupyter_ddl\n%ddl start -n 2 -H elsewhere:2"
TRAINS = """%%distributed
import socket
import jupyter_ddl
for step in range(5):
    jupyter_ddl.report(samples=8, loss=rate / (1 + step))
where = socket.gethostname()
print("on", where)
"""
JOB_S = 120.0
# What a cell that follows the training finds in the notebook's kernel.
ASKS = "%ddl pull weights -r 0\nimport numpy\nnumpy.save(saves, weights)"
# Weights begin alike, batches come in one order, and what rounds in another way differs by little.
SEEDS = "%%distributed\nimport keras\nkeras.utils.set_random_seed(7)\nkeras.config.set_floatx('float64')"
GATHERS = """%%distributed -r 0
import numpy as np
weights = np.concatenate([np.ravel(one) for one in {}])
"""


def small(folder: Path, *cells: str) -> Path:
    first = nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
    others = [nbformat.v4.new_code_cell(cell) for cell in (START, "%ddl push rate fails", *cells)]
    nbformat.write(nbformat.v4.new_notebook(cells=[first, *others]), folder / "small.ipynb")
    return folder / "small.ipynb"


def export(slurm: Slurm, notebook: Path, *options: str) -> Path:
    """Export a notebook of this user's on the login node; return the folder."""
    command = [*slurm.rig.enter("login"), sys.executable, "-m", "jupyter_ddl.cli", "export", str(notebook), *options]
    variables = {**os.environ, **environment(slurm.rig), **slurm.variables}
    subprocess.run(command, env=variables, check=True, timeout=60, stdout=subprocess.DEVNULL)
    return notebook.with_name(f"{notebook.stem}-slurm")


def send(slurm: Slurm, folder: Path) -> str:
    """Send a job as its user would; return its number."""
    variables = {**os.environ, **environment(slurm.rig), **slurm.variables}
    command = [*slurm.rig.enter("login"), "sbatch", "--parsable", str(folder / "job.sh")]
    sent = subprocess.run(command, env=variables, check=True, timeout=60, capture_output=True, text=True)
    return sent.stdout.strip()


def wait_for(slurm: Slurm, folder: Path, seconds: float = JOB_S) -> None:
    """Wait until no job is left."""
    logs = "\n".join(path.read_text() for path in folder.glob("job*.log"))
    assert eventually(lambda: slurm.call("squeue -h") == "", seconds), logs


def printed(notebook: Path) -> str:
    """Return what the cells of an executed notebook show."""
    cells = nbformat.read(notebook, as_version=4).cells
    outputs = [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]
    return "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs)


def test_a_sweep_runs_on_two_nodes_and_what_fails_is_told(slurm: Slurm) -> None:
    fails = "%%distributed\nif fails and rank == 1:\n    raise ValueError('too high')"
    notebook = small(slurm.rig.folder, TRAINS, fails, "%ddl stop")
    folder = export(
        slurm, notebook, "--slurm", "-N", "2", "--ntasks-per-node", "1", "--time", "0:10", "--sweep", "fails=False,True"
    )
    send(slurm, folder)
    wait_for(slurm, folder)
    well, ill = (json.loads((folder / f"result-{point}.json").read_text()) for point in (0, 1))
    assert (well["state"], well["loss"]) == ("finished", pytest.approx(0.02)), (folder / "job-0.log").read_text()
    assert "on nodea" in printed(folder / "executed-0.ipynb")
    assert "on nodeb" in printed(folder / "executed-0.ipynb")
    assert ill["state"] == "failed"
    assert "ValueError: too high" in ill["error"]
    assert "Rank 1 of 2" in (folder / "job-1.log").read_text()
    page = (folder / "comparison.html").read_text()
    assert "2 of 2 points are over." in page
    assert "too high" in page
    assert well["runs"][0] in page


@pytest.mark.slow
def test_a_job_that_is_cancelled_keeps_the_notebook_so_far_and_leaves_nothing(slurm: Slurm) -> None:
    # The newest line waits for the next one: it may still become the line of all ranks.
    sleeps = "%%distributed\nimport time\nprint('asleep\\nnow', flush=True)\ntime.sleep(600)"
    folder = export(slurm, small(slurm.rig.folder, TRAINS, sleeps), "--slurm", "--force")
    job = send(slurm, folder)
    log = folder / "job.log"
    try:
        assert eventually(lambda: log.exists() and "asleep" in log.read_text(), JOB_S), log.read_text()
    finally:
        slurm.call(f"scancel {job}")
    wait_for(slurm, folder)
    result = json.loads((folder / "result.json").read_text())
    assert (result["state"], result["error"]) == ("stopped", "SIGTERM")
    assert "on nodea" in printed(folder / "executed.ipynb")
    left = [" ".join(process.cmdline()) for node in ("nodea", "nodeb") for process in slurm.rig.processes(node)]
    assert not [line for line in left if "jupyter_ddl" in line]


PROFILE = """
[pair]
launcher = "slurm"
setup = ["export OF_THE_PROFILE=1"]
[pair.defaults]
nodes = 2
ntasks_per_node = 2
time = "0:10"
"""


@pytest.mark.slow
def test_a_notebook_that_submits_itself_by_a_profile_is_exported_without_repeating_it(slurm: Slurm) -> None:
    profiles = slurm.rig.folder / "home/.jupyter/jupyter_ddl.d"
    profiles.mkdir(parents=True, exist_ok=True)
    (profiles / "site.toml").write_text(PROFILE)
    says = "%%distributed\nimport os, socket\nprint(rank, socket.gethostname(), os.environ.get('OF_THE_PROFILE'))"
    cells = [nbformat.v4.new_code_cell(cell) for cell in ("%load_ext jupyter_ddl\n%ddl submit --profile pair", says)]
    notebook = slurm.rig.folder / "submits.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), notebook)
    folder = export(slurm, notebook, "--slurm")
    assert "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=2\n" in (folder / "job.sh").read_text()
    job = send(slurm, folder)
    assert "TimeLimit=00:10:00" in slurm.call(f"scontrol show job {job}")
    wait_for(slurm, folder)
    result = json.loads((folder / "result.json").read_text())
    assert result["state"] == "finished", (folder / "job.log").read_text()
    shown = printed(folder / "executed.ipynb")
    for rank, node in enumerate(("nodea", "nodea", "nodeb", "nodeb")):
        assert f"{rank} {node} 1" in shown


# Notebook -> what has its weights, or its losses, on rank 0; and the heading before which it is asked.
TRAINED = {
    "01-from-one-gpu-to-all": "model.get_weights()",
    "02-no-changes-at-all": "auto['weights']",
    "03-what-large-batches-do": "[curve['loss'] for curve in curves.values()]",
    "04-feeding-the-ranks": "model.get_weights()",
    "05-horovod-programs-as-they-are": "model.get_weights()",
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", TRAINED)
def test_a_notebook_comes_to_the_same_weights_as_its_job(slurm: Slurm, name: str) -> None:
    read: Any = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    starts = next(at for at, cell in enumerate(read.cells) if "jupyter_ddl.start(" in cell.source)
    # As many threads on a node as here: sums come in one order.
    read.cells[starts].source = read.cells[starts].source.replace("start(n=n,", "start(n=n, threads=1,")
    read.cells.insert(starts + 1, nbformat.v4.new_code_cell(SEEDS))
    # Before the ranks end.
    gathers = [nbformat.v4.new_code_cell(source) for source in (GATHERS.format(TRAINED[name]), ASKS)]
    parameters = next(cell for cell in read.cells if "parameters" in cell.metadata.get("tags", []))
    parameters.source += "\nsaves = None"
    last = max(at for at, cell in enumerate(read.cells) if cell.cell_type == "code" and "%ddl stop" in cell.source)
    read.cells[last:last] = gathers
    notebook = slurm.rig.folder / f"{name}.ipynb"
    nbformat.write(read, notebook)
    began_s = time.monotonic()
    folder = export(
        slurm, notebook, "--slurm", "-N", "2", "--ntasks-per-node", "1", "--time", "0:30", "-p", "saves", "job.npy"
    )
    send(slurm, folder)
    wait_for(slurm, folder, 600)
    result = json.loads((folder / "result.json").read_text())
    assert result["state"] == "finished", (folder / "job.log").read_text()[-3000:]
    job_s = time.monotonic() - began_s
    papermill.execute_notebook(
        notebook,
        folder / "here.ipynb",
        {"n": 2, "saves": "here.npy"},
        kernel_name="python3",
        cwd=notebook.parent,
        progress_bar=False,
    )
    of_job, of_here = (np.load(notebook.with_name(file)) for file in ("job.npy", "here.npy"))
    assert of_job.size > 1
    largest = float(np.abs(of_job - of_here).max())
    print(f"\n{name}: {of_job.size} figures of {of_job.dtype}, largest difference {largest:.1e}, job {job_s:.0f} s")
    assert largest < (1e-10 if of_job.dtype == np.float64 else 1e-6)
