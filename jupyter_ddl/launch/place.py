"""Where the ranks of a cluster are: on this host, or on several hosts that are reached over SSH."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["local", "hosts"]
DEFAULT_SSH = "ssh"


@dataclass(frozen=True)
class HostSlots:
    """A host, by the name with which it was given, and how many ranks it takes."""

    host: str
    slots: int


@dataclass(frozen=True)
class Place:
    """Where ranks are.

    Attributes:
        kind: "local" for this host, "hosts" for those in `hosts`.
        hosts: in the order in which they get their ranks; empty for this host.
        ssh: the command that reaches a host, with its options, e.g. "ssh -p 2222 -l me".
    """

    kind: Kind = "local"
    hosts: tuple[HostSlots, ...] = ()
    ssh: str = DEFAULT_SSH

    @property
    def is_here(self) -> bool:
        """Whether all ranks are on this host."""
        return self.kind == "local"

    @property
    def slots(self) -> int:
        """How many ranks the hosts take in all; 0 for this host, whose devices decide."""
        return sum(one.slots for one in self.hosts)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Place:
        """Return the place that `dataclasses.asdict` made a record of."""
        return cls(**{**record, "hosts": tuple(HostSlots(**one) for one in record["hosts"])})


HERE = Place()
