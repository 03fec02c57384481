"""Where ranks start: on one of two hosts with one home, beside any file, in one world; and where they do not."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest
from ranks.kernel import Kernel
from ranks.kernels import KernelError, eventually, kernel, without

from jupyter_ddl import paths, start
from jupyter_ddl.cluster import registry
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.errors import ClusterStartFailed
from jupyter_ddl.host import mpi

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi

# Another host, as far as a program can tell: another name, and other process numbers. The home is the same.
NODE_B = ("unshare", "-u", "-p", "-f", "--mount-proc", "--kill-child", "sh", "-c", 'hostname node-b && exec "$@"', "sh")
START = "import jupyter_ddl\ns = jupyter_ddl.start(n=1, name={name!r})\ns.run('x = 40 + rank')"


def needs_namespaces() -> None:
    probe = subprocess.run([*NODE_B, "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"no namespaces can be made here: {probe.stderr.strip()}")


def test_two_hosts_with_one_home_never_touch_each_others_clusters(tmp_path: Path) -> None:
    needs_namespaces()
    plain = without(tmp_path, "tensorflow")
    with kernel(plain) as a, kernel(plain, within=NODE_B) as b:
        a.do(START.format(name="both"))
        here = ClusterFolder("both")
        # B sees it, as another host's, and cannot use it.
        with pytest.raises(
            KernelError, match=r"Received: 'both'; running: none; on other hosts: .*\bboth on .*Use a kernel"
        ):
            b.do("import jupyter_ddl\njupyter_ddl.attach('both')")
        # One of the same name starts there, and neither is the other's.
        b.do(START.format(name="both"))
        b.do("s.run('x = 7')")
        assert list(registry.elsewhere()) == [("both", "node-b")]
        assert a.do("answer = s.pull('x')") == {"0": 40}
        assert b.do("answer = s.pull('x')") == {"0": 7}
        # Its end, and a start anew, leave the other's folder and ranks alone.
        b.do("s.stop()")
        assert here.lease() is not None
        assert here.settings()["world_id"]
        assert list(registry.elsewhere()) == []
        b.do(START.format(name="both"))
        a.do("s.stop()")
        assert not here.path.exists()
        assert b.do("s.run('x += 1'); answer = s.pull('x')") == {"0": 41}
        # A host that goes down with all its processes leaves a folder, and no cluster that is said to run.
        assert list(registry.elsewhere()) == [("both", "node-b")]
        b.kill()
        # The lock is held until the last of its processes is gone, which the kernel of Linux sees to.
        assert eventually(lambda: list(registry.elsewhere()) == [])
        a.do(START.format(name="both"))
        assert a.do("answer = s.pull('x')") == {"0": 40}
        a.do("s.stop()")


# All that a lease, a controller or a rank imports; a plain kernel starts beside each.
NAMES = (
    "random json queue statistics string copy socket asyncio logging platform numbers secrets select signal psutil "
    "zmq mpi4py IPython tokenize struct subprocess threading time math ctypes traitlets tornado ipyparallel datetime "
    "inspect pickle calendar fractions heapq hashlib hmac uuid shutil tempfile textwrap types_ code cmd token"
)


def fill(folder: Path) -> None:
    for name in NAMES.split():
        (folder / f"{name}.py").write_text(f"raise ImportError('the wrong {name}')")
    (folder / "mymodule.py").write_text("x = 5")


# ipykernel 6 itself imports from the notebook's folder first.
@pytest.mark.skipif(int(version("ipykernel").split(".")[0]) < 7, reason="a kernel of ipykernel 6 does not start there")
def test_ranks_start_beside_files_of_pythons_names_and_cells_import_the_others(tmp_path: Path) -> None:
    fill(tmp_path)
    kernel = Kernel(str(tmp_path))
    try:
        started = kernel.execute("%ddl start -n 1 --name beside", 120)
        assert started.error is None, started.told
        assert kernel.run("import mymodule; mymodule.x").text == "[0] 5"
        # As in a notebook: behind Python's own modules.
        assert kernel.run("import random, queue; random.__file__ == queue.__file__").text == "[0] False"
        trained = kernel.run(
            "import tensorflow as tf, horovod.tensorflow as hvd\nhvd.init(); hvd.size()", timeout_s=240
        )
        assert trained.text == "[0] 1", trained.told
        kernel.execute("%ddl stop")
    finally:
        kernel.stop()


def test_a_script_starts_beside_them_and_imports_from_its_own_folder(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "train.py").write_text("import mymodule, sys\nprint(mymodule.x, sys.path[0], sys.argv[1:])\n")
    other = tmp_path / "other"
    other.mkdir()
    command = "import sys; sys.path.remove(''); from jupyter_ddl.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", command, "run", "-n", "2", str(tmp_path / "train.py"), "-a"],
        cwd=other,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"[0-1] 5 {tmp_path} ['-a']\n"


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ranks started as `srun --mpi=pmi2` starts those of an Open MPI: each becomes a world of its own."""
    found = mpi.find_mpi()
    real = found.mpiexec
    assert found.library is not None
    launcher = tmp_path / "mpiexec"
    launcher.write_text(
        f"""#!/bin/sh
case "$*" in *run_module*) ;; *) exec {real} "$@" ;; esac
n=$2
while [ "${{1##*/}}" != "${{PYTHON##*/}}" ]; do shift; done
for rank in $(seq "$n"); do "$@" & pids="$pids $!"; done
for pid in $pids; do wait "$pid" || status=1; done
exit "${{status:-0}}"
"""
    )
    launcher.chmod(0o755)
    monkeypatch.setenv("PYTHON", sys.executable)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(found.library.parent))
    monkeypatch.setenv(paths.MPIEXEC_VARIABLE, str(launcher))


RULE = "The ranks that are started together must be one MPI world. Received: a world of 1 rank"


def test_worlds_of_one_rank_each_are_no_cluster(apart: None) -> None:
    with pytest.raises(ClusterStartFailed) as caught:
        start(n=2, name="apart")
    assert RULE in str(caught.value)
    assert "but mpiexec started 2. Under Slurm start them with `srun --mpi=pmix`" in str(caught.value)


def test_worlds_of_one_rank_each_run_no_script(apart: None, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('trained')")
    done = subprocess.run(
        [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", "2", "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode != 0
    assert RULE in done.stderr
    assert "trained" not in done.stdout


BOTH_ARE_REFUSED = """
import jupyter_ddl, jupyter_ddl.keras as hvd, traceback
for how in (jupyter_ddl.auto, hvd.init):
    try:
        how()
        print('trained')
    except jupyter_ddl.errors.DdlError:
        traceback.print_exc()
"""


def test_a_script_that_was_started_as_one_of_four_and_is_alone_is_refused() -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "OMPI_", "PMI_"))}
    variables |= mpi.launch_environment(mpi.find_mpi(), n=1) | {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}
    done = subprocess.run(
        [sys.executable, "-c", BOTH_ARE_REFUSED], env=variables, capture_output=True, text=True, check=True
    )
    assert done.stderr.count(f"{RULE}, but SLURM_STEP_NUM_TASKS says 4.") == 2
    assert "trained" not in done.stdout


def test_clusters_of_this_suite_are_in_a_folder_of_their_own() -> None:
    assert registry.here().parent == paths.clusters_dir()
