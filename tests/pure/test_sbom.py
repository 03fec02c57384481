"""The bill of materials: it is of this source, scanners can read it, and it leaves nothing out."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement

import jupyter_ddl

ROOT = Path(__file__).parents[2]
SBOM = ROOT / "sbom.cdx.json"


@pytest.fixture(scope="module")
def program() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "labextension" / "sbom.py"))


def document() -> Any:
    return json.loads(SBOM.read_text())


def test_it_is_of_this_source(program: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert SBOM.read_text() == program["sbom"]() == program["sbom"](), "run: make sbom"
    assert program["main"](["--check"]) == 0
    assert document()["metadata"]["component"]["version"] == jupyter_ddl.__version__


def test_it_is_cyclonedx() -> None:
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(SBOM.read_text()) is None
    assert validator.validate_str(SBOM.read_text().replace('"library"', '"book"')) is not None


def test_it_names_what_is_bundled_with_its_licence() -> None:
    notice = (ROOT / "NOTICE").read_text()
    named = re.findall(r"\n(\S+) (\S+)\nSPDX-License-Identifier: (\S+)\n", notice)
    assert len(named) >= 3
    bundled = document()["metadata"]["component"]["components"]
    assert sorted(named) == sorted(
        (
            f"{one['group']}/{one['name']}" if "group" in one else one["name"],
            one["version"],
            one["licenses"][0]["license"]["id"],
        )
        for one in bundled
    )
    assert "pkg:npm/%40rspack/core@" in SBOM.read_text()


def test_it_names_what_pip_installs(program: dict[str, Any]) -> None:
    needs = ["numpy>=1.26", 'tomli>=2; python_version < "3.11"', "jupyter_ddl[lab]"]
    scope = program["ComponentScope"].REQUIRED
    found = [(one.name, str(one.purl), [p.value for p in one.properties]) for one in program["required"](needs, scope)]
    assert found == [
        ("numpy", "pkg:pypi/numpy", [">=1.26"]),
        ("tomli", "pkg:pypi/tomli", [">=2", 'python_version < "3.11"']),
    ]
    project = program["tomllib"].loads((ROOT / "pyproject.toml").read_text())["project"]
    scopes = {one["name"]: one["scope"] for one in document()["components"]}
    assert {name for name, where in scopes.items() if where == "required"} == {
        Requirement(one).name for one in project["dependencies"]
    }
    assert {"tensorflow", "torch", "jax", "jupyterlab"} <= scopes.keys()
    assert not {"pytest", "sphinx", "jupyter_ddl"} & scopes.keys()
