"""A release of this checkout's files, built once: what git knows, and what npm built."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from environments import BUILT, ROOT, Environment, tools_without_builders

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The machine's commands, but for compilers and Node.js."""
    return tools_without_builders(tmp_path_factory.mktemp("machine") / "bin")


@pytest.fixture(scope="session")
def builder(tmp_path_factory: pytest.TempPathFactory, tools: Path) -> Environment:
    """An environment that has `build` and what builds our wheel."""
    environment = Environment.made(sys.executable, tmp_path_factory.mktemp("builder"), tools)
    environment.install("build", "hatchling>=1.28")
    return environment


@pytest.fixture(scope="session")
def release(builder: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the sdist and the wheel, which `python -m build` makes of a copy of this checkout."""
    folder = tmp_path_factory.mktemp("release")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    # git lists a file that was removed here until that is committed.
    for name in (name for name in listed.split("\0") if (ROOT / name).is_file()):
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / "source" / name)
    for name in BUILT:
        assert (ROOT / name).is_dir(), f"A release holds what npm built. Received: no {name}. Run: make test-wheel"
        shutil.copytree(ROOT / name, folder / "source" / name)
    builder.run("python", "-m", "build", "--outdir", str(folder / "dist"), str(folder / "source"))
    return folder / "dist"


@pytest.fixture(scope="session")
def wheel(release: Path) -> Path:
    """The wheel of the release."""
    (found,) = release.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def sdist(release: Path) -> Path:
    """The sdist of the release."""
    (found,) = release.glob("*.tar.gz")
    return found
