"""A stand-in libnvidia-ml.so.1, so that the real nvidia-ml-py sees as many GPUs as a test needs.

Run the code in a child process whose environment has what `build_nvml` returned: the library is loaded once a process.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

H200_BYTES = 141 * 2**30
RESERVED_BYTES = 2**29  # what the driver keeps for itself, of each GPU
NOT_SUPPORTED = 3  # nvmlReturn_t
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
GPU_IS_LOST = 15
SWITCH = -1  # what an NVLink leads to, in place of a GPU's index
NO_LEVEL = -1  # in place of an nvmlGpuTopologyLevel_t


@dataclass(frozen=True)
class FakeGpu:
    uuid: str
    name: str = "NVIDIA H200"
    memory_total_bytes: int | None = H200_BYTES  # None: the GPU cannot tell
    migs: tuple[str, ...] | None = None  # the UUIDs of its MIG devices, "" for a free slot; None: not in MIG mode
    memory_used_bytes: int = 0
    processes: tuple[tuple[int, int], ...] = ()  # pid and bytes in use of each that computes there
    busy_pct: int | None = 0  # None: it fails, as a GPU that fell off the bus does; so do its power and temperature
    nvlinks: tuple[int | None, ...] = ()  # the index of the GPU that each leads to, or SWITCH; None: not in use
    numa: int | None = None  # the node that is near; None: the GPU cannot tell
    cores: tuple[int, ...] = ()  # those that are near; likewise


def h200s(count: int) -> list[FakeGpu]:
    return [FakeGpu(f"GPU-{index}aaaaaaa-0000-0000-0000-000000000000") for index in range(count)]


def build_nvml(
    tmp_path: Path,
    devices: list[FakeGpu],
    *,
    init_result: int = 0,
    count_result: int = 0,
    levels: dict[tuple[int, int], int] | None = None,
    knows_reserved: bool = True,
) -> dict[str, str]:
    """Return the environment in which NVML shows the devices, or fails with an nvmlReturn_t.

    Args:
        levels: of a pair of GPUs, the lower index first, the nvmlGpuTopologyLevel_t, or NO_LEVEL; 50 by default.
        knows_reserved: the driver tells what it keeps for itself apart, as those from 510 on do.
    """
    folder = tmp_path / "nvml"
    folder.mkdir(exist_ok=True)
    source = folder / "nvml.c"
    source.write_text(
        _source(devices, init_result, count_result, later_processes(tmp_path), knows_reserved=knows_reserved)
        + _topology_source(devices, levels or {})
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", source], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    return {**environment, "LD_LIBRARY_PATH": str(folder)}


def later_processes(tmp_path: Path) -> Path:
    """Return the file of processes that compute there from when it is written on: a GPU's index, a PID and bytes."""
    return tmp_path / "nvml" / "processes"


