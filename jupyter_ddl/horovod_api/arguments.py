"""Checks arguments that Horovod's functions have for every framework.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.horovod_api.process_sets import Op


def operation(average: bool | None, op: Any) -> Op:
    """Return how values are reduced; `average` is Horovod's older argument for it.

    Raises:
        InvalidInput: both are given; `op` is none of Horovod's.
    """
    if average is not None and op is not None:
        raise InvalidInput("op says how values are reduced.", f"average={average} as well", "Leave average out.")
    if op is None:
        return Op.Sum if average is False else Op.Average
    if op not in tuple(Op):
        raise InvalidInput(
            "op is one of Horovod's.", repr(op), "Pass hvd.Average, hvd.Sum, hvd.Min, hvd.Max or hvd.Product."
        )
    return Op(op)


def predivision(factor: Any, op: Any) -> float:
    """Return `gradient_predivide_factor`, if it can be one.

    Raises:
        InvalidInput: it is not above 0, or `op` is not Average.
    """
    if not factor > 0:
        raise InvalidInput(
            "gradient_predivide_factor must be above 0.", f"{factor}", "Leave it out, or pass e.g. hvd.size()."
        )
    if factor != 1 and op != Op.Average:
        raise InvalidInput(
            "gradient_predivide_factor splits the division of an Average.",
            f"gradient_predivide_factor={factor}, op={op}",
            "Pass op=hvd.Average, or leave the factor out.",
        )
    return float(factor)


def backward_passes(number: Any) -> int:
    """Return `backward_passes_per_step`, if it is a number above 0.

    Raises:
        InvalidInput: it is not.
    """
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise InvalidInput(
            "backward_passes_per_step must be a whole number above 0.", repr(number), "Pass 1, 2, 3, ..."
        )
    return number
