"""What only a real GPU shows: pinning, figures beside nvidia-smi's, memory that is freed, CUDA's errors.

    python -m benchmarks.gpu              all checks, each of which prints one JSON line
    python -m benchmarks.gpu pinning      one of them

Needs one NVIDIA GPU and PyTorch. docs/gpu.md has the figures that were taken.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jupyter_ddl
from jupyter_ddl.errors import DdlError, RankError
from jupyter_ddl.host.topology import list_gpus, memory_of, nvml_open
from jupyter_ddl.protocol.cell_options import AutoOptions
from jupyter_ddl.protocol.events import MetricsSample
from jupyter_ddl.runs.reading import run_events

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

MIB = 2**20
LOAD_S = 45.0
HELD_MIB = 8192
LOAD = f"""
import time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
until = time.monotonic() + {LOAD_S}
while time.monotonic() < until:
    for _ in range(50):
        b = a @ a
    torch.cuda.synchronize()
"""
HOLD = f"import torch\nheld = torch.empty({HELD_MIB} * 2**20, dtype=torch.uint8, device='cuda')\n"
TOO_LARGE = "import torch\ntorch.empty(2**50, dtype=torch.uint8, device='cuda')"
ASSERT = "import torch\ntorch.zeros(4, device='cuda')[torch.tensor([9], device='cuda')]\ntorch.cuda.synchronize()"

REDUCE = """
import torch, torch.distributed as dist
dist.init_process_group()
value = torch.ones(1, device="cuda")
dist.all_reduce(value)
"""
BY_NAME = "dist.destroy_process_group(); dist.init_process_group('nccl'); "
# In float64, so that only the order of the sums could differ.
LOOP = """
import torch
torch.manual_seed(3)
inputs = torch.randn(103, 4, dtype=torch.float64)
targets = inputs.sum(1, keepdim=True)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, targets), batch_size=16, shuffle=True)
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
weights = torch.cat([one.detach().reshape(-1) for one in model.parameters()]).tolist()
"""
JAX = """
import jax
jax.distributed.initialize()
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
mesh = Mesh(jax.devices(), ("ranks",))
total = jax.jit(jnp.sum, out_shardings=NamedSharding(mesh, PartitionSpec()))
values = jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("ranks")), jnp.ones(1) + rank)
(str(jax.devices()), float(total(values)))
"""
# Explicit copies through pinned memory: nothing is managed memory, of which another process could lose its own.
OFFLOAD = """
import json, time, torch
from contextlib import nullcontext
from torch.autograd.graph import save_on_cpu
layers = [one for _ in range(16) for one in (torch.nn.Linear(4096, 4096), torch.nn.GELU())]
model = torch.nn.Sequential(*layers).to("cuda", torch.bfloat16)
batch = torch.randn(32768, 4096, device="cuda", dtype=torch.bfloat16)
found = {}
def step(kept):
    with save_on_cpu(pin_memory=True) if kept == "host" else nullcontext():
        loss = model(batch).float().square().mean()
    loss.backward()
    model.zero_grad()
for kept in ("gpu", "host", "gpu", "host"):
    step(kept)
    torch.cuda.synchronize(); torch.cuda.reset_peak_memory_stats()
    began_s = time.perf_counter()
    for _ in range(5):
        step(kept)
    torch.cuda.synchronize()
    found.setdefault(kept, []).append({
        "step_ms": round((time.perf_counter() - began_s) / 5 * 1000, 1),
        "peak_mib": torch.cuda.max_memory_allocated() // 2**20,
    })