def _source(devices: list[FakeGpu], init_result: int, count_result: int, later: Path, *, knows_reserved: bool) -> str:
    # uuid, name, memory, mig mode, first slot, slots, memory in use, use in percent
    rows: list[tuple[str, str, int | None, int, int, int, int, int]] = []
    slots: list[tuple[str, str, int | None, int, int, int, int, int]] = []
    for gpu in devices:
        migs = gpu.migs or ()
        mig_mode, first = int(gpu.migs is not None), len(devices) + len(slots)
        use = -1 if gpu.busy_pct is None or gpu.migs is not None else gpu.busy_pct
        rows += [(gpu.uuid, gpu.name, gpu.memory_total_bytes, mig_mode, first, len(migs), gpu.memory_used_bytes, use)]
        slots += [(uuid, f"{gpu.name} MIG 1g.18gb", 18 * 2**30, 0, 0, 0, 2**30, -1) for uuid in migs]
    rows += slots
    table = ",\n".join(
        f'{{"{uuid}", "{name}", {-1 if memory is None else memory}LL, {mig}, {first}, {count}, {used}LL, {use}}}'
        for uuid, name, memory, mig, first, count, used, use in rows
    )
    computing = ", ".join(
        f"{{{index}, {pid}, {used}ULL}}" for index, gpu in enumerate(devices) for pid, used in gpu.processes
    )
    return f"""
#include <stdio.h>
#include <string.h>
typedef struct {{
    const char *uuid, *name; long long memory; unsigned mig, first, slots; long long used; int use;
}} Row;
static Row rows[] = {{ {table or '{"", "", 0, 0, 0, 0, 0, 0}'} }};
int nvmlInitWithFlags(unsigned flags) {{ return {init_result}; }}
int nvmlShutdown(void) {{ return 0; }}
const char *nvmlErrorString(int code) {{ return "the stand-in fails"; }}
int nvmlDeviceGetCount_v2(unsigned *count) {{ *count = {len(devices)}; return {count_result}; }}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Row **row) {{
    if (index >= {len(devices)}) return 2;
    *row = &rows[index]; return 0;
}}
int nvmlDeviceGetHandleByUUID(const char *uuid, Row **row) {{
    for (unsigned i = 0; i < {len(rows)}; i++) if (!strcmp(rows[i].uuid, uuid)) {{ *row = &rows[i]; return 0; }}
    return {NOT_FOUND};
}}
int nvmlDeviceGetName(Row *row, char *text, unsigned size) {{ strncpy(text, row->name, size); return 0; }}
int nvmlDeviceGetUUID(Row *row, char *text, unsigned size) {{ strncpy(text, row->uuid, size); return 0; }}
int nvmlDeviceGetMemoryInfo(Row *row, unsigned long long *memory) {{
    if (row->memory < 0) return {NOT_SUPPORTED};
    unsigned long long free = row->memory - row->used - {RESERVED_BYTES};
    memory[0] = row->memory; memory[1] = free; memory[2] = row->memory - free; return 0;
}}
typedef struct {{ unsigned version; unsigned long long total, reserved, free, used; }} Memory;
int {"nvmlDeviceGetMemoryInfo_v2" if knows_reserved else "unused"}(Row *row, Memory *memory) {{
    if (row->memory < 0) return {NOT_SUPPORTED};
    memory->total = row->memory; memory->reserved = {RESERVED_BYTES}; memory->used = row->used;
    memory->free = row->memory - row->used - {RESERVED_BYTES}; return 0;
}}
int nvmlDeviceGetUtilizationRates(Row *row, unsigned *rates) {{
    if (row->use < 0) return {NOT_SUPPORTED};
    rates[0] = row->use; rates[1] = 7; return 0;
}}
int nvmlDeviceGetPowerUsage(Row *row, unsigned *milliwatts) {{
    if (row->use < 0) return {GPU_IS_LOST};
    *milliwatts = 70500; return 0;
}}
int nvmlDeviceGetTemperature(Row *row, int sensor, unsigned *celsius) {{
    if (row->use < 0) return {GPU_IS_LOST};
    *celsius = 41; return 0;
}}
typedef struct {{ unsigned row, pid; unsigned long long used; }} Computing;
static Computing computing[] = {{ {computing or "{0, 0, 0}"} }};
typedef struct {{ unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; }} Process;
int nvmlDeviceGetComputeRunningProcesses_v3(Row *row, unsigned *count, Process *processes) {{
    unsigned room = *count, found = 0;
    for (unsigned i = 0; i < sizeof computing / sizeof *computing; i++) {{
        if (!computing[i].pid || &rows[computing[i].row] != row) continue;
        if (found < room) processes[found] = (Process){{computing[i].pid, computing[i].used, -1, -1}};
        found++;
    }}
    FILE *later = fopen("{later}", "r");
    unsigned long long at, pid, used;
    while (later && fscanf(later, "%llu %llu %llu", &at, &pid, &used) == 3) {{
        if (&rows[at] != row) continue;
        if (found < room) processes[found] = (Process){{pid, used, -1, -1}};
        found++;
    }}
    if (later) fclose(later);
    *count = found;
    return found > room ? {INSUFFICIENT_SIZE} : 0;
}}
int nvmlDeviceGetMigMode(Row *row, unsigned *current, unsigned *pending) {{
    if (!strstr(row->name, "H200")) return {NOT_SUPPORTED};
    *current = *pending = row->mig; return 0;
}}
int nvmlDeviceGetMaxMigDeviceCount(Row *row, unsigned *count) {{ *count = row->slots; return 0; }}
int nvmlDeviceGetMigDeviceHandleByIndex(Row *row, unsigned slot, Row **device) {{
    *device = &rows[row->first + slot];
    return *(*device)->uuid ? 0 : {NOT_FOUND};
}}
"""


