"""Checks the machine: GPUs, cores, memory, container, scheduler, folders."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.doctor.report import Check
from jupyter_ddl.errors import ClusterError, FolderNotWritable
from jupyter_ddl.host import cores
from jupyter_ddl.host.private_folders import private_folder
from jupyter_ddl.protocol.number_texts import memory_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_ddl.host.topology import Gpu

# Variables that a container runtime sets inside, and files that it makes there.
_CONTAINER_VARIABLES = {
    "APPTAINER_CONTAINER": "Apptainer",
    "SINGULARITY_CONTAINER": "Singularity",
    "container": "",  # systemd's: its value names the runtime
}
_CONTAINER_FILES = {"run/.containerenv": "Podman", ".dockerenv": "Docker"}
_SCHEDULERS = {
    "Slurm": ("SLURM_JOB_ID", "SLURM_JOB_NODELIST"),
    "PBS": ("PBS_JOBID", "PBS_NODEFILE"),
    "LSF": ("LSB_JOBID", "LSB_HOSTS"),
}
_LITTLE_MEMORY_BYTES = 4 * 2**30


def check_gpus(gpus: Sequence[Gpu] | ClusterError, visible: Sequence[str]) -> Check:
    """Check which GPUs there are.

    Args:
        gpus: those of this host, or why NVML cannot list them.
        visible: those of them that we may use, as entries of CUDA_VISIBLE_DEVICES.
    """
    if isinstance(gpus, ClusterError):
        remedy = "Repair the driver, or train on CPU cores: export CUDA_VISIBLE_DEVICES="
        return Check("GPUs", "problem", str(gpus), remedy)
    facts = {
        "visible": list(visible),
        "devices": [
            {"index": gpu.index, "name": gpu.name, "memory_total_bytes": gpu.memory_total_bytes} for gpu in gpus
        ],
    }
    if not gpus:
        return Check("GPUs", "ok", "none: ranks train on CPU cores", facts=facts)
    names = ", ".join(dict.fromkeys(gpu.name for gpu in gpus))
    text = f"{len(visible)} usable of {len(gpus)} ({names})"
    if not visible:
        remedy = "CUDA_VISIBLE_DEVICES hides every GPU: unset it, or ask the scheduler for GPUs."
        return Check("GPUs", "note", text, remedy, facts)
    return Check("GPUs", "ok", text, facts=facts)


def check_cores(root: Path = Path("/"), release: str | None = None) -> Check:
    """Check how many cores this process may use, and how they are given out.

    Args:
        root: stands for / in tests.
        release: of the Linux kernel; by default this one's.
    """
    facts = {
        "machine": os.cpu_count() or 0,
        "affinity": len(os.sched_getaffinity(0)),
        "usable": cores.usable_cores(),
        "usable_physical": cores.physical_cores(),
    }
    text = "{usable} usable ({usable_physical} physical) of {machine}; affinity allows {affinity}".format(**facts)
    if facts["usable"] < 2:
        return Check("Cores", "note", text, "Two ranks share one core: ask the scheduler for more cores.", facts)
    if _starves_sessions(root, release or os.uname().release):
        remedy = (
            "Clusters that share cores may leave other processes without one for seconds: "
            "sysctl kernel.sched_autogroup_enabled=0 (docs/performance.md)"
        )
        return Check("Cores", "note", f"{text}; given out by session (Linux autogroups)", remedy, facts)
    return Check("Cores", "ok", text, facts=facts)


def _starves_sessions(root: Path, release: str) -> bool:
    """Return whether Linux shares the cores among sessions, in a version in which that starves some (seen in 6.18)."""
    version = tuple(int(number) for number in re.findall(r"\d+", release)[:2])
    setting = root / "proc/sys/kernel/sched_autogroup_enabled"
    return version >= (6, 18) and setting.exists() and setting.read_text().strip() == "1"


def check_memory() -> Check:
    """Check how much memory this process may use."""
    limit_bytes = cores.memory_limit_bytes()
    text, facts = f"{memory_size(limit_bytes)} usable", {"limit_bytes": limit_bytes}
    if limit_bytes < _LITTLE_MEMORY_BYTES:
        remedy = "TensorFlow takes about 0.5 GiB a rank before any data: ask the scheduler for more memory."
        return Check("Memory", "note", text, remedy, facts)
    return Check("Memory", "ok", text, facts=facts)


def check_container(environment: Mapping[str, str], root: Path = Path("/")) -> Check:
    """Check whether this is inside a container."""
    for variable, runtime in _CONTAINER_VARIABLES.items():
        if value := environment.get(variable):
            name = runtime or value
            return Check("Container", "ok", f"{name} ({value})", facts={"runtime": name, "image": value})
    for file, runtime in _CONTAINER_FILES.items():
        if (root / file).exists():
            return Check("Container", "ok", runtime, facts={"runtime": runtime, "image": None})
    return Check("Container", "ok", "none", facts={"runtime": None, "image": None})


def check_scheduler(environment: Mapping[str, str]) -> Check:
    """Check whether this is inside a scheduler's job."""
    for name, (job, hosts) in _SCHEDULERS.items():
        if job in environment:
            facts = {"name": name, "job": environment[job], "hosts": environment.get(hosts)}
            where = f" on {facts['hosts']}" if facts["hosts"] else ""
            return Check("Scheduler", "ok", f"{name} job {facts['job']}{where}", facts=facts)
    return Check("Scheduler", "ok", "none", facts={"name": None, "job": None, "hosts": None})


def check_folders() -> Check:
    """Check that every folder that we write to is writable, and that those the user named exist."""
    written = {
        paths.CACHE_VARIABLE: paths.cache_dir(),
        paths.RUNTIME_VARIABLE: paths.clusters_dir(),
        paths.RUNS_VARIABLE: paths.runs_dir(),
    }
    facts = {variable: str(folder) for variable, folder in written.items()}
    try:
        for variable, folder in written.items():
            private_folder(folder, variable=variable)
    except FolderNotWritable as error:
        rule, _, remedy = str(error).rpartition(" Set ")
        return Check("Folders", "problem", rule, f"Set {remedy}", facts)
    for variable, named in {paths.HOROVOD_VARIABLE: paths.horovod_dir(), paths.DATA_VARIABLE: paths.data_dir()}.items():
        if named is not None and not named.is_dir():
            text = f"{variable} names {named}, which is no folder"
            return Check("Folders", "problem", text, f"Correct or unset {variable}.", facts)
    text = ", ".join(str(folder) for folder in written.values())
    return Check("Folders", "ok", f"writable: {text}", facts=facts)
