"""Records how each rank ended on its own host, so that the first of several hosts' ranks is known.

When a rank dies, ranks on other hosts see a closed connection and abort, often before mpiexec hears of the death: it
then names one of those. So a shell waits for each rank as its parent, which alone learns how it ended, and writes that
with the time.

Runs on: every host, the lease.
"""

from __future__ import annotations

import json
import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.deaths import Death
from jupyter_ddl.cluster.memory_limits import noted_excess
from jupyter_ddl.host import run_module
from jupyter_ddl.protocol.rank_files import EXIT, PROCESS, rank_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from jupyter_ddl.protocol.faults import MemoryExcess

# $1 is the folder; $2 has " HOST=FOLDER " for each host where it is another; the rest is the rank's command. The names
# of the rank's number are Open MPI's, Hydra's, PMIx's and jsrun's. The shell ends as the rank did, so that mpiexec
# reports that. A signal to the whole process group, as mpiexec sends it at the end, ends the shell too, and nothing is
# written: that is no end of the rank's own.
_SCRIPT = rf"""
log=$1
case $2 in
*" $(uname -n)="*) log=${{2##*" $(uname -n)="}}; log=${{log%%" "*}} ;;
esac
shift 2
oom_kills() {{
    while read -r name count; do [ "$name" = oom_kill ] && echo "$count" && return; done </proc/vmstat
    echo 0
}}
before=$(oom_kills)
"$@"
status=$?
rank=${{OMPI_COMM_WORLD_RANK:-${{PMI_RANK:-${{PMIX_RANK:-$JSM_NAMESPACE_RANK}}}}}}
echo "$status $(date +%s.%N) $(($(oom_kills) - before))" >"$log/{rank_file("$rank", EXIT)}"
[ "$status" -le 128 ] || kill -"$((status - 128))" $$
exit "$status"
"""
_RECORD = re.compile(r"(?P<status>\d{1,3}) (?P<at_s>\d+(?:\.\d+)?) (?P<oom_kills>\d+)\s*")
_BY_SIGNAL = 128
# Within this time of the first end, one by a signal is the cause, and those that exit have lost a peer.
_TOGETHER_S = 2.0


@dataclass(frozen=True)
class End:
    """One rank's end.

    Attributes:
        at_s: when, by this host's clock, in seconds since the epoch.
        death: how.
        oom_kills: how often the Linux kernel of its host ended a process for lack of memory while it lived.
        excess: the memory for which its host's witness ended it; None where it did not.
    """

    at_s: float
    death: Death
    oom_kills: int
    excess: MemoryExcess | None = None


def recorded(log_dir: Path, apart: Mapping[str, str] | None = None) -> list[str]:
    """Return what to write before a rank's command so that its end is recorded.

    The shell ends with MPI's daemon, its parent, and the rank with the shell.

    Args:
        log_dir: where.
        apart: the own name of each host that does not share it -> where there.
    """
    elsewhere = "".join(f" {host}={folder}" for host, folder in (apart or {}).items())
    shell = ["/bin/sh", "-c", _SCRIPT, "jupyter_ddl rank", str(log_dir), f"{elsewhere} "]
    return run_module.command("jupyter_ddl.cluster.witness", *shell)


def first_end(log_dir: Path, clock_offsets_s: Mapping[str, float]) -> End | None:
    """Return the end that was first; None where no rank has recorded one of its own.

    Args:
        log_dir: where ranks note their processes, and their ends are recorded.
        clock_offsets_s: each host's clock minus this one's, by the host's own name.
    """
    return first_of(_ends(log_dir, clock_offsets_s))


def first_of(recorded_ends: Iterable[End]) -> End | None:
    """Return the end that was first; None without one."""
    ends = sorted(recorded_ends, key=lambda end: end.at_s)
    if not ends:
        return None
    together = [end for end in ends if end.at_s - ends[0].at_s <= _TOGETHER_S]
    # A rank that has lost a peer aborts, or is ended by MPI.
    causes = [end for end in together if end.death.signum not in (None, signal.SIGABRT, signal.SIGTERM)]
    return (causes or together)[0]


def _ends(log_dir: Path, clock_offsets_s: Mapping[str, float]) -> Iterator[End]:
    for note in log_dir.glob(rank_file("*", PROCESS)):
        try:
            process = json.loads(note.read_text())
            found = _RECORD.fullmatch((log_dir / rank_file(process["rank"], EXIT)).read_text())
        except (OSError, ValueError):
            # It has not ended by itself; or the disk cannot be read, and what mpiexec says must do.
            continue
        if found is None:
            # The disk was full.
            continue
        status, host = int(found["status"]), process["host"]
        signum = status - _BY_SIGNAL if status > _BY_SIGNAL else None
        death = Death(process["rank"], host, process["pid"], signum, status if signum is None else None)
        at_s = float(found["at_s"]) - clock_offsets_s.get(host, 0.0)
        yield End(at_s, death, int(found["oom_kills"]), noted_excess(log_dir, process["rank"]))
