"""Describes what a host has for the exchange between ranks: its GPUs, how they are joined, its network interfaces."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.codec import Int64  # noqa: TC001  get_type_hints reads it

if TYPE_CHECKING:
    from collections.abc import Mapping

ITSELF = "X"
UNKNOWN = "?"
# The paths between two GPUs, from the quickest to the slowest, in the words of `nvidia-smi topo -m`; NV and a number
# comes before all of these.
PATHS = {
    "PIX": "one PCIe switch at most",
    "PXB": "several PCIe switches",
    "PHB": "the PCIe host bridge of one processor",
    "NODE": "several host bridges of one NUMA node",
    "SYS": "the connection between NUMA nodes",
}


@dataclass(frozen=True)
class Interface:
    """A network interface that is up.

    Attributes:
        name: e.g. "ib0".
        address: its IPv4 address, else its IPv6 address.
        mbit_per_s: None where its driver says none, as a virtual one's.
        is_infiniband: its link is InfiniBand; RoCE is Ethernet.
    """

    name: str
    address: str
    mbit_per_s: Int64 | None
    is_infiniband: bool = False


@dataclass(frozen=True)
class HostGpu:
    """A GPU, as it is joined to its host; one in MIG mode counts as one.

    Attributes:
        index: NVML's, in PCI bus order.
        paths: to each GPU of the host, in the order of their list: "NV18" for 18 NVLinks, a key of PATHS, ITSELF, or
            UNKNOWN where NVML does not say.
        numa: the NUMA nodes that are near it, as "0" or "0-1"; empty where NVML does not say.
        cores: the logical cores that are near it, as "0-31,64-95"; likewise.
    """

    index: Int64
    name: str
    pci_address: str
    paths: tuple[str, ...]
    numa: str = ""
    cores: str = ""


@dataclass(frozen=True)
class HostTopology:
    """What one host has.

    Attributes:
        gpus: all that NVML shows to a process there.
        no_gpus: why there are none, a clause; None where there are.
        interfaces: those that are up and have an address, without loopback.
    """

    gpus: tuple[HostGpu, ...]
    no_gpus: str | None
    interfaces: tuple[Interface, ...]


def topology_record(found: Mapping[str, HostTopology]) -> dict[str, Any]:
    """Return what hosts have, as a run's record holds it: each set of GPUs once, with its hosts, and all interfaces.

    A thousand hosts of one kind then take a tenth of what a record may, and not half of it.

    Args:
        found: host -> what it has.
    """
    gpus: dict[object, dict[str, Any]] = {}
    for host, has in found.items():
        alike = {"hosts": [], "gpus": [asdict(gpu) for gpu in has.gpus], "no_gpus": has.no_gpus}
        gpus.setdefault((has.gpus, has.no_gpus), alike)["hosts"].append(host)
    interfaces = {host: [asdict(one) for one in has.interfaces] for host, has in found.items()}
    return {"gpus": list(gpus.values()), "interfaces": interfaces}
