"""Finds which TensorFlow and Horovod are installed, in a process of its own.

Importing either here would load hundreds of megabytes, and a broken one could end this process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import BuildError
from jupyter_ddl.protocol.frameworks import REQUIREMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

_MARK = "jupyter_ddl facts: "

_TENSORFLOW_PROBE = """
import json, sys
import tensorflow as tf
build = tf.sysconfig.get_build_info()
abi = [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("-I")]
print(sys.argv[1] + json.dumps({
    "version": tf.__version__, "git_version": tf.version.GIT_VERSION, "compile_flags": abi,
    "cuda_version": build.get("cuda_version") if tf.test.is_built_with_cuda() else None,
}))
"""

_HOROVOD_PROBE = """
import importlib.metadata, json, pathlib, re, sys
import horovod
import horovod.tensorflow as hvd
maps = pathlib.Path("/proc/self/maps").read_text().split("\\n")
mapped = {line.split(None, 5)[5] for line in maps if "/" in line}
mpi = sorted(path for path in mapped if re.match(r"libmpi(ch|_mt|_cray)?(-\\w+)?\\.so", path.rsplit("/", 1)[1]))
metadata = pathlib.Path(horovod.__file__).with_name("metadata.json")
print(sys.argv[1] + json.dumps({
    "version": importlib.metadata.version("horovod"), "location": str(pathlib.Path(horovod.__file__).parent.parent),
    "mpi": bool(hvd.mpi_built()), "nccl": bool(hvd.nccl_built()), "ccl": bool(hvd.ccl_built()),
    "mpi_library": mpi[0] if mpi else None,
    "tensorflow": json.loads(metadata.read_text()).get("tensorflow") if metadata.exists() else None,
}))
"""


@dataclass(frozen=True)
class TensorFlowFacts:
    """The TensorFlow that Horovod is compiled against.

    Attributes:
        version: as in `tf.__version__`.
        git_version: which build of that version this is.
        compile_flags: what must match in code that links to it (its C++ ABI), without include folders.
        cuda_version: the CUDA that it was built for, or None where it was built for CPUs.
    """

    version: str
    git_version: str
    compile_flags: tuple[str, ...]
    cuda_version: str | None

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor version."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)


@dataclass(frozen=True)
class HorovodFacts:
    """An installed Horovod that imports with this TensorFlow.

    Attributes:
        version: of the installed distribution, local part included.
        location: the folder on sys.path that it was found in.
        mpi: whether it was built with MPI.
        nccl: whether it was built with NCCL.
        mpi_library: the MPI library that its import loaded.
        tensorflow: the version that it was compiled against, where it says so.
        ccl: whether it was built with oneCCL.
    """

    version: str
    location: Path
    mpi: bool
    nccl: bool
    mpi_library: Path | None
    tensorflow: str | None
    ccl: bool = False


@dataclass(frozen=True)
class NotImportable:
    """Why a package cannot be imported.

    Attributes:
        missing: True where it is not installed at all.
        reason: the exception, one line.
    """

    missing: bool
    reason: str


def tensorflow_facts() -> TensorFlowFacts:
    """Return what TensorFlow is installed.

    Raises:
        BuildError: there is none, or it cannot be imported.
    """
    answer = _ask(_TENSORFLOW_PROBE, "tensorflow", os.environ)
    if isinstance(answer, NotImportable):
        rule = "Horovod is built for the TensorFlow that is installed, so TensorFlow must import."
        remedy = f"Run: {sys.executable} -m pip install '{REQUIREMENTS['tensorflow']}'"
        received = f"no TensorFlow in {sys.prefix}" if answer.missing else answer.reason
        raise BuildError(rule, received, remedy)
    return TensorFlowFacts(**{**answer, "compile_flags": tuple(answer["compile_flags"])})


def horovod_facts(folder: Path | None) -> HorovodFacts | NotImportable:
    """Return what Horovod the ranks would import, or why they cannot.

    Args:
        folder: a folder that goes first on their sys.path (`--target`), or None.
    """
    env = dict(os.environ)
    if folder is not None:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder.absolute()), env.get("PYTHONPATH")]))
    answer = _ask(_HOROVOD_PROBE, "horovod", env)
    if isinstance(answer, NotImportable):
        return answer
    library = answer["mpi_library"]
    return HorovodFacts(
        **{
            **answer,
            "location": Path(answer["location"]),
            "mpi_library": Path(library) if library else None,
        }
    )


def _ask(probe: str, package: str, env: Mapping[str, str]) -> dict[str, Any] | NotImportable:
    """Run a probe in its own interpreter and return what it printed after the mark."""
    finished = subprocess.run(
        [sys.executable, "-c", probe, _MARK],
        # No GPU: a probe must not take memory on one, nor need the driver.
        env={**env, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        cwd="/",  # `python -c` looks for packages in its working folder first
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    for line in finished.stdout.splitlines():
        if line.startswith(_MARK):
            facts: dict[str, Any] = json.loads(line.removeprefix(_MARK))
            return facts
    lines = [line.strip() for line in finished.stderr.splitlines() if line.strip()]
    reason = lines[-1] if lines else f"the interpreter ended with status {finished.returncode}"
    return NotImportable(missing=f"No module named '{package}'" in reason, reason=reason)