print(json.dumps(found))
"""


def pinning() -> dict[str, Any]:
    """Which device each rank has, and what is refused."""
    found: dict[str, Any] = {"gpus": [f"{gpu.index} {gpu.name}" for gpu in list_gpus()]}
    with _ranks(n=1) as session:
        seen = session.run("import os, torch; (torch.cuda.device_count(), os.environ['CUDA_VISIBLE_DEVICES'])")
        found["one rank"] = [session.ranks[0].device, seen.ranks[0].value]
    refused: dict[str, dict[str, Any]] = {"two ranks": {"n": 2}, "a GPU that is not there": {"n": 1, "gpus": "7"}}
    for name, asked in refused.items():
        found[name] = _error(partial(_start_and_stop, asked))
    with _ranks(n=2, oversubscribe=True) as session:
        found["two ranks that share it"] = [ready.device for ready in session.ranks]
    return found


def figures() -> dict[str, Any]:
    """The dashboard's figures beside those of nvidia-smi, over the same load."""
    with _ranks(n=1) as session:
        session.run("import torch; torch.ones(1, device='cuda')")
        with _Smi() as smi:
            result = session.run(LOAD, sample_every_s=1.0)
        samples = [event for event in run_events(Path(result.folder)) if isinstance(event, MetricsSample)]
    ours: dict[str, list[float | None]] = {
        "use_pct": [sample.gpu_pct for sample in samples],
        "memory_mib": [(sample.gpu_memory_used_bytes or 0) / MIB for sample in samples],
        "watts": [sample.gpu_watts for sample in samples],
        "celsius": [sample.gpu_celsius for sample in samples],
    }
    found: dict[str, Any] = {"seconds": round(result.seconds, 1), "samples": len(samples), "smi_samples": len(smi.rows)}
    for name, values in ours.items():
        # The first three seconds are those in which both begin.
        mine = statistics.fmean([value for value in values[3:] if value is not None])
        theirs = statistics.fmean([row[name] for row in smi.rows[4:-1]])
        found[name] = {"ours": round(mine, 1), "nvidia-smi": round(theirs, 1), "ratio": round(mine / theirs, 4)}
    return found


def memory() -> dict[str, Any]:
    """How much of the GPU is in use after a cell that failed, a restart and the end."""
    found = {"before": _used_mib()}
    with _ranks(n=1) as session:
        session.run("import torch; torch.ones(1, device='cuda')")
        found["with a context"] = _used_mib()
        _error(
            lambda: session.run(
                f"def f():\n    {HOLD.splitlines()[1]}\n    raise ValueError('held')\nimport torch\nf()"
            )
        )
        session.run("torch.cuda.empty_cache()")
        found["after a cell that failed, and empty_cache()"] = _used_mib()
        session.run(HOLD)
        found["while a cell's variable holds memory"] = _used_mib()
        session.restart()
        found["after a restart"] = _used_mib()
        session.run(HOLD)
    found["after the end"] = _used_mib()
    return {name: round(value) for name, value in found.items()}


def groups() -> dict[str, Any]:
    """torch.distributed on one rank with NCCL, and on two that share the GPU: what runs, what is refused, a release."""
    found: dict[str, Any] = {}
    with _ranks(n=1) as session:
        found["one rank"] = session.run(f"{REDUCE}(dist.get_backend_config(), value.item())").ranks[0].value
        explicit = (
            "dist.destroy_process_group(); dist.init_process_group('nccl'); dist.all_reduce(value); dist.get_backend()"
        )
        found["one rank, nccl by name"] = session.run(explicit).ranks[0].value
    with _ranks(n=2, oversubscribe=True) as session:
        found["two ranks that share it"] = session.run(f"{REDUCE}(dist.get_backend(), value.item())").ranks[1].value
        found["nccl there"] = _error(
            lambda: session.run("dist.destroy_process_group(); dist.init_process_group('nccl')")
        )
        session.run(REDUCE)
        seconds = []
        for _ in range(5):
            began_s = time.monotonic()
            _error(lambda: session.run("if rank == 1: raise ValueError\ndist.all_reduce(value)\nvalue.item()"))
            seconds.append(time.monotonic() - began_s)
            session.run(REDUCE)
        found["seconds from a raise to the end of a cell whose other rank waits"] = [round(one, 2) for one in seconds]
    return found


def auto() -> dict[str, Any]:
    """A loop of one process under --auto on two ranks that share the GPU: how far its weights are from that one's."""
    with _ranks(n=1) as session:
        session.run(LOOP)
        expected = session.pull("weights")[0]
    with _ranks(n=2, oversubscribe=True) as session:
        session.run(LOOP, auto=AutoOptions(batch="global"))
        found = session.pull("weights")
    apart = [max(abs(one - other) for one, other in zip(expected, found[rank], strict=True)) for rank in (0, 1)]
    return {"largest difference of a weight, by rank": apart}


