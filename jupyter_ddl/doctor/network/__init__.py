"""Measures the exchange between ranks per level (within a host, between hosts, all), and says what is slow.

program     what the ranks run: MPI alone, no TensorFlow
pairs       latency and bandwidth between two ranks, on all ranks' schedule
counters    the interfaces and connections by which bytes went
launching   starts the program where a start's options say
judgement   what is slow, with the remedy, from the figures alone
table       the figures as text
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jupyter_ddl.doctor.network.judgement import judge
from jupyter_ddl.doctor.network.launching import measured
from jupyter_ddl.doctor.network.table import as_table
from jupyter_ddl.doctor.report import as_json, as_line
from jupyter_ddl.protocol.codec import json_value

if TYPE_CHECKING:
    from jupyter_ddl.launch.profiles.start_options import StartOptions


def network_report(options: StartOptions, profile: str | None = None, *, in_json: bool = False) -> str:
    """Measure, judge, and return the report.

    Args:
        options: of a start: where the ranks go.
        profile: the name of a profile.
        in_json: as JSON, with all figures.

    Raises:
        InvalidInput: the options break a rule.
        HostUnfit: ranks cannot start on a host.
        ClusterError: the ranks failed.
    """
    found = measured(options, profile)
    offsets_s = {one.hostname: one.clock_offset_s for one in found.surveyed}
    checks = judge(found.figures, offsets_s)
    if in_json:
        return json.dumps(as_json(checks) | {"figures": json_value(found.figures)}, indent=2)
    return "\n".join((as_table(found.figures), "", *map(as_line, checks)))
