"""A site's limit of memory on several hosts: each host ends the rank that passes it, and the lease names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, KernelError, eventually
from systems.test_hosts import left_on, processes_of
from systems.test_hosts_apart import apart_kernel
from systems.test_preemption import left_on_nodes
from systems.test_scripts import RANK, run
from systems.test_slurm import kernel_in
from systems.test_submit import on_login

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from systems.batch import Slurm
    from systems.rig import Rig

pytestmark = [pytest.mark.mpi, pytest.mark.systems]

START = "import jupyter_ddl\ns = jupyter_ddl.start(profile='nodes', framework='none')\ns.run('x = rank')"
# It holds 600 MB in a child.
PASSES = """
import subprocess, sys, time
print("before", rank, flush=True)
if rank == 3:
    subprocess.Popen([sys.executable, "-c", "held = b'x' * 600_000_000; import time; time.sleep(600)"])
time.sleep(600)
"""
NAMED = (
    r"(?s)rank 3 on nodeb was ended, since it held 0\.\d+ GiB of memory in \d processes and may hold 0\.466 GiB\. "
    r"The limit is set by the profile nodes \(memory_per_rank = 500MB in \S+/nodes\.toml\)\. Take smaller batches"
)


@pytest.fixture
def profile(hosts: Rig) -> Iterator[Path]:
    """Give a profile of the two nodes in which each rank may hold 500 MB."""
    file = hosts.folder / "home/.jupyter/jupyter_ddl.d/nodes.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f'[nodes]\nlauncher = "hosts"\nhosts = "nodea:2,nodeb:2"\nssh = "{hosts.ssh}"\n'
        'limits = {memory_per_rank = "500MB"}\n'
    )
    yield file
    file.unlink()


def check_named_and_replaced(login: Kernel) -> None:
    login.do(START)
    with pytest.raises(KernelError, match=NAMED):
        login.do(f"s.run({PASSES!r})")
    login.do("s.run('x = rank')\ns.stop()")
    assert eventually(lambda: not processes_of(login))


@pytest.mark.usefixtures("profile")
def test_a_rank_on_another_host_that_holds_too_much_is_named(hosts: Rig, login: Kernel) -> None:
    check_named_and_replaced(login)
    assert left_on(hosts) == ""


@pytest.mark.slow
@pytest.mark.usefixtures("profile")
def test_so_it_is_where_no_folder_is_shared(hosts: Rig) -> None:
    with apart_kernel(hosts) as login:
        check_named_and_replaced(login)
    assert left_on(hosts) == ""


@pytest.mark.slow
@pytest.mark.usefixtures("profile")
def test_so_it_is_in_a_script(hosts: Rig) -> None:
    done = run(hosts, RANK + PASSES, "--profile", "nodes")
    assert done.returncode == 137
    assert "rank 3 on nodeb was ended, since it held " in done.stderr
    assert "and may hold 0.466 GiB. The limit is set by the profile nodes " in done.stderr
    assert "before" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("way", ["salloc", "sbatch"])
def test_so_it_is_in_an_allocation_and_in_a_job(slurm: Slurm, way: str) -> None:
    file = slurm.rig.folder / "home/.jupyter/jupyter_ddl.d/nodes.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('[nodes]\nlauncher = "slurm"\nlimits = {memory_per_rank = "500MB"}\n')
    with kernel_in(slurm) if way == "salloc" else on_login(slurm) as login:
        if way == "salloc":
            login.do(START)
        else:
            login.do(
                "import jupyter_ddl\n"
                "s = jupyter_ddl.submit(profile='nodes', nodes=2, ntasks_per_node=2, time='0:10')\ns.run('x = rank')"
            )
        with pytest.raises(KernelError, match=NAMED):
            login.do(f"s.run({PASSES!r})")
        if way == "salloc":
            # A job whose ranks are lost in its first minute ends.
            login.do("s.run('x = rank')")
        login.do("s.stop()")
        assert eventually(lambda: not left_on_nodes(slurm)), left_on_nodes(slurm)
    file.unlink()
    assert eventually(lambda: slurm.call("squeue -h") == "", 60), slurm.call("squeue")
