"""The recipe of a conda package, and the environment of notebooks/try-it.ipynb, say what pyproject.toml does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

import jupyter_ddl

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
RECIPE: dict[str, Any] = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())


def as_conda_writes(requirement: str) -> str:
    """Return a requirement of pip's in conda's words; a package for every Python takes what one of them takes."""
    return re.sub(r"(?=[><=])", " ", requirement.partition(";")[0].strip(), count=1)


def test_it_takes_what_the_wheel_takes() -> None:
    python, *run = RECIPE["requirements"]["run"]
    lowest, _, below = PROJECT["project"]["requires-python"].partition(",")
    assert lowest == f">={RECIPE['context']['python_min']}"
    assert python == f"python >=${{{{ python_min }}}},{below}"
    assert run == [as_conda_writes(one) for one in PROJECT["project"]["dependencies"]]
    assert {as_conda_writes(one) for one in PROJECT["build-system"]["requires"]} <= set(RECIPE["requirements"]["host"])


def test_it_has_the_packages_version_command_and_licence() -> None:
    project = PROJECT["project"]
    assert RECIPE["context"]["version"] == jupyter_ddl.__version__
    assert RECIPE["build"]["python"]["entry_points"] == [f"{name} = {to}" for name, to in project["scripts"].items()]
    assert (RECIPE["about"]["license"], RECIPE["about"]["license_file"]) == (
        project["license"],
        project["license-files"],
    )
    assert RECIPE["about"]["summary"] == project["description"]
    # conda-forge's linter asks for a home page: the recipe has one as soon as the project has.
    assert RECIPE["about"].get("homepage") == project.get("urls", {}).get("Homepage")


def test_binder_has_what_the_notebook_to_try_needs() -> None:
    environment = yaml.safe_load((ROOT / ".binder" / "environment.yml").read_text())
    extras = PROJECT["project"]["optional-dependencies"]
    [mpi4py] = [one for one in PROJECT["project"]["dependencies"] if one.startswith("mpi4py")]
    assert {mpi4py, extras["torch"][0].replace("torch", "pytorch-cpu")} <= set(environment["dependencies"])


def test_codespaces_and_binder_install_alike() -> None:
    settings = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    environment, added = re.findall(r"\.binder/\S+", settings["postCreateCommand"])
    assert (environment, added) == (".binder/environment.yml", ".binder/postBuild")
    assert os.access(ROOT / added, os.X_OK)
    subprocess.run(["sh", "-n", ROOT / added], check=True)
    for name in settings["customizations"]["codespaces"]["openFiles"]:
        assert (ROOT / name).is_file()
