"""Checks the whole: two ranks under mpiexec that sum a tensor, by Horovod on TensorFlow, or by torch.distributed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.doctor.report import Check
from jupyter_ddl.host.mpi import launch_command, launch_environment
from jupyter_ddl.protocol.number_texts import duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_ddl.host.mpi import Mpi

TIMEOUT_S = 120.0
_NAME = "Allreduce"
_MARK = "jupyter_ddl rank summed"

# mpi4py takes part because the ranks use it: it and Horovod must agree on one MPI.
_PROGRAM = """
import os, sys
gpus = sys.argv[2].split(",") if sys.argv[2] else []
from mpi4py import MPI
node = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
os.environ["CUDA_VISIBLE_DEVICES"] = gpus[node.rank] if node.rank < len(gpus) else ""
import tensorflow as tf
import horovod.tensorflow as hvd
hvd.init()
assert hvd.size() == MPI.COMM_WORLD.size, f"Horovod's world has {hvd.size()} ranks, mpi4py's {MPI.COMM_WORLD.size}"
total = hvd.allreduce(tf.constant([hvd.rank() + 1.0]), op=hvd.Sum).numpy()[0]
assert total == 3.0, f"1 + 2 gave {total} on {hvd.size()} ranks"
print(sys.argv[1], flush=True)
hvd.shutdown()
"""

_TORCH_PROGRAM = """
import os, sys, tempfile
gpus = sys.argv[2].split(",") if sys.argv[2] else []
from mpi4py import MPI
world = MPI.COMM_WORLD
node = world.Split_type(MPI.COMM_TYPE_SHARED)
os.environ["CUDA_VISIBLE_DEVICES"] = gpus[node.rank] if node.rank < len(gpus) else ""
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
folder = world.bcast(tempfile.mkdtemp() if world.rank == 0 else None)
import torch
import torch.distributed as dist
backend, device = ("nccl", "cuda") if gpus else ("gloo", "cpu")
dist.init_process_group(backend, init_method=f"file://{folder}/store", rank=world.rank, world_size=world.size)
value = torch.ones(1, device=device) * (world.rank + 1)
dist.all_reduce(value)
assert value.item() == 3.0, f"1 + 2 gave {value.item()} on {dist.get_world_size()} ranks"
print(sys.argv[1], flush=True)
dist.destroy_process_group()
world.Barrier()
if world.rank == 0:
    import shutil
    shutil.rmtree(folder)
"""


def check_allreduce(mpi: Mpi, gpus: Sequence[str], timeout_s: float = TIMEOUT_S, *, with_torch: bool = False) -> Check:
    """Run two ranks that sum a tensor.

    Args:
        mpi: what starts them.
        gpus: entries of CUDA_VISIBLE_DEVICES; with two or more, each rank uses one, else both use the CPU.
        timeout_s: how long they may take.
        with_torch: by torch.distributed instead of Horovod.
    """
    program = _TORCH_PROGRAM if with_torch else _PROGRAM
    devices = list(gpus[:2]) if len(gpus) > 1 else []
    command = [*launch_command(mpi, 2), sys.executable, "-c", program, _MARK, ",".join(devices)]
    start = time.monotonic()
    output, status = run_ranks(command, _environment(mpi), timeout_s)
    elapsed_s = time.monotonic() - start
    facts = {"devices": devices or ["cpu", "cpu"], "elapsed_s": round(elapsed_s, 2), "status": status}
    where = "2 GPUs" if devices else "CPU cores"
    if status == 0 and output.count(_MARK) == 2:
        return Check(_NAME, "ok", f"2 ranks on {where} summed a tensor in {duration(elapsed_s)}", facts=facts)
    if status is None:
        text = f"2 ranks on {where} did not finish in {duration(timeout_s)}"
        return Check(_NAME, "problem", text, f"Their last line: {last_line(output)}", facts)
    text = f"2 ranks on {where} failed (mpiexec's status {status}): {error_line(output)}"
    remedy = "Fix the problems above first; if there are none, run: jupyter ddl build-horovod --force"
    return Check(_NAME, "problem", text, remedy, {**facts, "output": output[-4000:]})


def skipped_allreduce(reason: str) -> Check:
    """Return the check that was not run; whatever is missing has its own check and remedy."""
    return Check(_NAME, "problem", f"not run: {reason}", "Fix the problems above first.")


def _environment(mpi: Mpi) -> dict[str, str]:
    env = {**os.environ, **launch_environment(mpi), "TF_CPP_MIN_LOG_LEVEL": "3"}
    folder = paths.horovod_dir()
    if folder is not None:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder.absolute()), env.get("PYTHONPATH")]))
    return env


def run_ranks(command: Sequence[str], env: Mapping[str, str], timeout_s: float) -> tuple[str, int | None]:
    """Return what a command printed and its status, or None for the status where it took too long."""
    with subprocess.Popen(
        command,
        env=dict(env),
        cwd="/",  # `python -c` looks for packages in its working folder first
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            # mpiexec ends its ranks on SIGTERM; killed, it would leave them behind.
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate()
            return output, None
    return output, process.returncode


def error_line(output: str) -> str:
    """Return the first line of an output that names an error; the last line where none does."""
    lines = [line.strip() for line in output.splitlines()]
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
    return errors[0] if errors else last_line(output)


def last_line(output: str) -> str:
    """Return the last line of an output that says something."""
    lines = [line.strip() for line in output.splitlines() if line.strip(" -")]
    return lines[-1] if lines else "nothing"
