"""Builds Horovod end to end: checks, and only if needed fetches, edits, compiles, caches, installs, checks again."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jupyter_ddl import paths
from jupyter_ddl.errors import BuildError
from jupyter_ddl.horovod_build import edits
from jupyter_ddl.horovod_build.cache import Cache
from jupyter_ddl.horovod_build.ccl import CpuChoice, choose_ccl
from jupyter_ddl.horovod_build.facts import HorovodFacts, NotImportable, horovod_facts, tensorflow_facts
from jupyter_ddl.horovod_build.install import check_destination, install_wheel
from jupyter_ddl.horovod_build.sdist import VERSION, fetch_sdist, unpack_sdist
from jupyter_ddl.horovod_build.target import OUR_MARK, GpuChoice, Target, choose_cuda, mpicxx_of
from jupyter_ddl.horovod_build.toolchain import find_toolchain, install_build_packages
from jupyter_ddl.horovod_build.wheel import build_variables, build_wheel, check_free_disk, compile_jobs, linker_flags
from jupyter_ddl.host.cores import memory_limit_bytes, usable_cores
from jupyter_ddl.host.mpi import Mpi, find_mpi

if TYPE_CHECKING:
    from jupyter_ddl.horovod_build.progress import Progress


@dataclass(frozen=True)
class Outcome:
    """What `build_horovod` did.

    Attributes:
        action: "left alone" where a Horovod that works was there, else where the installed wheel came from.
        horovod: the Horovod that the ranks import now.
        tensorflow: the version of the TensorFlow that it works with.
        exchange: one line on NCCL: with or without, and why.
        folder: the `--target` folder, or None for this environment.
        log: the full log, or None where nothing was installed.
        elapsed_s: seconds that it took.
    """

    action: Literal["left alone", "installed from the cache", "built"]
    horovod: HorovodFacts
    tensorflow: str
    exchange: str
    folder: Path | None
    log: Path | None
    elapsed_s: float


def build_horovod(
    progress: Progress,
    *,
    gpu: GpuChoice = "auto",
    cpu: CpuChoice = "mpi",
    folder: Path | None = None,
    force: bool = False,
) -> Outcome:
    """Make sure that the ranks can import a Horovod that fits the installed TensorFlow and MPI.

    Runs on: the machine of the command line; needs no GPU.

    Args:
        progress: shows each step.
        gpu: whether to build with NCCL; "auto" does where TensorFlow is built for CUDA, and nvcc and NCCL are found.
        cpu: what the ranks exchange through on CPUs: MPI, or oneCCL.
        folder: install here instead of into this environment; `JUPYTER_DDL_HOROVOD` by default.
        force: build and install also where a Horovod that works, or a cached wheel, is there.

    Raises:
        BuildError: something that the build takes is missing, or it failed.
        InvalidInput: there is no MPI.
        FolderNotWritable: the cache cannot be written to.
    """
    folder = folder.absolute() if folder else _absolute(paths.horovod_dir())
    progress.step("looking at TensorFlow, MPI and Horovod")
    mpi = find_mpi()
    with ThreadPoolExecutor() as pool:  # each takes seconds: it imports TensorFlow in a process of its own
        asked = pool.submit(horovod_facts, folder)
        tensorflow = tensorflow_facts()
        installed = asked.result()
    if not force and isinstance(installed, HorovodFacts) and works(installed, tensorflow.version, mpi):
        can_have_nccl = choose_cuda("auto", tensorflow)[0] is not None
        kept = _reason_to_keep(installed, gpu, cpu, nccl_can_be_built=can_have_nccl)
        if kept is not None:
            return Outcome("left alone", installed, tensorflow.version, kept, folder, None, progress.elapsed_s)
    cuda, exchange = choose_cuda(gpu, tensorflow)
    ccl, on_cpus = choose_ccl(cpu)
    exchange = f"{on_cpus}; {exchange}" if on_cpus else exchange
    target = Target(tensorflow, mpi, cuda, folder, ccl)
    check_destination(folder)
    cache = Cache.open()
    log = cache.logs / f"{target.key}.log"
    cached = None if force else cache.find(target)
    if cached is None:
        log.write_text(f"Horovod {VERSION} for {target.describe()}\n", encoding="utf-8")
    wheel = cached or _build(target, cache, log, progress)
    progress.step(f"installing {wheel.name}")
    install_wheel(wheel, folder, log=log)
    progress.step("importing it")
    horovod = _check(horovod_facts(folder), target, log)
    action: Literal["installed from the cache", "built"] = "installed from the cache" if cached else "built"
    return Outcome(action, horovod, tensorflow.version, exchange, folder, log, progress.elapsed_s)


def works(horovod: HorovodFacts, tensorflow_version: str, mpi: Mpi) -> bool:
    """Whether a Horovod that imports is also built for this TensorFlow and for the MPI that starts the ranks.

    With another MPI than mpiexec's, each rank would silently be alone in its own world.
    """
    same_tensorflow = horovod.tensorflow in (None, tensorflow_version)
    return horovod.mpi and same_tensorflow and same_mpi(horovod, mpi)


def same_mpi(horovod: HorovodFacts, mpi: Mpi) -> bool:
    """Whether Horovod loads the library of the MPI whose mpiexec starts the ranks."""
    if mpi.library is None or horovod.mpi_library is None:
        return True
    return mpi.library.resolve().parent == horovod.mpi_library.resolve().parent


def _absolute(folder: Path | None) -> Path | None:
    return folder.expanduser().absolute() if folder else None


def _reason_to_keep(
    horovod: HorovodFacts, gpu: GpuChoice, cpu: CpuChoice = "mpi", *, nccl_can_be_built: bool
) -> str | None:
    """Return why a Horovod that works is left alone, or None where it is to be replaced."""
    is_ours = "+ddl" in horovod.version
    if is_ours and not horovod.version.partition("+")[2].startswith(f"{OUR_MARK}."):
        return None  # built by an earlier jupyter_ddl, with other edits
    if cpu == "ccl" and not horovod.ccl:
        return None
    if horovod.nccl:
        return "it has NCCL"
    if gpu == "nccl" or (gpu == "auto" and is_ours and nccl_can_be_built):
        return None
    return "it has no NCCL" + ("; --gpu nccl builds one that has" if nccl_can_be_built else "")


def _build(target: Target, cache: Cache, log: Path, progress: Progress) -> Path:
    """Build a wheel and keep it in the cache."""
    progress.step("looking at the compiler, make and CMake")
    toolchain = find_toolchain()
    mpicxx = mpicxx_of(target.mpi)
    with tempfile.TemporaryDirectory(prefix="jupyter-ddl-horovod-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        check_free_disk(folder)
        for part in ("packages", "wheel"):
            (folder / part).mkdir()
        progress.step("fetching what the build needs")
        env = install_build_packages(toolchain, folder / "packages", log=log)
        progress.step(f"fetching Horovod {VERSION}")
        sources = unpack_sdist(fetch_sdist(cache.sources, log=log, env=env), folder)
        edits.apply(sources)
        jobs = compile_jobs(usable_cores(), memory_limit_bytes())
        env |= build_variables(target, mpicxx, jobs)
        env["LDFLAGS"] = linker_flags(target, env.get("LDFLAGS", ""))
        progress.step(
            f"compiling for TensorFlow {target.tensorflow.version} and {target.mpi.flavour} {target.mpi.version}"
        )
        wheel = build_wheel(sources, folder / "wheel", target, env=env, log=log, progress=progress)
        return cache.keep(wheel, target)


def _check(horovod: HorovodFacts | NotImportable, target: Target, log: Path) -> HorovodFacts:
    """Return what was installed, or raise where the ranks could not use it."""
    if isinstance(horovod, NotImportable):
        received = horovod.reason
    elif works(horovod, target.tensorflow.version, target.mpi):
        return horovod
    else:
        received = f"{horovod}, for {target.mpi}"
    raise BuildError(
        "The Horovod that was installed must import and use the MPI that starts the ranks.",
        received,
        "Run this again with --force; if it stays, report it with the log.",
        log,
    )
