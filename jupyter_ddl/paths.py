"""Every folder that jupyter_ddl writes to, the variable that moves it, and the names of all our variables.

| folder | holds | variable | default |
|---|---|---|---|
| cache | Horovod wheels and build logs | `JUPYTER_DDL_CACHE` | `$XDG_CACHE_HOME/jupyter_ddl` |
| clusters | one folder a cluster: connection files, logs | `JUPYTER_DDL_RUNTIME` | Jupyter's runtime folder |
| claims | one file a start or a script, for limits | `JUPYTER_DDL_RUNTIME` | Jupyter's runtime folder |
| jobs | one folder a submitted batch job | `JUPYTER_DDL_RUNTIME` | Jupyter's runtime folder |
| resources | the files by which jsrun places ranks | `JUPYTER_DDL_RUNTIME` | Jupyter's runtime folder |
| hub | the sockets between kernels and Jupyter servers | `JUPYTER_DDL_RUNTIME` | Jupyter's runtime folder |
| runs | one folder a run: the cell, the outcome, each rank's log | `JUPYTER_DDL_RUNS` | Jupyter's data folder |
| horovod | a Horovod built with `--target`, beside a read-only image | `JUPYTER_DDL_HOROVOD` | none |
| data | the user's data sets | `JUPYTER_DDL_DATA` | none |
"""

from __future__ import annotations

import os
from pathlib import Path

from jupyter_ddl.errors import FolderNotWritable

# Users and sites set these.
CACHE_VARIABLE = "JUPYTER_DDL_CACHE"  # the folder of built Horovod wheels and their logs (`~/.cache/jupyter_ddl`)
RUNTIME_VARIABLE = "JUPYTER_DDL_RUNTIME"  # the folder of clusters' connection files and logs (in Jupyter's own)
RUNS_VARIABLE = "JUPYTER_DDL_RUNS"  # the folder of runs: cells, outcomes, logs of ranks (in Jupyter's data folder)
DATA_VARIABLE = "JUPYTER_DDL_DATA"  # a folder of data sets, looked into before one is downloaded
HOROVOD_VARIABLE = "JUPYTER_DDL_HOROVOD"  # where ranks find a Horovod that was built with `--target`
MPIEXEC_VARIABLE = "JUPYTER_DDL_MPIEXEC"  # the mpiexec that starts ranks, in place of the one that is found
LAUNCHER_VARIABLE = "JUPYTER_DDL_LAUNCHER"  # `jsrun`: it starts the ranks of an LSF job
RANKS_PER_NODE_VARIABLE = "JUPYTER_DDL_RANKS_PER_NODE"  # ranks on each node of a job that counts processors alone
HOST_LOST_VARIABLE = "JUPYTER_DDL_HOST_LOST_AFTER"  # seconds that a host may stay away; 0 for ever
BIND_VARIABLE = "JUPYTER_DDL_BIND"  # `0`: ranks run on every core; `1`: they keep to theirs in any case
STANDBY_VARIABLE = "JUPYTER_DDL_STANDBY"  # `never`: no ranks stand by, to take the place of others
IDLE_STOP_VARIABLE = "JUPYTER_DDL_IDLE_STOP"  # `30m`: ranks are ended after so long without a run
SKLEARN_VARIABLE = "JUPYTER_DDL_SKLEARN"  # `intelex`, `cuml`: what accelerates scikit-learn on the ranks
EXCHANGE_VARIABLE = "JUPYTER_DDL_EXCHANGE"  # the site's library that gradients go through, by its entry point's name
LEGACY_VARIABLE = "JUPYTER_DDL_LEGACY"  # `0`: old spellings of Keras and TensorFlow stay errors
JUPYTERHUB_URL_VARIABLE = "JUPYTER_DDL_JUPYTERHUB_URL"  # the address of the JupyterHub whose clusters are looked at
JUPYTERHUB_TOKEN_VARIABLE = "JUPYTER_DDL_JUPYTERHUB_TOKEN"  # an administrator's token for it  # noqa: S105

