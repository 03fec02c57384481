"""A batch job of a real Slurm that brings the ranks: submitted, attached to, cancelled and named."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from examples import OF_A_QUEUE, public_names
from ranks.kernels import Kernel, KernelError, eventually, kernel
from systems import images
from systems.rig import environment
from systems.test_hosts_apart import OWN_FOLDERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from systems.batch import Slurm

pytestmark = [pytest.mark.mpi, pytest.mark.systems]

SUBMIT = """
import jupyter_ddl
steps = []
s = jupyter_ddl.submit(nodes=2, ntasks_per_node=2, time='0:10', progress=steps.append{})
"""
PLACES = """
s.run('import socket; where = socket.gethostname(), local_rank')
answer = s.pull('where')
"""
DESCRIBED = "answer = [[one.name, one.job, one.state] for _, one in clusters.found()]"
RUN_EXAMPLE = """
import doctest, jupyter_ddl
runner = doctest.DocTestRunner()
names = {{'jupyter_ddl': jupyter_ddl}}
runner.run(doctest.DocTestParser().get_doctest({!r}, names, 'submit', None, None), out=print)
answer = [runner.tries, runner.failures]
"""
ON_BOTH = {"0": ["nodea", 0], "1": ["nodea", 1], "2": ["nodeb", 0], "3": ["nodeb", 1]}


def on_login(slurm: Slurm) -> AbstractContextManager[Kernel]:
    variables = {**environment(slurm.rig), **slurm.variables}
    return kernel(variables, within=slurm.rig.enter("login"))


@pytest.fixture
def login(slurm: Slurm) -> Iterator[Kernel]:
    with on_login(slurm) as other:
        yield other
    assert eventually(lambda: slurm.call("squeue -h") == "", 60), slurm.call("squeue")


def processes_on_nodes(slurm: Slurm) -> list[str]:
    """Return the command lines of our processes on the nodes."""
    found = []
    for node in ("nodea", "nodeb"):
        for process in slurm.rig.processes(node):
            try:
                line = " ".join(process.cmdline())
            except psutil.Error:
                # It ends at this moment.
                continue
            if "jupyter_ddl" in line:
                found.append(line)
    return found


def test_a_job_waits_brings_ranks_serves_two_notebooks_and_ends_with_a_stop(slurm: Slurm, login: Kernel) -> None:
    # All nodes are in use: the job waits.
    blocker = slurm.call("sbatch --parsable -N2 --exclusive --wrap 'sleep 600' -o /dev/null").strip()
    assert eventually(lambda: "RUNNING" in slurm.call(f"squeue -h -j {blocker} -o %T"))
    login.send(SUBMIT.format(""))
    assert eventually(lambda: "ddl-default" in slurm.call("squeue -h -t PD -o %j"))
    slurm.call(f"scancel {blocker}")
    login.answer()
    job = login.do("answer = s.job")
    steps = login.do("answer = steps")
    assert any(step.startswith(f"Slurm job {job} waits in the queue") for step in steps), steps
    assert login.do("answer = s.note") == f"Slurm job {job}: 2 nodes (nodea, nodeb), 4 ranks."
    assert login.do(PLACES) == ON_BOTH
    login.do("s.run('x = 10 * rank')")
    assert eventually(lambda: 0 < (login.do("answer = s.describe()['ends_at_s'] or 0") - time.time()) <= 600)
    with on_login(slurm) as second:
        seconds = second.do(
            f"import jupyter_ddl, time\nbegan = time.monotonic()\ns = jupyter_ddl.attach('{job}')\n"
            "answer = time.monotonic() - began"
        )
        assert seconds < 5
        assert second.do("answer = s.pull('x')") == {"0": 0, "1": 10, "2": 20, "3": 30}
    table = login.do("from jupyter_ddl.cluster.job_list import table\nanswer = table(lambda job: job == s.job)")
    assert f"{job}" in table
    assert "running" in table
    assert "attached" in table
    assert " min" in table
    login.do("s.stop()")
    assert login.do("answer = s.state") == "stopped"
    assert eventually(lambda: not processes_on_nodes(slurm)), processes_on_nodes(slurm)


@pytest.mark.slow
def test_an_idle_job_is_ended_by_its_scheduler_and_its_notebook_says_by_whom(slurm: Slurm, login: Kernel) -> None:
    login.do(SUBMIT.format(""))
    job = login.do("answer = s.job")
    with on_login(slurm) as terminal:
        command = "from jupyter_ddl.cli import main\nanswer = main(['clusters', '--stop-idle', {!r}, '--yes'])"
        assert terminal.do("from jupyter_ddl.oversight import clusters\n" + DESCRIBED) == [["default", job, "idle"]]
        login.send("s.run('import time; time.sleep(8)')\nanswer = 'ran'")
        assert eventually(lambda: terminal.do(DESCRIBED) == [["default", job, "running"]])
        terminal.do(command.format("0s"))
        assert login.answer() == "ran"
        terminal.do(command.format("1h"))
        assert slurm.call(f"squeue -h -j {job} -o %T").strip() == "RUNNING"
        terminal.do(command.format("0s"))
    assert eventually(lambda: not processes_on_nodes(slurm)), processes_on_nodes(slurm)
    with pytest.raises(KernelError, match=r"NoCluster: .* 'default' was stopped by .*, after .* without a run"):
        login.do("import time\nwhile s.state is None: time.sleep(0.1)\ns.run('x')")


def test_a_job_that_no_cell_uses_ends_by_itself(slurm: Slurm, login: Kernel) -> None:
    login.do(SUBMIT.format(", idle_stop='6s'"))
    job = login.do("answer = s.job")
    assert login.do("answer = s.run('import time; time.sleep(9)').outcome") == "finished"
    assert eventually(lambda: login.do("answer = s.describe()['idle_ends_at_s']") is not None)
    assert eventually(lambda: slurm.call(f"squeue -h -j {job} -o %T").strip() == "", 60)
    assert eventually(lambda: not processes_on_nodes(slurm)), processes_on_nodes(slurm)
    said = (
        r"NoCluster: Ranks must run\. Received: the cluster 'default' was stopped by --idle-stop 6s, after [\d.]+ s "
        r"without a run; what its cells defined is lost\. %ddl submit sends another job\."
    )
    with pytest.raises(KernelError, match=said):
        login.do("import time\nwhile s.state is None: time.sleep(0.1)\ns.run('x')")


# What the panel does is done by a thread of the kernel, while its cell waits.
PRESS_STOP = """
import threading
from jupyter_ddl.kernel.hub_link.controls import Controls
from jupyter_ddl.kernel.hub_link.state import State
from jupyter_ddl.protocol.hub_messages import Control
shown, answers = [], []
def press(step):
    if "waits in the queue" in step and not shown:
        cluster = State("k", None).now().cluster
        shown.extend([cluster["job"], cluster["state"], cluster["step"] == step])
        Controls().take(Control("1", "k", "stop", {}), answers.append)