def _topology_source(devices: list[FakeGpu], levels: dict[tuple[int, int], int]) -> str:
    pairs = ", ".join(f"{{{first}, {second}, {level}}}" for (first, second), level in levels.items())
    links = ", ".join(
        f"{{{index}, {number}, {'-2' if end is None else end}}}"
        for index, gpu in enumerate(devices)
        for number, end in enumerate(gpu.nvlinks)
    )
    near = ", ".join(
        f"{{{-1 if gpu.numa is None else gpu.numa}, {sum(1 << core for core in gpu.cores)}ULL}}" for gpu in devices
    )
    return f"""
typedef struct {{ int first, second, level; }} Level;
static Level levels[] = {{ {pairs or "{-1, -1, 0}"} }};
typedef struct {{ int row, link, end; }} Link;
static Link links[] = {{ {links or "{-1, 0, 0}"} }};
typedef struct {{ int node; unsigned long long cores; }} Near;
static Near near[] = {{ {near or "{-1, 0}"} }};
typedef struct {{
    char legacy[16]; unsigned domain, bus, device, id, subsystem; char address[32];
}} Pci;
static int address_of(int index, Pci *pci) {{
    memset(pci, 0, sizeof *pci);
    strcpy(pci->address, "00000000:A0:00.0");
    pci->address[10] = '0' + index;
    return 0;
}}
static Link *link_of(Row *row, unsigned number) {{
    for (unsigned i = 0; i < sizeof links / sizeof *links; i++)
        if (links[i].row == row - rows && links[i].link == number) return &links[i];
    return 0;
}}
int nvmlDeviceGetTopologyCommonAncestor(Row *one, Row *other, int *level) {{
    *level = 50;
    for (unsigned i = 0; i < sizeof levels / sizeof *levels; i++) {{
        int first = levels[i].first, second = levels[i].second, a = one - rows, b = other - rows;
        if ((a == first && b == second) || (a == second && b == first)) *level = levels[i].level;
    }}
    return *level < 0 ? {NOT_SUPPORTED} : 0;
}}
int nvmlDeviceGetPciInfo_v3(Row *row, Pci *pci) {{ return address_of(row - rows, pci); }}
int nvmlDeviceGetNvLinkState(Row *row, unsigned number, unsigned *active) {{
    Link *link = link_of(row, number);
    if (!link) return {NOT_SUPPORTED};
    *active = link->end != -2; return 0;
}}
int nvmlDeviceGetNvLinkRemoteDeviceType(Row *row, unsigned number, int *kind) {{
    *kind = link_of(row, number)->end == {SWITCH} ? 2 : 0; return 0;
}}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Row *row, unsigned number, Pci *pci) {{
    return address_of(link_of(row, number)->end, pci);
}}
typedef struct {{
    unsigned field, scope; long long at, took; unsigned type; int result; unsigned long long value;
}} Field;
int nvmlDeviceGetFieldValues(Row *row, int count, Field *found) {{
    static unsigned long long kib = 1 << 20;
    unsigned active = 0;
    for (unsigned i = 0; i < sizeof links / sizeof *links; i++)
        active += links[i].row == row - rows && links[i].end != -2;
    for (int i = 0; i < count; i++) {{
        int is_sent = found[i].field == 138, is_known = active && found[i].scope == 0xffffffff;
        found[i].result = is_known && (is_sent || found[i].field == 139) ? 0 : {NOT_SUPPORTED};
        // A GiB a link at each reading, and half of it sent.
        found[i].value = (is_sent ? kib / 2 : kib) * active;
    }}
    kib += 1 << 20;
    return 0;
}}
int nvmlDeviceGetMemoryAffinity(Row *row, unsigned size, unsigned long long *nodes, int scope) {{
    int node = near[row - rows].node;
    if (node < 0) return {NOT_SUPPORTED};
    memset(nodes, 0, size * sizeof *nodes); nodes[node / 64] = 1ULL << node % 64; return 0;
}}
int nvmlDeviceGetCpuAffinity(Row *row, unsigned size, unsigned long long *cores) {{
    if (!near[row - rows].cores) return {NOT_SUPPORTED};
    memset(cores, 0, size * sizeof *cores); cores[0] = near[row - rows].cores; return 0;
}}
"""