def jax() -> dict[str, Any]:
    """JAX on one rank, and on two that share the GPU."""
    found: dict[str, Any] = {}
    with _ranks(n=1, framework="jax") as session:
        found["one rank"] = session.run(JAX).ranks[0].value
    with _ranks(n=2, oversubscribe=True, framework="jax") as session:
        found["two ranks: devices"] = session.run(JAX.partition("total")[0] + "str(jax.devices())").ranks[1].value
        found["two ranks: a sum"] = _error(lambda: session.run(JAX, timeout_s=40))
        found["then a cell"] = session.run("import jax.numpy as jnp; 1 + 1").ranks[1].value
    return found


def offload() -> dict[str, Any]:
    """Activations kept in pinned host memory until the backward pass needs them, against in the GPU's."""
    with _ranks(n=1) as session:
        result = session.run(OFFLOAD)
    return dict(json.loads(result.ranks[0].stdout.splitlines()[-1]))


def faults() -> dict[str, Any]:
    """What is told of CUDA's errors, and of a rank that is killed while it holds memory."""
    found: dict[str, Any] = {}
    with _ranks(n=2, oversubscribe=True) as session:
        found["out of memory"] = _error(lambda: session.run(TOO_LARGE))
        found["then a cell"] = session.run("torch.ones(2, device='cuda').sum().item()").ranks[0].value
        found["assert in a kernel"] = _error(lambda: session.run(ASSERT, ranks=[1]))
        found["then a cell on it"] = _error(lambda: session.run("torch.ones(2, device='cuda').sum().item()"))
        session.restart()
        session.run(HOLD)
        time.sleep(2)
        killer = threading.Timer(1.5, lambda: os.kill(session.ranks[1].pid, 9))
        killer.start()
        found["a kill"] = _error(lambda: session.run("import time; time.sleep(20)"))
        began_s = time.monotonic()
        session.wait_rebuilt()
        found["then a cell on new ranks"] = (
            session.run("import torch; torch.ones(1, device='cuda').item()").ranks[1].value
        )
        found["seconds until it ended"] = round(time.monotonic() - began_s, 2)
    return found


class _Smi:
    """nvidia-smi's figures once a second, while the block lasts."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def __enter__(self) -> _Smi:
        fields = "utilization.gpu,memory.used,power.draw,temperature.gpu"
        argv = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "--loop-ms=1000"]
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        return self

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            use, used, watts, celsius = (float(part) for part in line.split(","))
            self.rows.append({"use_pct": use, "memory_mib": used, "watts": watts, "celsius": celsius})

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._thread.join()
        self._process.wait()


def _ranks(**options: Any) -> Session:
    return jupyter_ddl.start(name=f"gpu-{os.getpid()}", **options)


def _start_and_stop(options: dict[str, Any]) -> None:
    _ranks(**options).stop()


def _error(step: Callable[[], object]) -> str:
    """Return the text of the error that a step ends with; a step that does not fail is named so."""
    try:
        step()
    except RankError as error:
        # The last line is what we add to the program's own error.
        return f"{type(error).__name__}: {error} ... {error.failures[0].traceback[-1]}"
    except DdlError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def _used_mib() -> float:
    with nvml_open() as nvml:
        return float(memory_of(nvml, nvml.nvmlDeviceGetHandleByIndex(0)).used / MIB)


CHECKS: dict[str, Callable[[], dict[str, Any]]] = {
    check.__name__: check for check in (pinning, memory, faults, groups, auto, jax, offload, figures)
}


def main() -> None:
    """Run the checks that the command line names; all where it names none."""
    for name in sys.argv[1:] or CHECKS:
        began_s = time.monotonic()
        found = CHECKS[name]()
        print(json.dumps({"name": f"gpu {name}", "took_s": round(time.monotonic() - began_s, 1), **found}), flush=True)


if __name__ == "__main__":
    main()
