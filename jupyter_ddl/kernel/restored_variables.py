"""Gives new ranks what the ranks before them kept when they were ended as idle.

Runs on: kernel.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_ddl.cluster import kept_variables
from jupyter_ddl.errors import DdlError, RunInterrupted
from jupyter_ddl.protocol.number_texts import counted, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from jupyter_ddl.cluster.kept_variables import KeptVariables
    from jupyter_ddl.kernel.incarnation import Incarnation

# A notebook has hundreds of names.
_SHOWN = 12
_REASON_CHARACTERS = 160


def restore(world_id: str, ranks: Incarnation, step: Callable[[str], None], *, uses_horovod: bool) -> str:
    """Have new ranks load the variables of a world that was ended as idle; return what is said of it.

    Args:
        world_id: of the ranks before.
        ranks: the new ones.
        step: called with a sentence before it begins.
        uses_horovod: code on the ranks before has called `hvd.init()`.

    Returns:
        Sentences; empty where nothing was to be kept.

    Raises:
        RunInterrupted: an interrupt came; the variables stay where they are.
    """
    kept = kept_variables.read(world_id)
    if kept is None:
        return ""
    problem = kept.problem or _other_size(kept, ranks)
    if kept.problem is not None:
        # What some ranks saved is of no use.
        kept_variables.remove(world_id)
    if problem is not None:
        return f"The variables of the ranks before were not kept: {problem}"
    step("loading the variables of the ranks before")
    began_s = time.monotonic()
    folder = kept_variables.folder_of(world_id)
    try:
        left_out = tuple(name for name, _ in kept.left_out)
        raised = ranks.transfer.load_variables(folder, left_out, ranks.chosen(None))
    except RunInterrupted:
        raise
    except DdlError as error:
        return f"The variables of the ranks before are not on the new ones: {error} They are still in {folder}."
    kept_variables.remove(world_id)
    if uses_horovod:
        ranks.runs.expect_horovod()
    return _told(kept, raised, duration(time.monotonic() - began_s))


def _other_size(kept: KeptVariables, ranks: Incarnation) -> str | None:
    n = ranks.cluster.world_size
    if n == kept.world_size:
        return None
    return f"those of {counted(kept.world_size, 'rank')} cannot be given to {n}."


def _told(kept: KeptVariables, raised: Mapping[int, Mapping[str, Mapping[str, str]]], took: str) -> str:
    names = ", ".join(kept.kept[:_SHOWN]) + (f" and {len(kept.kept) - _SHOWN} more" if len(kept.kept) > _SHOWN else "")
    told = [f"The variables of the ranks before are back ({took}): {names or 'none'}."]
    if names:
        told[0] += " Random numbers are drawn from new seeds."
    problems: dict[str, Any] = dict(kept.left_out)
    for answer in raised.values():
        problems |= answer["raised"]
    if problems:
        shown = [f"  {name}: {reason[:_REASON_CHARACTERS]}" for name, reason in list(problems.items())[:_SHOWN]]
        more = [f"  and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        told += ["Not kept, run their cells again:", *shown, *more]
    return "\n".join(told)
