"""Finds the compiler, make, CMake and Python packages that the build needs, or raises with the remedy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from jupyter_ddl.errors import BuildError
from jupyter_ddl.horovod_build.pip import run_pip

OLDEST_CMAKE = (3, 13)

# Horovod's setup.py is of 2023: later setuptools dropped what it uses. The build needs these; the user's
# environment does not, so they go into a folder that lives as long as the build.
BUILD_PACKAGES = ("setuptools>=66,<70", "wheel<0.46", "packaging")

_PROGRAM = """
#include <string_view>
#include <tuple>
int main() { auto [first, second] = std::tuple{std::string_view{"a"}, 1}; return first.empty() ? second : 0; }
"""

_COMPILER_REMEDY = (
    "Install g++ 9 or newer (apt install g++ make; dnf install gcc-c++ make; "
    "conda install gxx_linux-64 make; module load gcc), or name one in CXX."
)


@dataclass(frozen=True)
class Toolchain:
    """What compiles Horovod.

    Attributes:
        cxx: the C++17 compiler.
        cmake: CMake, or None where the build must take pip's.
    """

    cxx: Path
    cmake: Path | None


def find_toolchain() -> Toolchain:
    """Find a C++17 compiler, make and CMake.

    Raises:
        BuildError: there is no C++ compiler, it is too old, or there is no make.
    """
    cxx = _find_compiler()
    _check_compiler(cxx)
    if not shutil.which("make"):
        raise BuildError("make must be on PATH.", "none", "Install it: apt install make; dnf install make.")
    return Toolchain(cxx=cxx, cmake=_find_cmake())


def install_build_packages(toolchain: Toolchain, folder: Path, *, log: Path) -> dict[str, str]:
    """Put what the build needs into `folder` and return the environment in which it is found.

    Raises:
        BuildError: pip could not get it.
    """
    packages = [*BUILD_PACKAGES, *([] if toolchain.cmake else ["cmake>=3.18"])]
    run_pip(
        ["install", "--no-user", "--target", str(folder), *packages],
        purpose=f"fetch what the build needs ({', '.join(packages)})",
        remedy="Check that pip reaches an index here (PIP_INDEX_URL, PIP_PROXY and pip.conf apply).",
        log=log,
    )
    return build_environment(toolchain, folder)


def build_environment(toolchain: Toolchain, packages: Path) -> dict[str, str]:
    """Return this process's environment with the toolchain in it, and without the user's own Horovod settings.

    A HOROVOD_* variable of the user's would change what is built without changing the name it is cached under.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(packages), env.get("PYTHONPATH")]))
    env.setdefault("CXX", str(toolchain.cxx))
    env["HOROVOD_CMAKE"] = str(toolchain.cmake or packages / "bin" / "cmake")
    return env


def _find_compiler() -> Path:
    named = os.environ.get("CXX", "").split()
    # CXX may carry options ("g++ -m64"); CMake reads those itself, the test below does without.
    for name in named[:1] or ["c++", "g++", "clang++"]:
        found = shutil.which(name)
        if found:
            return Path(found)
    received = f"CXX={named[0]}, which is not on PATH" if named else "no c++, g++ or clang++ on PATH"
    raise BuildError("Building Horovod takes a C++17 compiler.", received, _COMPILER_REMEDY)


def _check_compiler(cxx: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="jupyter-ddl-") as folder:
        source = Path(folder) / "program.cc"
        source.write_text(_PROGRAM, encoding="utf-8")
        command = [str(cxx), "-std=c++17", str(source), "-o", str(source.with_suffix(""))]
        finished = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if finished.returncode != 0:
        lines = finished.stderr.strip().splitlines() or [f"exit status {finished.returncode}"]
        first = next((line for line in lines if "error" in line), lines[0])
        raise BuildError(
            "The C++ compiler must compile and link C++17.", f"{cxx} said: {first.strip()}", _COMPILER_REMEDY
        )


def _find_cmake() -> Path | None:
    """Return a CMake on PATH that is new enough, or None."""
    found = shutil.which("cmake")
    if not found:
        return None
    finished = subprocess.run([found, "--version"], capture_output=True, text=True, errors="replace", check=False)
    version = re.search(r"version (\d+)\.(\d+)", finished.stdout)
    if not version or (int(version[1]), int(version[2])) < OLDEST_CMAKE:
        return None
    return Path(found)


def origin_rpath(library_folder: Path) -> str | None:
    """Return `library_folder` as an RPATH relative to the built extension, where both lie in this environment.

    A wheel with an absolute path would load another environment's library, or none, once it comes from the cache.
    """
    prefix = Path(sysconfig.get_path("data")).resolve()
    if not library_folder.resolve().is_relative_to(prefix):
        return None
    extension_folder = Path(sysconfig.get_path("platlib")).resolve() / "horovod" / "tensorflow"
    return f"$ORIGIN/{os.path.relpath(library_folder.resolve(), extension_folder)}"
