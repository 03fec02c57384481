"""`jupyter ddl run --container`: a script's ranks in an image, run by an ordinary user, on one host and on two.

They take an image and Apptainer, and are skipped without.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import eventually
from systems import images, test_scripts
from systems.images import User, user_of
from systems.rig import NODES, Rig
from systems.test_hosts_in_images import left_on
from systems.test_scripts import TRAINS, WAITS

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from systems.batch import Slurm

pytestmark = [pytest.mark.mpi, pytest.mark.systems, pytest.mark.slow]

WHERE = """
import json, os, socket, sys
import horovod.tensorflow as hvd
import beside_the_script
hvd.init()
image, is_the_images = os.environ.get("APPTAINER_NAME"), hvd.__file__.startswith("/opt/ddl/")
print("where", json.dumps([hvd.rank(), image, socket.gethostname(), hvd.size(), is_the_images, sys.argv]))
"""
KILLED = f"""
{WAITS.partition("world.Barrier")[0]}
world.Barrier()
if rank == 2:
    os.kill(os.getpid(), signal.SIGKILL)
world.Barrier()
"""


@pytest.fixture(scope="module")
def user(hosts: Rig) -> Iterator[User]:
    with user_of(hosts) as found:
        (found.home / "scripts").mkdir()
        (found.home / "scripts/beside_the_script.py").touch()
        yield found


def run(user: User, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    (user.home / "scripts/script.py").write_text(script)
    command = (sys.executable, "-m", "jupyter_ddl.cli", "run", "--container", str(user.image), *options)
    # Of the host's Horovod nothing may reach the image.
    return user.run(
        "login", *command, "scripts/script.py", "--rate", "0.1", JUPYTER_DDL_HOROVOD=str(user.home / "horovod")
    )


def over_ssh(user: User) -> tuple[str, ...]:
    return ("-H", "nodea:2,nodeb:2", "--ssh", user.ssh)


def weights(done: subprocess.CompletedProcess[str]) -> list[float]:
    assert done.returncode == 0, done.stderr
    found = re.search(r"weights (\[.*\])", done.stdout)
    assert found is not None, done.stdout
    answer: list[float] = json.loads(found[1])
    return answer


# Four starts of four ranks with TensorFlow.
@pytest.mark.timeout(900)
def test_a_script_trains_in_the_image_on_two_hosts_as_on_one(hosts: Rig, user: User) -> None:
    for options, where in ((("-n", "4"), ["login"] * 4), (over_ssh(user), ["nodea", "nodea", "nodeb", "nodeb"])):
        done = run(user, WHERE, *options)
        assert done.returncode == 0, done.stderr
        said = sorted(json.loads(line) for line in re.findall(r"where (\[.*\])", done.stdout))
        argv = ["scripts/script.py", "--rate", "0.1"]
        assert said == [[rank, user.image.name, host, 4, True, argv] for rank, host in enumerate(where)], done.stdout
    on_one = weights(run(user, TRAINS, "-n", "4"))
    assert weights(run(user, TRAINS, *over_ssh(user))) == pytest.approx(on_one, abs=1e-12)
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)


@pytest.mark.parametrize("place", ["one host", "two"])
def test_a_rank_that_is_killed_in_the_image_is_named(hosts: Rig, user: User, place: str) -> None:
    done = run(user, KILLED, *(("-n", "4") if place == "one host" else over_ssh(user)))
    assert done.returncode == 128 + 9, done.stderr
    host = "login" if place == "one host" else "nodeb"
    assert f"rank 2 on {host} was ended by signal 9 (Killed)" in done.stderr, done.stderr
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)
    for node in ("login", *NODES):
        assert "script_main" not in hosts.on(node, "ps -eo args | grep -v grep || true")


def test_within_an_allocation_ranks_are_in_the_image_on_its_nodes(slurm: Slurm) -> None:
    within = slurm.within("-N", "2", "--ntasks-per-node=2")
    # Root's capabilities are fewer here than Apptainer asks for.
    variables = {**slurm.variables, "APPTAINER_BIND": images.BIND, "APPTAINER_USERNS": "1"}
    script = WHERE.replace("import beside_the_script\n", "")
    done = test_scripts.run(slurm.rig, script, "--container", str(images.image()), within=within, **variables)
    assert done.returncode == 0, done.stderr
    assert re.search(r"Slurm job \d+: 2 nodes \(nodea, nodeb\), 4 ranks\. In the image", done.stderr)
    said = sorted(json.loads(line) for line in re.findall(r"where (\[.*\])", done.stdout))
    nodes = ["nodea", "nodea", "nodeb", "nodeb"]
    image = images.image().name
    assert said == [[rank, image, node, 4, True, ["script.py"]] for rank, node in enumerate(nodes)], done.stdout
    assert eventually(lambda: slurm.call("squeue -h") == "")


def test_what_is_wrong_with_the_image_is_said_before_a_rank_starts(user: User) -> None:
    (user.home / "broken.sif").touch()
    for options in (("-n", "2"), over_ssh(user)):
        done = run(user, "", "--container", "broken.sif", *options)
        assert done.returncode == 1
        assert "must be able to run the image. Received:" in done.stderr
