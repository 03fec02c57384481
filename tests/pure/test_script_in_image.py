"""A script's ranks in an image: the commands that start them there, with a program in Apptainer's place."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_launch_container import OPENMPI, RUNS, called, runtime

from jupyter_ddl.cluster.planning import plan
from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.host import mpi
from jupyter_ddl.launch.place_options import place_of
from jupyter_ddl.paths import DATA_VARIABLE, HOROVOD_VARIABLE, SCRIPT_VARIABLE
from jupyter_ddl.protocol.cell_options import CellOptions
from jupyter_ddl.protocol.requests import RunScript
from jupyter_ddl.script.launching import Surroundings, job, look_at_hosts, rank_environment

if TYPE_CHECKING:
    from jupyter_ddl.cluster.spec import ClusterSpec

REAL_MPI = mpi.find_mpi()
SCRIPT = ("scripts/train.py", "--rate", "0.1")


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An image, in the folder that is the current one."""
    for name in ("scripts", "run", "pipes"):
        (tmp_path / name).mkdir()
    (tmp_path / "scripts/train.py").touch()
    monkeypatch.chdir(tmp_path)
    # A folder that a variable names is shown too.
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setattr(mpi, "find_mpi", lambda: OPENMPI)
    (tmp_path / "ddl.sif").touch()
    return str(tmp_path / "ddl.sif")


def spec_of(image: str, hosts: str | None = None, **options: object) -> ClusterSpec:
    place = place_of(hosts, local=hosts is None, container=image)
    return plan(2, gpus="none", place=place, **options)  # type: ignore[arg-type]


def in_place_of_apptainer(command: list[str], folder: Path) -> tuple[list[str], set[str]]:
    """Return what Apptainer gets to run in the image, and the folders that it is to show."""
    arguments = called(command[command.index("/bin/sh") :], PATH=runtime(folder))["arguments"]
    assert isinstance(arguments, list)
    where = arguments.index(str(folder / "ddl.sif"))
    assert arguments[arguments.index("--pwd") + 1] == str(Path.cwd())
    return arguments[where + 1 :], {arguments[at + 1] for at in range(where) if arguments[at] == "--bind"}


def test_on_one_host_each_rank_is_the_images_and_sees_the_script_and_our_folders(
    image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    script = ("../scripts/train.py", "-x")
    command, _ = job(spec_of(image), script, Surroundings(), {}, [tmp_path / "run", tmp_path / "pipes"])
    program, bound = in_place_of_apptainer(command, tmp_path)
    assert bound == {str(tmp_path / name) for name in ("work", "scripts", "run", "pipes")}
    assert program[:2] == ["python3", "-c"]
    assert program[3:] == ["jupyter_ddl.rank.script_main", *script]


def test_on_several_hosts_the_relay_beside_each_rank_is_in_the_image_too(image: str, tmp_path: Path) -> None:
    command, _ = job(spec_of(image, "nodea:1,nodeb:1"), SCRIPT, Surroundings(), {}, ())
    assert command[command.index("-H") + 1] == "nodea:1,nodeb:1"
    program, bound = in_place_of_apptainer(command, tmp_path)
    assert bound == {str(tmp_path)}
    assert program[:2] == ["python3", "-c"]
    assert program[3:6] == ["jupyter_ddl.rank.script_relay", "python3", "-c"]
    assert program[7:] == ["jupyter_ddl.rank.script_main", *SCRIPT]


def test_without_an_image_the_commands_are_this_environments(image: str) -> None:
    command, _ = job(plan(2, gpus="none"), SCRIPT, Surroundings(), {}, [Path(image).parent])
    assert image not in command
    assert command[-4:] == ["jupyter_ddl.rank.script_main", *SCRIPT]
    assert "jupyter_ddl.rank.script_relay" not in command
    command, _ = job(plan(2, gpus="none", place=place_of("nodea:2")), SCRIPT, Surroundings(), {}, ())
    assert command.index("jupyter_ddl.rank.script_relay") < command.index("jupyter_ddl.rank.script_main")


def test_the_image_has_its_own_horovod_but_for_one_that_env_names(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOROVOD_VARIABLE, "/of/the/host")
    request = RunScript("run", None, None, 2, (), 1, CellOptions())
    variables = rank_environment(spec_of(image), request)
    assert SCRIPT_VARIABLE in variables
    assert HOROVOD_VARIABLE not in variables
    named = rank_environment(spec_of(image, environment={HOROVOD_VARIABLE: "/mine"}), request)
    assert [value for name, value in named.items() if name.endswith(f"ENV_{HOROVOD_VARIABLE}")] == ["/mine"]
    assert rank_environment(plan(2, gpus="none"), request)[HOROVOD_VARIABLE] == "/of/the/host"


def test_this_hosts_image_is_looked_at_before_a_rank_starts(
    image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{runtime(tmp_path, program=RUNS)}:{os.environ['PATH']}")
    kind = "openmpi" if REAL_MPI.flavour == "openmpi" else "mpich"
    monkeypatch.setattr(mpi, "find_mpi", lambda: replace(OPENMPI, flavour=kind, version=REAL_MPI.version))
    spec = spec_of(image)
    assert look_at_hosts(spec) == Surroundings()
    other = "mpich" if kind == "openmpi" else "openmpi"
    monkeypatch.setattr(mpi, "find_mpi", lambda: replace(OPENMPI, flavour=other, version="1.0"))
    with pytest.raises(HostUnfit, match=r"The MPI of an image must be of the kind that starts its ranks\. Received:"):
        look_at_hosts(spec)
    Path(image).unlink()
    with pytest.raises(HostUnfit, match=r"Every host must have the image at the same path"):
        look_at_hosts(spec)
