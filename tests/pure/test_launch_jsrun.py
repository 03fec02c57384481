"""jsrun's options and resource files, as IBM documents them: none of it ran here against a real jsrun."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import jsrun_stand_in as stand_in
import pytest
from batch_commands import program

from jupyter_ddl import paths
from jupyter_ddl.cluster.planning import plan
from jupyter_ddl.cluster.shrinking import without_lost_host
from jupyter_ddl.cluster.submission import Wanted, check_launcher
from jupyter_ddl.engine import world
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import mpi
from jupyter_ddl.launch import jsrun, mpi_job
from jupyter_ddl.launch.place import HERE, HostSlots, Place
from jupyter_ddl.launch.place_options import place_of
from jupyter_ddl.launch.profiles.job_defaults import job_options
from jupyter_ddl.launch.profiles.profile import Defaults, Named, Profile
from jupyter_ddl.launch.profiles.start_options import StartOptions, with_profile
from jupyter_ddl.launch.schedulers import known, lsf
from jupyter_ddl.launch.schedulers.scheduler import JobRequest
from jupyter_ddl.protocol import settled_variables
from jupyter_ddl.protocol.faults import Fault

LSF = lsf.Lsf()
# Two nodes of 42 cores, and the node that runs the batch script, as on Summit.
JOB = {"LSB_JOBID": "12", "LSB_MCPU_HOSTS": "batch1 1 h30n16 42 h30n17 42"}
HOSTS = ["h30n16", "h30n17"]
CORES = {"h30n16": 168, "h30n17": 168}
SUMMIT = Profile(launcher="lsf", mpi_launcher="jsrun", defaults=Defaults(nodes=2, ntasks_per_node=6))
NAMED = Named("summit", "/etc/site.toml", SUMMIT)


@pytest.fixture(autouse=True)
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be in such a job, on the node of its batch script."""
    for name, value in JOB.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(paths.RUNTIME_VARIABLE, str(tmp_path / "runtime"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program(tmp_path, "jsrun", "exit 9")
    return tmp_path


def started(place: Place, n: int) -> tuple[list[str], stand_in.Step]:
    """Return jsrun's command for a place, and what jsrun makes of it."""
    command = mpi_job.launch_command(mpi.find_mpi(), n, place, {"OWN": "1"}, CORES)
    return command, stand_in.step_of([*command[1:], "python", "-c", "pass"], HOSTS)


def test_each_host_is_a_resource_set_with_its_ranks(job: Path) -> None:
    command, step = started(place_of(launcher="jsrun"), 12)
    assert command == [
        *(str(job / "jsrun"), "-n", "2", "-r", "1", "-a", "6"),
        *("-c", "ALL_CPUS", "-g", "ALL_GPUS", "-d", "packed", "-b", "none"),
    ]
    assert step.ranks == {"h30n16": 6, "h30n17": 6}
    assert step.program == ["python", "-c", "pass"]


# As horovod's generate_jsrun_rankfile writes one, and IBM documents it, but that a rank may use all of its host.
FILE = """overlapping_rs: allow
oversubscribe_cpu: allow
oversubscribe_gpu: allow
oversubscribe_mem: allow
cpu_index_using: logical

rank: 0: { hostname: h30n16; cpu: {0-167} ; gpu: * ; mem: * }
rank: 1: { hostname: h30n16; cpu: {0-167} ; gpu: * ; mem: * }

rank: 2: { hostname: h30n17; cpu: {0-167} ; gpu: * ; mem: * }
"""


def test_hosts_with_different_numbers_of_ranks_take_a_resource_file(job: Path) -> None:
    (name, option, file), step = started(place_of(launcher="jsrun"), 3)
    assert (name, option) == (str(job / "jsrun"), "--erf_input")
    assert Path(file).read_text() == FILE
    assert step.ranks == {"h30n16": 2, "h30n17": 1}
    assert Path(file).stat().st_mode & 0o777 == 0o600
    # The same ranks again have the same file.
    assert started(place_of(launcher="jsrun"), 3)[0][2] == file


def test_a_part_of_the_jobs_hosts_takes_a_resource_file() -> None:
    place = place_of(launcher="jsrun")
    left = replace(place, hosts=place.hosts[1:])
    command, step = started(left, 6)
    assert command[1] == "--erf_input"
    assert step.ranks == {"h30n17": 6}


def test_slots_are_ranks_where_the_job_says_how_many_a_node_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DDL_RANKS_PER_NODE", "6")
    monkeypatch.setenv("JUPYTER_DDL_LAUNCHER", "jsrun")
    place = known.place_of_job({**JOB, "JUPYTER_DDL_RANKS_PER_NODE": "6", "JUPYTER_DDL_LAUNCHER": "jsrun"})
    assert place is not None
    assert (place.launcher, place.slots) == ("jsrun", 12)
    assert place_of() == place
    assert place_of(launcher="mpiexec").launcher == "mpiexec"
    uneven = replace(place, hosts=(HostSlots("h30n16", 4), HostSlots("h30n17", 2)))
    assert jsrun.ranks_on(uneven, 6) == [4, 2]
    assert jsrun.ranks_on(uneven, 5) == [3, 2]


def test_mpi_gets_no_settings_for_ssh_or_networks() -> None:
    found, place = mpi.find_mpi(), place_of(launcher="jsrun")
    variables = mpi_job.launch_environment(found, 12, place, mpi_job.Network("10.0.0.1", "10.0.0.0/24"))
    assert not [name for name in variables if re.search("agent|if_include|han", name)]
    assert place.launcher == "jsrun"
    assert Place.from_record({**place.__dict__, "hosts": []}).launcher == "jsrun"


def test_without_jsrun_it_is_said(job: Path) -> None:
    (job / "jsrun").unlink()
    with pytest.raises(
        InvalidInput, match=r"start by jsrun where it is on PATH\. Received: jsrun, which is not\. Load"
    ):
        jsrun.command(place_of(launcher="jsrun"), 12, CORES)


@pytest.mark.parametrize(
    ("options", "received"),
    [
        ({"launcher": "srun"}, r"started by mpiexec or by jsrun\. Received: --launcher srun"),
        (
            {"launcher": "jsrun", "local": True},
            r"on the other hosts of an LSF job\. Received: --launcher jsrun, and this",
        ),
        (
            {"launcher": "jsrun", "hosts": "a:2"},
            r"of an LSF job\. Received: --launcher jsrun, and hosts of kind 'hosts'",
        ),
    ],
)
def test_a_launcher_that_does_not_fit_is_refused(options: dict[str, object], received: str) -> None:
    with pytest.raises(InvalidInput, match=received):
        place_of(**options)  # type: ignore[arg-type]


def test_a_job_of_another_scheduler_has_no_jsrun() -> None:
    check_launcher(Wanted(launcher="jsrun"), "lsf")
    check_launcher(Wanted(), "slurm")
    with pytest.raises(InvalidInput, match=r"in a job of LSF by jsrun\. Received: --launcher jsrun in a job of slurm"):
        check_launcher(Wanted(launcher="jsrun"), "slurm")


def test_a_profile_says_it() -> None:
    assert with_profile(NAMED, StartOptions()).launcher == "jsrun"
    assert with_profile(NAMED, StartOptions(launcher="mpiexec")).launcher == "mpiexec"
    # Ranks that go elsewhere start as anywhere.
    assert with_profile(NAMED, StartOptions(hosts="a:2")).launcher is None
    assert with_profile(NAMED, StartOptions(local=True)).launcher is None
    options = job_options(NAMED, {})
    assert options["launcher"] == "jsrun"
    assert job_options(NAMED, {"launcher": "mpiexec"})["launcher"] == "mpiexec"


def test_the_script_of_a_job_asks_for_whole_nodes() -> None:
    wanted = Wanted(**{**job_options(NAMED, {}), "time": "2:00", "gpus_per_node": 6, "cpus_per_task": 7})
    request = wanted.request("train", "out.txt", Path("/home/me"))
    assert LSF.script(replace(request, account="abc123"), ["python", "it"]).splitlines() == [
        "#!/bin/bash",
        "#BSUB -J ddl-train",
        "#BSUB -nnodes 2",
        "#BSUB -o out.txt",
        "#BSUB -cwd /home/me",
        "#BSUB -W 2:00",
        "#BSUB -P abc123",
        "",
        "export JUPYTER_DDL_LAUNCHER=jsrun",
        "export JUPYTER_DDL_RANKS_PER_NODE=6",
        "exec python it",
    ]
    assert "jsrun" not in LSF.script(JobRequest("a", 2, 6, "o", "."), ["it"])


def test_a_rank_knows_how_many_jsrun_started(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JSM_NAMESPACE_SIZE", "12")
    world.check_started_world(12)
    with pytest.raises(InvalidInput, match=r"a world of 1 rank, but JSM_NAMESPACE_SIZE says 12"):
        world.check_started_world(1)
    assert settled_variables.changes("JSM_NAMESPACE_RANK", "1")
    assert settled_variables.is_settled("JSM_NAMESPACE_LOCAL_RANK")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-n", "2", "-r", "1", "-a", "6"], "no program"),
        (["-n", "3", "-r", "1", "-a", "6", "it"], "3 resource sets do not fit onto 2 hosts"),
        (["-n", "2", "-r", "1", "-a", "6", "-c", "SOME", "it"], "cpu_per_rs must be"),
        (["--np", "2", "it"], "unknown option --np"),
    ],
)
def test_the_stand_in_refuses_what_is_not_documented(arguments: list[str], said: str) -> None:
    with pytest.raises(stand_in.Refused, match=said):
        stand_in.step_of(arguments, HOSTS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FILE.replace("allow", "yes"), "overlapping_rs must be one of error, warn, allow"),
        (FILE.replace("rank: 2", "rank: 4"), "rank 2 must be next"),
        (FILE.replace("h30n17", "other"), "other is not in the job"),
        (FILE.replace("cpu: {0-167} ; ", ""), "no line of a resource file"),
        ("rank: 0: { host: 1; cpu: {0-27} ; gpu: {0} ; mem: * }\nrank: 1: x", "1 is not in the job"),
    ],
)
def test_the_stand_in_refuses_files_that_are_not_documented(text: str, said: str) -> None:
    with pytest.raises(stand_in.Refused, match=said):
        stand_in.ranks_of_file(text, HOSTS)


def test_the_hosts_that_are_left_take_as_many_ranks_each() -> None:
    spec = plan(12, place=place_of(launcher="jsrun"))
    lost = Fault("lost", "host", (), "h30n16", 5.0)
    smaller = without_lost_host(spec, lost, {})
    assert (smaller.n, [one.host for one in smaller.place.hosts]) == (6, ["h30n17"])
    assert started(smaller.place, smaller.n)[1].ranks == {"h30n17": 6}


def test_here_is_started_by_mpiexec() -> None:
    assert HERE.launcher == "mpiexec"
