"""Makes sentences of ranks that are ended as idle."""

from __future__ import annotations

from jupyter_ddl.protocol.number_texts import time_left


def idle_stop_sentence(after_s: float, by: str, left_s: float | None = None, *, keeps_variables: bool = False) -> str:
    """Return when ranks are ended as idle.

    Args:
        after_s: how long no run has used them by then, in seconds.
        by: what says so.
        left_s: how long until then, in seconds; None while they are used, or start.
        keeps_variables: what cells defined there is saved first.

    >>> idle_stop_sentence(1800.0, "--idle-stop 30m")
    'The ranks are ended after 30 min without a run (--idle-stop 30m).'
    >>> idle_stop_sentence(1800.0, "--idle-stop 30m", 250.0)
    'The ranks are ended after 30 min without a run (--idle-stop 30m): in 4 min.'
    >>> idle_stop_sentence(1800.0, "--idle-stop 30m", keeps_variables=True)
    'The ranks are ended after 30 min without a run (--idle-stop 30m); %ddl restart loads their variables again.'
    """
    left = "" if left_s is None else f": in {time_left(left_s)}"
    kept = "; %ddl restart loads their variables again" if keeps_variables else ""
    return f"The ranks are ended after {time_left(after_s)} without a run ({by}){left}{kept}."
