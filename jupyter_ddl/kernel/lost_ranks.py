"""What is told of ranks that are gone: how the first ended, what was last seen of it, and what probably ended it.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.cluster.deaths import likely_cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.protocol.events import MetricsSample, RankLost

_GIB = 2**30


def describe_loss(lost: RankLost, last: MetricsSample | None = None, last_words: Sequence[str] = ()) -> str:
    """Return how the ranks were lost, as sentences.

    Args:
        lost: what the cluster's supervisor said.
        last: the last sample of the rank that ended first, if there is one.
        last_words: the lines that this rank printed last.
    """
    if lost.asked:
        return lost.cause
    head, _, rest = lost.cause.partition("\n")
    parts = [f"{head}."]
    if last is not None:
        parts.append(_seen(lost, last))
    cause = likely_cause(lost.signum, lost.oom_kills, last_words)
    if cause is not None:
        parts.append(f"Likely cause: {cause}")
    return " ".join(parts) + (f"\n{rest}" if rest else "")


def _seen(lost: RankLost, last: MetricsSample) -> str:
    seen = f"{max(0.0, lost.at_s - last.at_s):.1f} s before it had {last.rss_bytes / _GIB:.2f} GiB of memory"
    if last.gpu_memory_used_bytes is not None:
        of = f" of {last.gpu_memory_total_bytes / _GIB:.1f}" if last.gpu_memory_total_bytes else ""
        seen += f", and its GPU {last.gpu_memory_used_bytes / _GIB:.1f}{of} GiB in use"
    return seen + "."
