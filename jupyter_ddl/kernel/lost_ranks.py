"""Adds to the fault of lost ranks what was last seen of the first, and what probably ended it.

Runs on: kernel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.deaths import likely_cause
from jupyter_ddl.protocol.faults import LastSample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.protocol.events import MetricsSample
    from jupyter_ddl.protocol.faults import Fault


def with_last_seen(fault: Fault, last: MetricsSample | None = None, last_words: Sequence[str] = ()) -> Fault:
    """Return the fault of lost ranks with what is known of the rank that ended first.

    Args:
        fault: the fault as the cluster's supervisor has it.
        last: the rank's last sample, if there is one.
        last_words: the lines that it printed last.
    """
    facts = fault.facts
    cause, evidence = fault.cause, ""
    if facts.excess is None:
        cause, evidence = likely_cause(facts.signum, facts.oom_kills, last_words)
    facts = replace(facts, evidence=evidence)
    if last is not None:
        seen = LastSample(
            max(0.0, fault.at_s - last.at_s),
            last.rss_bytes,
            last.gpu_memory_used_bytes,
            last.gpu_memory_total_bytes,
            last.step,
        )
        facts = replace(facts, last=seen)
    return replace(fault, cause=cause, facts=facts)
