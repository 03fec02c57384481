"""Finds CUDA and NCCL, or what is missing to build Horovod with them.

A login node has no GPU and no driver, yet builds for nodes that have. So it checks what the build needs (a TensorFlow
built for CUDA, nvcc, NCCL's header and library), and not whether a GPU is here.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.horovod_build.facts import TensorFlowFacts

# Pascal to Blackwell, data centre and workstation. nvcc is asked which of them it still knows.
_COMPUTE_CAPABILITIES = (60, 70, 75, 80, 86, 89, 90, 100, 103, 120)
_SYSTEM_NCCL_FOLDERS = ("/usr", "/usr/local", "/opt/nccl")


@dataclass(frozen=True)
class Nvcc:
    """A CUDA compiler.

    Attributes:
        home: the CUDA folder: `home/bin/nvcc`.
        version: such as "12.5".
        compute_capabilities: what it compiles for, of those Horovod's kernels are built for: 80, 90.
    """

    home: Path
    version: str
    compute_capabilities: tuple[int, ...]

    @property
    def major(self) -> str:
        """The major version: "12"."""
        return self.version.split(".")[0]


@dataclass(frozen=True)
class Nccl:
    """NCCL's header and library.

    Attributes:
        include: the folder of nccl.h.
        library: the shared library; pip's wheel has libnccl.so.2 without the libnccl.so that a linker looks for.
        version: such as "2.27.3".
    """

    include: Path
    library: Path
    version: str


@dataclass(frozen=True)
class Cuda:
    """What a build with NCCL takes."""

    nvcc: Nvcc
    nccl: Nccl


def find_cuda(tensorflow: TensorFlowFacts) -> tuple[Cuda | None, list[str], str | None]:
    """Look for what a build with NCCL takes.

    Returns:
        What was found or None; what is missing, each with its remedy; and where all is there but CUDA's major
        versions differ, a sentence that says so.
    """
    missing: list[str] = []
    if tensorflow.cuda_version is None:
        missing.append("a TensorFlow built for CUDA (pip install 'tensorflow[and-cuda]')")
    nvcc = find_nvcc()
    if nvcc is None:
        missing.append("nvcc (install the CUDA toolkit or load its module; or set CUDA_HOME)")
    nccl = find_nccl(nvcc)
    if nccl is None:
        missing.append("NCCL's nccl.h and libnccl (pip install nvidia-nccl-cu12, or set NCCL_HOME)")
    if tensorflow.cuda_version is None or nvcc is None or nccl is None:
        return None, missing, None
    wanted = tensorflow.cuda_version.split(".")[0]
    differs = None
    if nvcc.major != wanted:
        differs = f"nvcc is of CUDA {nvcc.version} and TensorFlow is built for CUDA {tensorflow.cuda_version}"
    return Cuda(nvcc, nccl), missing, differs


def find_nvcc() -> Nvcc | None:
    """Return the nvcc of CUDA_HOME, CUDA_PATH or HOROVOD_CUDA_HOME, else of /usr/local/cuda, else of PATH."""
    named = [os.environ[name] for name in ("HOROVOD_CUDA_HOME", "CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    homes = [Path(name) for name in named] or [Path("/usr/local/cuda")]
    on_path = shutil.which("nvcc")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    for home in homes:
        # A lone nvcc (pip's wheel, a wrapper script) has no headers beside it.
        if (home / "bin" / "nvcc").is_file() and (home / "include" / "cuda_runtime.h").is_file():
            return _describe_nvcc(home)
    return None


def find_nccl(nvcc: Nvcc | None) -> Nccl | None:
    """Return NCCL from NCCL_HOME, else from pip's wheel, else from the CUDA folder or the system."""
    named = [os.environ[name] for name in ("HOROVOD_NCCL_HOME", "NCCL_HOME", "NCCL_ROOT") if os.environ.get(name)]
    homes = [Path(name) for name in named] or [*_pip_nccl(), *([nvcc.home] if nvcc else [])]
    homes += [] if named else [Path(name) for name in _SYSTEM_NCCL_FOLDERS]
    for home in homes:
        header = home / "include" / "nccl.h"
        library = next(_nccl_libraries(home), None)
        if header.is_file() and library:
            return Nccl(header.parent, library, _nccl_version(header))
    return None


def _describe_nvcc(home: Path) -> Nvcc | None:
    nvcc = str(home / "bin" / "nvcc")
    version = re.search(r"release (\d+\.\d+)", _output([nvcc, "--version"]))
    known = {int(number) for number in re.findall(r"compute_(\d+)\b", _output([nvcc, "--list-gpu-arch"]))}
    if not version:
        return None
    return Nvcc(home, version[1], tuple(number for number in _COMPUTE_CAPABILITIES if number in known))


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False).stdout


def _pip_nccl() -> list[Path]:
    try:
        spec = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:  # no package of the name `nvidia` at all
        return []
    return [Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []


def _nccl_libraries(home: Path) -> Iterator[Path]:
    triplet = f"{os.uname().machine}-linux-gnu"
    for folder in (home / "lib", home / "lib64", home / "lib" / triplet):
        for name in ("libnccl.so", "libnccl.so.2"):
            if (folder / name).exists():
                yield folder / name


def _nccl_version(header: Path) -> str:
    text = header.read_text(encoding="utf-8", errors="replace")
    numbers = [re.search(rf"#define\s+NCCL_{part}\s+(\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(number[1] if number else "?" for number in numbers)
