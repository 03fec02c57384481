"""Ranks in an image of Apptainer's, run by an ordinary user: on one host, on two, in Slurm; and a kernel in the image.

They take an image and Apptainer, and are skipped without.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, KernelError, eventually, kernel
from systems.images import BIND, User, image, user_of
from systems.rig import NODES, Rig, environment
from systems.test_hosts import ALL_IN_A_COLLECTIVE, TRAINS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from systems.batch import Slurm

pytestmark = [pytest.mark.mpi, pytest.mark.systems, pytest.mark.slow]

WHERE = """
import os, socket
import horovod.tensorflow as hvd
hvd.init()
where = os.environ.get("APPTAINER_NAME"), socket.gethostname(), hvd.size(), hvd.__file__.startswith("/opt/ddl/")
"""


@pytest.fixture(scope="module")
def user(hosts: Rig) -> Iterator[User]:
    with user_of(hosts) as found:
        yield found


@pytest.fixture
def login(user: User) -> Iterator[Kernel]:
    """A kernel of the user's on the login node, outside of the image."""
    # Of the host's Horovod nothing may reach the image.
    with kernel(user.variables(JUPYTER_DDL_HOROVOD=str(user.home / "horovod")), within=user.within()) as other:
        yield other


def start(user: User, *places: str) -> str:
    given = ", ".join((*places, f"container={str(user.image)!r}"))
    return f"import jupyter_ddl\ns = jupyter_ddl.start({given})"


def left_on(hosts: Rig) -> str:
    return "".join(hosts.on(node, "ls -A /tmp /dev/shm | grep -v : || true").strip() for node in NODES)


