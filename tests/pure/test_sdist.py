"""The sdist holds what git knows, so that the checks, the tests and the documentation run from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
# Hatchling puts these into every sdist. Source: hatchling 1.33.0, builders/sdist.py, `get_default_build_data`.
ALWAYS = {".gitignore", "LICENSE", "NOTICE", "README.md", "pyproject.toml"}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a clone knows what git knows")
def test_the_sdist_includes_all_that_git_knows() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    known = {name.partition("/")[0] for name in listed.splitlines()}
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {name.removeprefix("/") for name in included} | ALWAYS == known
    assert all(name.startswith("/") for name in included), "a name without / is found in any folder"
