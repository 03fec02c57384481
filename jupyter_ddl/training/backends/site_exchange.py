"""Reduces gradients over the ranks by the library of a site that JUPYTER_DDL_EXCHANGE names. Runs on: every rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine import rank_state
from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from jupyter_ddl.engine.collectives.library import Exchanger

_REMEDY = "Leave it out, or unset JUPYTER_DDL_EXCHANGE to exchange through Horovod."


def site_exchanger() -> Exchanger | None:
    """Return the site's library that gradients go through; None where they go through Horovod."""
    state = rank_state.of_process()
    return None if state is None else state.collectives.exchanger


def reduced(exchanger: Exchanger, exchange: Any, flat: Any) -> Any:
    """Return an array summed over all ranks, or averaged as an Exchange says.

    Collective: every rank must call this.

    Args:
        exchanger: the site's library.
        exchange: the optimizer's `Exchange`.
        flat: a NumPy array of one dimension: the gradients of one dtype, one after the other.
    """
    total = exchanger.allreduce(flat)
    return total / exchanger.size() if exchange.op_name == "Average" else total


def require_plain(exchange: Any) -> None:
    """Raise where an optimizer wants of the exchange what a site's library does not give.

    Raises:
        InvalidInput: it wants Adasum, or some of the ranks.
    """
    if exchange.op_name not in ("Average", "Sum"):
        raise InvalidInput("A site's library of collectives sums.", f"op={exchange.op_name}", _REMEDY)
    if exchange.process_set.size() != rank_state.here().collectives.world_size:
        raise InvalidInput(
            "A site's library of collectives reduces over all ranks.",
            f"a process set of {exchange.process_set.size()}",
            _REMEDY,
        )