# jupyter_ddl sets these for its own processes.
HUB_VARIABLE = "JUPYTER_DDL_HUB"  # the socket at which kernels reach their Jupyter server
DEVICE_VARIABLE = "JUPYTER_DDL_DEVICE"  # on a rank: its own GPU, as CUDA_VISIBLE_DEVICES names one
JOB_GPUS_VARIABLE = "JUPYTER_DDL_JOB_GPUS"  # the GPUs of a batch job on each host, as JSON
RANKS_VARIABLE = "JUPYTER_DDL_RANKS"  # the settings of a rank, as JSON
SCRIPT_VARIABLE = "JUPYTER_DDL_SCRIPT"  # the settings of a script's rank, as JSON
EXPORT_VARIABLE = "JUPYTER_DDL_EXPORT"  # of an exported notebook's kernel: what its job has, as JSON
WORLD_VARIABLE = "JUPYTER_DDL_WORLD"  # names what ranks on several hosts leave there, for each host's witness
AGENT_VARIABLE = "JUPYTER_DDL_AGENT"  # how MPI's daemons get into an image on other hosts
GATE_VARIABLE = "JUPYTER_DDL_GATE"  # the socket at which the ranks of a standby world wait
PIPES_VARIABLE = "JUPYTER_DDL_PIPES"  # the numbers of the descriptors that a script's rank has from its relay
STRATEGY_VARIABLE = "JUPYTER_DDL_STRATEGY"  # on a rank: the strategy of TensorFlow's whose cluster it is in
MPICXX_VARIABLE = "JUPYTER_DDL_MPICXX"  # the MPI that Horovod's edited CMakeLists.txt builds with
NCCL_VARIABLE = "JUPYTER_DDL_NCCL"  # the NCCL that it builds with


def cache_dir() -> Path:
    """Return the folder of built Horovod wheels and their logs (it may not exist yet)."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return _folder(CACHE_VARIABLE, base / "jupyter_ddl")


def clusters_dir() -> Path:
    """Return the folder that holds one folder a cluster (it may not exist yet)."""
    from jupyter_core.paths import jupyter_runtime_dir

    return _folder(RUNTIME_VARIABLE, Path(jupyter_runtime_dir()) / "ddl") / "clusters"


def jobs_dir() -> Path:
    """Return the folder that holds one folder a batch job that was submitted (it may not exist yet)."""
    return clusters_dir().parent / "jobs"


def claims_dir() -> Path:
    """Return the folder of the files that say which clusters start and which scripts run (it may not exist yet)."""
    return clusters_dir().parent / "claims"


def resource_files_dir() -> Path:
    """Return the folder of the files that tell jsrun where ranks go (it may not exist yet)."""
    return clusters_dir().parent / "resources"


def hub_dir() -> Path:
    """Return the folder of the sockets at which kernels reach the Jupyter servers' hubs (it may not exist yet)."""
    return clusters_dir().parent / "hub"


def runs_dir() -> Path:
    """Return the folder that holds one folder a run (it may not exist yet)."""
    from jupyter_core.paths import jupyter_data_dir

    return _folder(RUNS_VARIABLE, Path(jupyter_data_dir()) / "ddl" / "runs")


def horovod_dir() -> Path | None:
    """Return the folder of a Horovod built with `--target`, or None where the variable is not set."""
    value = os.environ.get(HOROVOD_VARIABLE)
    return Path(value) if value else None


def data_dir() -> Path | None:
    """Return the user's folder of data sets, or None where the variable is not set."""
    value = os.environ.get(DATA_VARIABLE)
    return Path(value).expanduser() if value else None


def _folder(variable: str, default: Path) -> Path:
    value = os.environ.get(variable)
    path = Path(value).expanduser() if value else default
    try:
        return path.absolute()
    except FileNotFoundError as error:
        # os.getcwd's. What is below a folder that was removed cannot be made either.
        raise FolderNotWritable(path, variable, "it is below the working folder, which was removed") from error