"""


@pytest.mark.slow
def test_a_job_that_waits_is_ended_by_a_press_in_the_panel(slurm: Slurm, login: Kernel) -> None:
    blocker = slurm.call("sbatch --parsable -N2 --exclusive --wrap 'sleep 600' -o /dev/null").strip()
    assert eventually(lambda: "RUNNING" in slurm.call(f"squeue -h -j {blocker} -o %T"))
    try:
        login.do(PRESS_STOP)
        with pytest.raises(KernelError, match="ClusterStartFailed: The start was cancelled"):
            login.do("import jupyter_ddl\njupyter_ddl.submit(nodes=2, ntasks_per_node=2, progress=press)")
        job, state, is_told = login.do("answer = shown")
        assert (state, is_told) == ("starting", True)
        assert eventually(lambda: login.do("answer = [answer.error for answer in answers]") == [None])
        assert job.startswith("Slurm job ")
        assert "CANCELLED" in slurm.call(f"squeue -h --states=all -j {job.split()[-1]} -o %T")
        # Before it had any node.
        assert "RUNNING" in slurm.call(f"squeue -h -j {blocker} -o %T")
    finally:
        slurm.call(f"scancel {blocker}")


@pytest.mark.slow
def test_the_example_of_submit_runs(login: Kernel) -> None:
    (example,) = (public.example for public in public_names() if public.name in OF_A_QUEUE)
    assert login.do(RUN_EXAMPLE.format(example)) == [2, 0]


@pytest.mark.slow
def test_nodes_that_do_not_share_the_jobs_folder_are_told(slurm: Slurm) -> None:
    variables = {**environment(slurm.rig, **OWN_FOLDERS), **slurm.variables}
    with (
        kernel(variables, within=slurm.rig.enter("login")) as login,
        pytest.raises(KernelError, match=r"nodes must share its folder\. Received: Slurm job \d+ has ended \(FAILED\)"),
    ):
        login.do(SUBMIT.format(""))


@pytest.mark.slow
def test_a_jobs_ranks_run_in_an_image(slurm: Slurm) -> None:
    # Within the image the package is the checkout's; root's capabilities are fewer here than Apptainer asks for.
    in_image = {"APPTAINER_BIND": images.BIND, "APPTAINER_USERNS": "1"}
    variables = {**environment(slurm.rig), **slurm.variables, **in_image}
    with kernel(variables, within=slurm.rig.enter("login")) as login:
        login.do(SUBMIT.format(f", container={str(images.image())!r}"))
        login.do("s.run('import os, socket; where = os.environ[\"APPTAINER_NAME\"], socket.gethostname()')")
        assert login.do("answer = s.pull('where')") == {
            rank: [images.image().name, node] for rank, (node, _) in ON_BOTH.items()
        }
        login.do("s.stop()")
    assert eventually(lambda: not processes_on_nodes(slurm)), processes_on_nodes(slurm)


@pytest.mark.slow
def test_a_job_that_is_cancelled_is_named(slurm: Slurm, login: Kernel) -> None:
    login.do(SUBMIT.format(", name='named'"))
    job = login.do("answer = s.job")
    login.do("run = s.submit('import time\\ntime.sleep(600)')")
    slurm.call(f"scancel {job}")
    with pytest.raises(KernelError, match=rf"Received: Slurm job {job} was cancelled, by its owner"):
        login.do("run.wait()")
    assert eventually(lambda: not processes_on_nodes(slurm))


@pytest.mark.slow
def test_a_killed_kernel_takes_its_job_with_it_and_a_kept_one_stays(slurm: Slurm, login: Kernel) -> None:
    login.do(SUBMIT.format(", name='kept', keep=True"))
    kept = login.do("s.run('x = rank')\nanswer = s.job")
    with on_login(slurm) as second:
        second.do(SUBMIT.format(", name='tied'"))
        for one in (second, login):
            one.inside.kill()
        # Its program sees the free lock at once, and waits in case that locks are not seen between hosts.
        assert eventually(lambda: "tied" not in slurm.call("squeue -h -o %j"), 90)
    assert slurm.call(f"squeue -h -j {kept} -o %T").strip() == "RUNNING"
    with on_login(slurm) as third:
        third.do("import jupyter_ddl\ns = jupyter_ddl.attach('kept')")
        assert third.do("answer = s.pull('x')") == {"0": 0, "1": 1, "2": 2, "3": 3}
        third.do("s.stop()")


@pytest.mark.slow
def test_lost_ranks_are_replaced_in_the_job(slurm: Slurm, login: Kernel) -> None:
    login.do(SUBMIT.format(", name='again'"))
    job, world = login.do("answer = s.job, s._cluster.world_id")
    login.do("s.restart()")
    assert login.do("answer = s.job, s._cluster.world_id != '" + world + "'") == [job, True]
    assert login.do(PLACES) == ON_BOTH
    login.do("s.stop()")


@pytest.mark.slow
def test_a_job_of_one_node_is_reached_from_the_login_node(slurm: Slurm, login: Kernel) -> None:
    login.do(SUBMIT.format(", name='one', keep=True").replace("nodes=2", "nodes=1"))
    assert login.do(PLACES) == {"0": ["nodea", 0], "1": ["nodea", 1]}
    login.do("s.stop()\ns.stop()")


def test_what_slurm_refuses_is_told_in_its_words(slurm: Slurm, login: Kernel) -> None:
    with pytest.raises(KernelError, match=r"ClusterError: Slurm must take `sbatch`\. Received: .*invalid partition"):
        login.do("import jupyter_ddl\njupyter_ddl.submit(partition='nowhere')")
    assert slurm.call("squeue -h") == ""


WARNED = """
class Shows:
    def __init__(self): self.text = ''
    def handle(self, event): self.text += getattr(event, 'text', '')
    def tick(self, now_s): pass
    def flush(self): pass
