"""The version is written once, in the package; what npm and JupyterLab read has its release part."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from packaging.version import Version

import jupyter_ddl

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
RELEASE = Version(jupyter_ddl.__version__).base_version


def test_the_build_reads_the_version_from_the_package() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        read = tomllib.load(file)
    assert "version" not in read["project"]
    assert read["project"]["dynamic"] == ["version"]
    assert read["tool"]["hatch"]["version"] == {"path": "jupyter_ddl/__init__.py"}


@pytest.mark.parametrize("name", ["package.json", "package-lock.json"])
def test_the_panel_has_the_packages_release(name: str) -> None:
    assert json.loads((ROOT / "labextension" / name).read_text())["version"] == RELEASE


@pytest.mark.parametrize("language", ["cs_CZ", "de_DE"])
def test_the_catalogues_have_the_packages_release(language: str) -> None:
    folder = ROOT / "jupyter_ddl" / "server" / "locale" / language / "LC_MESSAGES"
    assert json.loads((folder / "jupyter_ddl.json").read_text())[""]["version"] == RELEASE
