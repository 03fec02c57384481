"""Checks how the GPUs of this host are joined."""

from __future__ import annotations

import os
import subprocess
from dataclasses import asdict
from itertools import combinations
from typing import TYPE_CHECKING

from jupyter_ddl.doctor.report import Check
from jupyter_ddl.host.run_module import command
from jupyter_ddl.protocol.codec import record_of
from jupyter_ddl.protocol.host_topology import PATHS, HostTopology
from jupyter_ddl.protocol.untrusted_json import parse_json
from jupyter_ddl.views.topology import legend_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jupyter_ddl.protocol.host_topology import HostGpu

# Without its persistence mode the driver initialises each GPU first, a second or two each.
_ANSWER_S = 60.0


def check_gpu_topology(found: HostTopology | str) -> Check:
    """Report how each pair of GPUs is joined, and which NUMA node is near each.

    Args:
        found: what this host has, or why that is not known.
    """
    if isinstance(found, str):
        remedy = "Ranks train without it; `nvidia-smi topo -m` may say the same."
        return Check("GPU topology", "note", f"not known: {found}", remedy)
    facts = {"gpus": [asdict(gpu) for gpu in found.gpus], "no_gpus": found.no_gpus}
    if not found.gpus:
        return Check("GPU topology", "ok", f"no GPU: {found.no_gpus}", facts=facts)
    text = "; ".join([*_pairs(found.gpus), *_nodes(found.gpus)])
    return Check("GPU topology", "ok", text, facts=facts)


def topology_here(environment: Mapping[str, str] = os.environ, answer_s: float = _ANSWER_S) -> HostTopology | str:
    """Return what this host has, as a process of its own reads it; where that fails, the reason.

    NVML is loaded into no kernel, and a driver that never answers holds none.

    Args:
        environment: of that process.
        answer_s: how long it may take, in seconds.
    """
    try:
        child = subprocess.run(
            command("jupyter_ddl.host.description"),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=answer_s,
            check=True,
        )
        return record_of(HostTopology, parse_json(child.stdout))
    except subprocess.TimeoutExpired:
        return f"the driver has not answered for {answer_s:g} s"
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"what asks NVML ended with status {error.returncode}"
    except ValueError as error:
        return f"what asks NVML did not answer as it should: {error}"


def _pairs(gpus: tuple[HostGpu, ...]) -> Iterable[str]:
    """Yield each kind of path with the pairs of GPUs that it joins, the quickest first."""
    pairs: dict[str, list[str]] = {}
    for (at, one), (to, other) in combinations(enumerate(gpus), 2):
        assert at < to
        pairs.setdefault(one.paths[to], []).append(f"{one.index}-{other.index}")
    if not pairs:
        yield "1 GPU"
    for path in sorted(pairs, key=_order):
        which = "every pair" if len(pairs) == 1 else f"GPUs {', '.join(pairs[path])}"
        yield f"{which} by {path} ({legend_of([path]).partition(': ')[2]})"


def _order(path: str) -> tuple[int, int]:
    known = list(PATHS)
    if path.startswith("NV"):
        return (0, -int(path[2:]))
    return (1, known.index(path) if path in known else len(known))


def _nodes(gpus: tuple[HostGpu, ...]) -> Iterable[str]:
    """Yield each NUMA node with the GPUs that it is near, and its cores."""
    near: dict[tuple[str, str], list[str]] = {}
    for gpu in gpus:
        if gpu.numa or gpu.cores:
            near.setdefault((gpu.numa, gpu.cores), []).append(str(gpu.index))
    for (numa, cores), which in near.items():
        names = f"GPU{'' if len(which) == 1 else 's'} {', '.join(which)}"
        place = [f"NUMA {numa}"] * bool(numa) + [f"cores {cores}"] * bool(cores)
        yield f"{names} near {', '.join(place)}"
