"""Takes the collectives of one training step together, and says where the step's time went.

| quantity | is |
|---|---|
| step | from the end of the last collective of the step before until the end of its own last one |
| compute of a rank | from the step's beginning until the rank has handed its last tensor over; input included |
| wait of a rank | from then until the slowest rank has handed its last tensor over |
| exchange | the time in which at least one tensor that all ranks have handed over has no result yet |
| hidden | the part of the exchange before the slowest rank has handed its last tensor over: it costs nothing |
| exposed | the part after that: it makes the step longer |
| collective | the part of the exposed exchange in which ranks exchange bytes |
| copies | of what is left, the part in which rank 0 copies bytes within itself |
| queue | the rest of the exposed exchange: tensors wait for their turn |

So a step is the compute and the wait of any rank, and the exposed exchange.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jupyter_ddl.timeline.intervals import length, union, until, within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jupyter_ddl.timeline.collectives import Collective
    from jupyter_ddl.timeline.intervals import Interval


@dataclass(frozen=True, slots=True)
class Late:
    """The rank that was the last to hand over its last tensor.

    Attributes:
        rank: its number.
        by_us: how much later than the rank before it.
        tensor: for which all others waited longest in this step, and this rank was the last.
    """

    rank: int
    by_us: float
    tensor: str


@dataclass(frozen=True, slots=True)
class Step:
    """Where one step's time went; times in microseconds.

    Attributes:
        number: from 0.
        begin_us: its beginning, since the timeline's.
        handed_us: rank -> when it had handed its last tensor over; rank 0 alone where more is not known.
        ready_us: when the slowest rank had.
        end_us: when its last result was there.
        hidden_us: of the exchange.
        collective_us: of the exposed exchange.
        copies_us: likewise.
        queue_us: likewise.
        late: the slowest rank; None where only rank 0's times are known.
        collectives: of the step.
    """

    number: int
    begin_us: float
    handed_us: dict[int, float]
    ready_us: float
    end_us: float
    hidden_us: float
    collective_us: float
    copies_us: float
    queue_us: float
    late: Late | None
    collectives: tuple[Collective, ...] = field(default=(), repr=False)

    @property
    def step_us(self) -> float:
        """How long it took."""
        return self.end_us - self.begin_us

    @property
    def exposed_us(self) -> float:
        """The exposed part of its exchange."""
        return self.end_us - self.ready_us

    @property
    def exchange_us(self) -> float:
        """Its whole exchange."""
        return self.hidden_us + self.exposed_us

    def compute_us(self, rank: int) -> float:
        """Return the compute of a rank whose times are known."""
        return self.handed_us[rank] - self.begin_us

    def wait_us(self, rank: int) -> float:
        """Return how long it waited for the slowest rank."""
        return self.ready_us - self.handed_us[rank]


def steps_of(collectives: Iterable[Collective], is_of_steps: Callable[[str], bool]) -> Iterator[Step]:
    """Yield the steps; the first one has no beginning, and is left out.

    A step ends where one of its tensors is handed over again.

    Args:
        collectives: in the order in which they ended.
        is_of_steps: whether a tensor is exchanged in every step: others, as the weights at the beginning, are left out.
    """
    current: dict[str, Collective] = {}
    # Begun already, while tensors of the step before had no result yet.
    before_us: float | None = None
    number = 0
    for collective in collectives:
        if not is_of_steps(collective.tensor):
            continue
        if collective.tensor in current:
            if before_us is not None:
                yield _step(number, before_us, list(current.values()))
                number += 1
            before_us = max(one.end_us for one in current.values())
            current = {}
        current[collective.tensor] = collective
    if current and before_us is not None:
        yield _step(number, before_us, list(current.values()))


def _step(number: int, before_us: float, collectives: list[Collective]) -> Step:
    begin_us = min(before_us, min(one.begin_us for one in collectives))
    ready_us = max(one.ready_us for one in collectives)
    end_us = max(one.end_us for one in collectives)
    exchange = union((one.ready_us, one.end_us) for one in collectives)
    exposed: Interval = (ready_us, end_us)
    busy = within((phase for one in collectives for phase in one.exchanges), exposed)
    copies = within((phase for one in collectives for phase in one.copies), exposed)
    collective_us = length(busy)
    copies_us = length([*busy, *copies]) - collective_us
    return Step(
        number,
        begin_us,
        _handed_us(collectives, ready_us),
        ready_us,
        end_us,
        length(until(exchange, ready_us)),
        collective_us,
        copies_us,
        end_us - ready_us - collective_us - copies_us,
        _late(collectives),
        tuple(collectives),
    )


def _handed_us(collectives: list[Collective], ready_us: float) -> dict[int, float]:
    """Return rank -> when it had handed its last tensor over, for the ranks whose time is known of every tensor."""
    known = set.intersection(*(set(one.handed_us) for one in collectives))
    # The coordinator notes a rank's tensor, and that all ranks have it, a microsecond later.
    return {rank: min(ready_us, max(one.handed_us[rank] for one in collectives)) for rank in sorted(known)}


def _late(collectives: list[Collective]) -> Late | None:
    known = [one for one in collectives if len(one.handed_us) > 1]
    if not known:
        return None
    last_us: dict[int, float] = {}
    for one in known:
        for rank, at_us in one.handed_us.items():
            last_us[rank] = max(last_us.get(rank, at_us), at_us)
    *_, before, rank = sorted(last_us, key=lambda rank: last_us[rank])
    waited_for = [one for one in known if max(one.handed_us, key=lambda other: one.handed_us[other]) == rank]
    longest = max(waited_for or known, key=lambda one: one.ready_us - one.begin_us)
    return Late(rank, last_us[rank] - last_us[before], longest.tensor)
