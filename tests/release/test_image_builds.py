"""The images for cores are built from their definitions and pass the doctor, by each builder that works here.

`DDL_TEST_BASE` names what the builder begins from, where no registry of images can be reached: an image that it has,
for Apptainer a file or a folder. `DDL_TEST_BUILD_OPTIONS` are further options of its `build`, such as `--network host`.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from environments import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = [pytest.mark.release, pytest.mark.slow, pytest.mark.mpi, pytest.mark.timeout(4200)]
BASE = "debian:bookworm-slim"
TAG = "localhost/ddl-test"
DOCTOR = ("jupyter", "ddl", "doctor", "--json")
PROBE_S = 300
BUILD_S = 3600


def asked(command: Sequence[str], folder: Path, limit_s: int = PROBE_S) -> subprocess.CompletedProcess[str]:
    """Run a builder's command in a folder."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=limit_s, check=False)


def built(command: Sequence[str], folder: Path) -> None:
    """Run what builds, which must end well."""
    done = asked(command, folder, BUILD_S)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a command that failed wrote last."""
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[-1] if lines else f"status {done.returncode}"


def must_work(builder: str, folder: Path) -> None:
    """Skip the test where there is no such builder, or it does not work."""
    if shutil.which(builder) is None:
        pytest.skip(f"{builder} is not on PATH")
    probe = asked([builder, "--version" if builder == "apptainer" else "info"], folder)
    if probe.returncode:
        pytest.skip(f"{builder} does not work here: {last_line(probe)}")


def options() -> list[str]:
    """Return the further options of a build."""
    return shlex.split(os.environ.get("DDL_TEST_BUILD_OPTIONS", ""))


def check_doctor(told: subprocess.CompletedProcess[str]) -> None:
    """Hold what the doctor has found in an image: Horovod works, and nothing is wrong."""
    assert told.stdout.startswith("{"), told.stderr[-4000:]
    checks: list[dict[str, Any]] = json.loads(told.stdout)["checks"]
    assert not [check for check in checks if check["status"] == "problem"]
    assert {check["name"]: check["status"] for check in checks}["Allreduce"] == "ok"


@pytest.fixture
def context(wheel: Path, tmp_path: Path) -> Path:
    """A folder with what the definitions copy: the steps, and the wheel as `make wheel` leaves it."""
    shutil.copytree(ROOT / "containers", tmp_path / "containers")
    (tmp_path / "dist").mkdir()
    shutil.copy2(wheel, tmp_path / "dist")
    return tmp_path


@pytest.mark.parametrize("program", ["docker", "podman", "buildah"])
def test_the_dockerfile_builds_an_image_that_the_doctor_finds_whole(
    request: pytest.FixtureRequest, tmp_path: Path, program: str
) -> None:
    must_work(program, tmp_path)
    base = os.environ.get("DDL_TEST_BASE", BASE)
    if asked([program, "inspect", "--type", "image", base], tmp_path).returncode:
        pull = asked([program, "pull", base], tmp_path)
        if pull.returncode:
            pytest.skip(f"{program} cannot get {base}: {last_line(pull)}")
    folder = request.getfixturevalue("context")
    named = ["-f", "containers/Dockerfile", "--build-arg", f"FROM={base}", "-t", TAG]
    built([program, "build", *named, *options(), "."], folder)
    if program == "buildah":
        container = asked([program, "from", TAG], folder).stdout.strip()
        told = asked([program, "run", container, "--", *DOCTOR], folder)
        asked([program, "rm", container], folder)
    else:
        told = asked([program, "run", "--rm", "--shm-size=1g", TAG, *DOCTOR], folder)
    asked([program, "rmi", TAG], folder)
    check_doctor(told)


def test_apptainer_builds_an_image_that_the_doctor_finds_whole(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    must_work("apptainer", tmp_path)
    base = os.environ.get("DDL_TEST_BASE")
    if base is None:
        pull = asked(["apptainer", "pull", "base.sif", f"docker://{BASE}"], tmp_path)
        if pull.returncode:
            pytest.skip(f"apptainer cannot get {BASE}: {last_line(pull)}")
    folder = request.getfixturevalue("context")
    definition = folder / "containers" / "cpu.def"
    if base is not None:
        text = definition.read_text()
        assert f"Bootstrap: docker\nFrom: {BASE}\n" in text
        definition.write_text(text.replace("Bootstrap: docker", "Bootstrap: localimage").replace(BASE, base))
    built(["apptainer", "build", *options(), "ddl.sif", "containers/cpu.def"], folder)
    check_doctor(asked(["apptainer", "exec", "ddl.sif", *DOCTOR], folder))