def test_ranks_train_in_the_image_on_two_hosts_as_on_one_and_a_killed_one_is_named(
    hosts: Rig, user: User, login: Kernel
) -> None:
    login.do(start(user, "hosts='nodea:2,nodeb:2'", f"ssh={user.ssh!r}"))
    login.do(f"s.run({WHERE!r})")
    assert login.do("answer = s.pull('where')") == {
        str(rank): [user.image.name, NODES[rank // 2], 4, True] for rank in range(4)
    }
    login.do(f"s.run({TRAINS!r})")
    on_two = login.do("answer = s.pull('weights')")
    host, pid = login.do("answer = s.ranks[2].host, s.ranks[2].pid")
    login.do(f"run = s.submit({ALL_IN_A_COLLECTIVE!r})")
    hosts.on(host, f"kill -9 {pid}")
    with pytest.raises(KernelError, match=r"Received: rank 2 on nodeb was ended by signal 9 \(Killed\)"):
        login.do("run.wait()")
    login.do("s.run('x = 40 + rank')")
    assert login.do("answer = s.pull('x')") == {"0": 40, "1": 41, "2": 42, "3": 43}
    login.do("s.stop()")
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)
    login.do(f"{start(user, 'n=4')}\ns.run({TRAINS!r})")
    on_one = login.do("answer = s.pull('weights')")
    for rank, weights in on_two.items():
        assert weights == pytest.approx(on_one[rank], abs=1e-12)
    login.do("s.stop()")


def test_from_a_kernel_in_the_image_mpis_daemons_start_in_it_on_other_hosts(hosts: Rig, user: User) -> None:
    """The daemons are the image's, so the hosts need no MPI."""
    with kernel(user.variables(), within=user.in_image(), python="python3") as inside:
        inside.do(f"import jupyter_ddl\ns = jupyter_ddl.start(hosts='nodea:2,nodeb:2', ssh={user.ssh!r})")
        for node in NODES:
            assert "/opt/ddl/bin/prted" in hosts.on(node, "ps -C prted -o args")
        inside.do(f"s.run({WHERE!r})")
        assert inside.do("answer = s.pull('where')") == {
            str(rank): [user.image.name, NODES[rank // 2], 4, True] for rank in range(4)
        }
        inside.do(f"s.run({TRAINS!r})")
        host, pid = inside.do("answer = s.ranks[2].host, s.ranks[2].pid")
        inside.do(f"run = s.submit({ALL_IN_A_COLLECTIVE!r})")
        hosts.on(host, f"kill -9 {pid}")
        with pytest.raises(KernelError, match=r"Received: rank 2 on nodeb was ended by signal 9 \(Killed\)"):
            inside.do("run.wait()")
        inside.do("s.stop()")
        assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)


# How Apptainer is told to run the image that JupyterLab is in.
KERNELS = {
    "plain": (),
    "no variables of the host": ("--cleanenv",),
    "nothing of the host": ("--containall",),
    "no network": ("--net", "--network", "none"),
}


@pytest.mark.parametrize("options", KERNELS.values(), ids=KERNELS)
def test_a_kernel_in_the_image_has_its_ranks_in_it(user: User, options: tuple[str, ...]) -> None:
    with kernel(user.variables(), within=user.in_image(*options), python="python3") as inside:
        inside.do("import jupyter_ddl\ns = jupyter_ddl.start(n=2)")
        inside.do(f"s.run({WHERE!r})")
        (first, second) = inside.do("answer = list(s.pull('where').values())")
        assert first == second
        assert (first[0], first[2:]) == (user.image.name, [2, True])
        inside.do(f"s.run({TRAINS!r})")
        weights = list(inside.do("answer = s.pull('weights')").values())
        assert weights[0] == pytest.approx(weights[1], abs=1e-12)
        inside.do("s.stop()")


def test_a_home_that_is_read_only_is_named_and_other_folders_do(user: User) -> None:
    read_only = ("--bind", f"{user.home}:{user.home}:ro")
    with (
        kernel(user.variables(), within=user.in_image(*read_only), python="python3") as inside,
        pytest.raises(KernelError, match=r"FolderNotWritable: .* Set JUPYTER_DDL_RUN"),
    ):
        inside.do("import jupyter_ddl\njupyter_ddl.start(n=2)")
    elsewhere = {name: f"/tmp/{name}" for name in ("JUPYTER_DDL_RUNTIME", "JUPYTER_DDL_RUNS", "JUPYTER_DDL_CACHE")}
    with kernel(user.variables(**elsewhere), within=user.in_image(*read_only), python="python3") as inside:
        inside.do(f"import jupyter_ddl\ns = jupyter_ddl.start(n=2)\ns.run({TRAINS!r})")
        first, second = inside.do("answer = s.pull('weights')").values()
        assert first == pytest.approx(second, abs=1e-12)
        inside.do("s.stop()")


def test_an_image_with_a_horovod_that_works_keeps_it(user: User) -> None:
    built = user.run("login", "apptainer", "--silent", "exec", str(user.image), "jupyter-ddl", "build-horovod")
    assert built.returncode == 0, built.stderr
    assert "left alone" in built.stdout


def test_the_doctor_compares_the_image_with_the_host(user: User) -> None:
    said = user.run(
        "login", sys.executable, "-m", "jupyter_ddl.cli", "doctor", "--json", "--container", str(user.image)
    )
    (check,) = (one for one in json.loads(said.stdout)["checks"] if one["name"] == "Image")
    assert check["status"] == "ok", check
    assert "(PMIx 5." in check["text"]


def test_what_is_wrong_with_the_image_is_said_before_ranks_start(user: User, login: Kernel) -> None:
    login.do("import os\nkept = os.environ['PATH']\nos.environ['PATH'] = os.path.dirname(__import__('sys').executable)")
    with pytest.raises(KernelError, match=r"HostUnfit: Ranks in an image take Apptainer .* neither on PATH of login"):
        login.do(start(user, "n=2"))
    login.do("os.environ['PATH'] = kept\nos.makedirs('empty/bin')\nopen('broken.sif', 'w').close()")
    with pytest.raises(KernelError, match=r"HostUnfit: An image for ranks must have jupyter_ddl for the first python3"):
        login.do("jupyter_ddl.start(n=2, container='empty')")
    with pytest.raises(KernelError, match=r"HostUnfit: login must be able to run the image\. Received: .*broken\.sif"):
        login.do("jupyter_ddl.start(n=2, container='broken.sif')")


@pytest.mark.parametrize("scheduler", ["PBS", "LSF"])
def test_the_nodes_of_a_job_run_ranks_in_the_image(hosts: Rig, user: User, scheduler: str) -> None:
    """By the job's variables and files: neither system runs here."""
    listed = user.folder / "nodes"
    listed.write_text("nodea\nnodea\nnodeb\nnodeb\n")
    listed.chmod(0o644)
    jobs = {
        "PBS": {"PBS_JOBID": "12", "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_NODEFILE": str(listed)},
        "LSF": {"LSB_JOBID": "12", "LSB_DJOB_HOSTFILE": str(listed)},
    }
    with kernel(user.variables(**jobs[scheduler]), within=user.within("nodea")) as inside:
        inside.do(start(user, f"ssh={user.ssh!r}"))
        assert inside.do("answer = s.note").startswith(f"{scheduler} job 12: 2 nodes (nodea, nodeb), 4 ranks.")
        inside.do(f"s.run({WHERE!r})")
        assert inside.do("answer = s.pull('where')") == {
            str(rank): [user.image.name, NODES[rank // 2], 4, True] for rank in range(4)
        }
        inside.do("s.stop()")
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)


def test_a_kernel_in_the_image_beside_salloc_is_told_what_to_do_instead(slurm: Slurm) -> None:
    # Root's capabilities are fewer here than Apptainer asks for.
    variables = {**environment(slurm.rig), **slurm.variables, "APPTAINER_BIND": BIND, "APPTAINER_USERNS": "1"}
    within = (*slurm.within("-N", "2", "--ntasks-per-node=2"), "apptainer", "--silent", "exec", str(image()))
    with kernel(variables, within=within, python="python3") as inside:
        with pytest.raises(KernelError, match=r"scheduler starts \(slurm\), and a kernel in .*with --container /"):
            inside.do("import jupyter_ddl\njupyter_ddl.start()")
        with pytest.raises(KernelError, match=r"none of sbatch .* on PATH in /.*with --container /"):
            inside.do("jupyter_ddl.submit(nodes=2, ntasks_per_node=2)")
        # On its own host it starts ranks as ever.
        inside.do("s = jupyter_ddl.start(n=2, local=True)\ns.run('x = rank')")
        assert inside.do("answer = s.pull('x')") == {"0": 0, "1": 1}
        inside.do("s.stop()")
