"""Environments as users have them: a Python of a version, no Node.js, no compiler, and nothing of this checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
BUILDERS = re.compile(
    r"(.*-)?(gcc|g\+\+|cc|c\+\+|cpp|c89|c99|clang|clang\+\+|gfortran|nvcc|node|nodejs|npm|npx)(-[\d.]+)?"
)
# What npm builds.
BUILT = ("labextension/built", "jupyter_ddl/views/static")
ABSENT = ("cc", "gcc", "g++", "clang", "node", "npm")
INSTALL_S = 900
RUN_S = 240


def tools_without_builders(folder: Path) -> Path:
    """Make a folder with links to the machine's commands, but for compilers and Node.js; return it."""
    folder.mkdir()
    for place in (Path("/usr/bin"), Path("/bin")):
        for command in place.iterdir():
            if not BUILDERS.fullmatch(command.name) and not (folder / command.name).is_symlink():
                (folder / command.name).symlink_to(command)
    assert not [name for name in ABSENT if shutil.which(name, path=str(folder))]
    return folder


def python_of(version: str) -> str:
    """Return a Python of a version, e.g. "3.12", from PATH or pyenv; skip the test where there is none."""
    for candidate in _pythons(version):
        asked = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        told = subprocess.run(asked, capture_output=True, text=True, check=False)
        if told.returncode == 0 and told.stdout.strip() == version:
            return candidate
    pytest.skip(f"Python {version} is neither on PATH nor in pyenv")


def _pythons(version: str) -> Iterator[str]:
    # A shim of pyenv's fails for a version that is not the chosen one, so that pyenv's own come after PATH.
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield on_path
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python")))


@dataclass(frozen=True)
class Environment:
    """A virtual environment in a folder, and the folder of the machine's commands, with compilers or without."""

    folder: Path
    tools: Path

    @classmethod
    def made(cls, python: str, folder: Path, tools: Path) -> Environment:
        """Make it with a Python."""
        subprocess.run([python, "-m", "venv", folder / "venv"], check=True, timeout=RUN_S)
        (folder / "home").mkdir()
        return cls(folder, tools)

    @property
    def _bin(self) -> Path:
        return self.folder / "venv" / "bin"

    def _variables(self) -> dict[str, str]:
        ours = ("PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS")
        kept = {
            name: value for name, value in os.environ.items() if name not in ours and not name.startswith("JUPYTER_")
        }
        return {**kept, "PATH": f"{self._bin}:{self.tools}"}

    def install(self, *requirements: str) -> None:
        """Install with pip, and compile nothing: what has no wheel fails, but for a file that is named."""
        command = [
            str(self._bin / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--only-binary",
            ":all:",
            *requirements,
        ]
        self._checked(command, self._variables(), INSTALL_S)

    def run(self, *command: str, rc: int = 0, limit_s: int = RUN_S) -> str:
        """Run a command of it with a home of its own; return all that it printed."""
        variables = self._variables() | {"HOME": str(self.folder / "home")}
        # Short: sockets lie there.
        variables["JUPYTER_DDL_RUNTIME"] = os.environ["JUPYTER_DDL_RUNTIME"]
        return self._checked([str(self._bin / command[0]), *command[1:]], variables, limit_s, rc)

    def _checked(self, command: list[str], variables: dict[str, str], limit_s: int, rc: int = 0) -> str:
        done = subprocess.run(
            command, env=variables, cwd=self.folder, capture_output=True, text=True, timeout=limit_s, check=False
        )
        assert done.returncode == rc, f"{command}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout + done.stderr
