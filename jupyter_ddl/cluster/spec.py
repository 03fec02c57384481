"""Defines what a cluster is started with.

Importing this loads no NVML, so it works on any host.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from jupyter_ddl.host.rank_limits import RankLimits
from jupyter_ddl.launch.place import HERE, Place
from jupyter_ddl.launch.profiles.limits import Allowed
from jupyter_ddl.protocol.frameworks import AUTO
from jupyter_ddl.protocol.idle_stop import IdleStop
from jupyter_ddl.protocol.standby import NEVER

if TYPE_CHECKING:
    from jupyter_ddl.protocol.gpu_allotment import GpuAllotment


@dataclass(frozen=True)
class Served:
    """The batch job whose own program started the ranks, for kernels on other hosts.

    Attributes:
        scheduler: the kind of its scheduler, e.g. "slurm".
        job: as the scheduler names it.
        folder: what was submitted, `cluster.job_folder`.
        reached_from: the host whose kernels connect.
        rebuild: whether its program replaces lost ranks.
    """

    scheduler: str
    job: str
    folder: str
    reached_from: str
    rebuild: bool


@dataclass(frozen=True)
class ClusterSpec:
    """What to start.

    Attributes:
        n: ranks.
        devices: the CUDA_VISIBLE_DEVICES entry of each local rank; empty where the ranks compute on the cores, or each
            finds its own.
        threads: TensorFlow's threads on each rank; None for a share of its host's cores, which it finds itself.
        environment: variables that each rank has before TensorFlow is imported.
        keep: the ranks outlive the kernel that starts them.
        oversubscribe: several ranks, or clusters, may share a GPU.
        note: the sentence that reports to the user what was chosen.
        place: where the ranks are.
        finds_devices: each rank takes a GPU of the host that it is on, where there is one.
        refuses_devices: the user wants the cores, whatever GPUs there are.
        served: the batch job that brings them; None where a kernel starts them.
        allowed: what the profile that they were started with allows, also at a restart; None without one.
        framework: what the ranks import before the first cell; "auto" for what is installed there.
        standby: whether ranks that wait to take their place may be made: "auto" or "never".
        idle_stop: when they are ended as idle; None for never.
        keep_variables: what cells defined there is saved before they are ended as idle.
        gpus_among: the GPUs among which each finds its own, as in `devices`; empty for all of its host.
    """

    name: str
    n: int
    devices: tuple[str, ...]
    threads: int | None
    environment: dict[str, str]
    keep: bool
    oversubscribe: bool
    note: str
    place: Place = HERE
    finds_devices: bool = False
    refuses_devices: bool = False
    served: Served | None = None
    allowed: Allowed | None = None
    framework: str = AUTO
    standby: str = NEVER
    idle_stop: IdleStop | None = None
    keep_variables: bool = False
    gpus_among: tuple[str, ...] = ()

    @property
    def allotment(self) -> GpuAllotment | None:
        """How a site gives the ranks their GPUs; None where they take what they ask for."""
        given = None if self.allowed is None else self.allowed.allotment
        return None if given is None else replace(given, among=self.gpus_among)

    @property
    def limits(self) -> RankLimits | None:
        """What each rank may hold of memory; None for no limit."""
        return RankLimits.of(None if self.allowed is None else self.allowed.memory, self.allotment)

    def to_json(self) -> str:
        """Return the spec as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ClusterSpec:
        """Return the spec that `to_json` wrote."""
        fields = json.loads(text)
        # A cluster that an older version started has no place, and is here.
        place = Place.from_record(fields["place"]) if "place" in fields else HERE
        served = Served(**fields["served"]) if fields.get("served") else None
        allowed = Allowed(**fields["allowed"]) if fields.get("allowed") else None
        idle_stop = IdleStop(**fields["idle_stop"]) if fields.get("idle_stop") else None
        lists = {name: tuple(fields.get(name, ())) for name in ("devices", "gpus_among")}
        read = {**lists, "place": place, "served": served, "allowed": allowed}
        return cls(**{**fields, **read, "idle_stop": idle_stop})