shows = Shows()
run = s.submit('import time\\ntime.sleep(600)', view=lambda run: shows)
"""


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_end_of_the_wall_time_is_warned_of_and_named(slurm: Slurm, login: Kernel) -> None:
    login.do(SUBMIT.format(", name='short'").replace("0:10", "0:01"))
    job = login.do(f"{WARNED}answer = s.job")
    assert eventually(lambda: login.do("answer = s.wall_time.left_s()") is not None)
    assert 0 < login.do("answer = s.wall_time.left_s()") <= 60
    with pytest.raises(KernelError, match=rf"(?s)Received: Slurm job {job} reached its time limit.*%ddl submit"):
        login.do("run.wait()")
    warning = (
        rf"jupyter_ddl: Slurm job {job} has [\w ]+ left: then its scheduler ends the ranks, and what they hold is lost"
    )
    assert re.search(warning, login.do("answer = shows.text"))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_job_that_is_put_back_into_the_queue_is_waited_for(slurm: Slurm, login: Kernel) -> None:
    login.do(SUBMIT.format(", name='back'"))
    job = login.do("answer = s.job")
    login.do("run = s.submit('import time\\ntime.sleep(600)')")
    slurm.call(f"scontrol requeue {job}")
    with pytest.raises(KernelError, match=rf"Slurm job {job} was preempted, or its node failed, and it was put back"):
        login.do("run.wait()")
    assert eventually(lambda: "PENDING" in slurm.call(f"squeue -h -j {job} -o %T"))
    # Slurm waits two minutes before it starts one again.
    slurm.call(f"scontrol update jobid={job} StartTime=now")
    login.do("s.run('x = rank')")
    assert login.do("answer = s.pull('x'), s.job") == [{"0": 0, "1": 1, "2": 2, "3": 3}, job]
    login.do("s.stop()")
