"""The definitions of images share their steps, and a release has them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "containers"
STEPS = "sh /opt/build/steps.sh /opt/build/dist"


def sections(name: str) -> dict[str, list[str]]:
    """Return the lines of a definition by its sections, its comments left out; those of its head by ''."""
    found: dict[str, list[str]] = {"": []}
    section = ""
    for line in (IMAGES / name).read_text().splitlines():
        if line.startswith("%"):
            section = line[1:].strip()
            found[section] = []
        elif line.strip() and not line.startswith("#"):
            found[section].append(line.strip())
    return found


def test_the_definitions_differ_in_what_they_begin_from() -> None:
    cpu, cuda = sections("cpu.def"), sections("cuda.def")
    assert cpu.pop("") == ["Bootstrap: docker", "From: debian:bookworm-slim"]
    assert cuda.pop("")[1].startswith("From: nvidia/cuda:")
    assert cpu == cuda
    assert cpu["post"][0] == STEPS


def test_the_dockerfile_runs_the_same_steps() -> None:
    lines = (IMAGES / "Dockerfile").read_text().splitlines()
    assert f"RUN {STEPS} && rm -r /opt/build" in lines
    assert "ARG FROM=debian:bookworm-slim" in lines
    assert "ENV PATH=/opt/ddl/bin:$PATH" in lines
    assert "export PATH=/opt/ddl/bin:$PATH" in sections("cpu.def")["environment"]


def test_the_steps_are_a_script_that_a_plain_shell_reads() -> None:
    subprocess.run(["sh", "-n", IMAGES / "steps.sh"], check=True)
    said = subprocess.run(["sh", IMAGES / "steps.sh"], capture_output=True, text=True, check=False)
    assert said.returncode
    assert "the folder of the wheel" in said.stderr


@pytest.mark.parametrize("name", ["containers", "environment.yml", ".binder", ".devcontainer"])
def test_a_release_has_them(name: str) -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        built = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert f"/{name}" in built
    assert (ROOT / name).exists()
