"""Names the files that belong to one rank: `rank-K.log` and others.

| folder | kinds |
|---|---|
| a run's | LOG, STDERR_SPANS, TIMES, EVENTS, STEPS, TIMELINE, TORCH_TRACE, JAX_TRACE, TENSORFLOW_TRACE, ENDED |
| a cluster's logs | RUN_NOTE, STACKS, PROCESS, EXIT, EXCESS |
| of a host's own, where it does not share these (`APART_RUNS`, `APART_LOG`) | the same |
| a script's pipes | `jupyter_ddl.protocol.script_pipes` |
"""

from __future__ import annotations

import re

LOG = "log"  # all bytes that the rank wrote to its standard streams, and last the traceback of what it raised
STDERR_SPANS = "stderr.jsonl"  # [offset, length] of each stretch of the log that is stderr
TIMES = "times"  # when each part of the log was written: `jupyter_ddl.protocol.log_marks`
EVENTS = "events.jsonl"  # the rank's own events, numbered
STEPS = "steps.jsonl"  # when each training step of the rank began and ended, where a timeline is recorded
TIMELINE = "timeline.json"  # what Horovod recorded of the run's collectives; of rank 0
TORCH_TRACE = "torch-trace.json"  # what torch.profiler recorded on the rank
JAX_TRACE = "jax-trace.json"  # what jax.profiler recorded on the rank
TENSORFLOW_TRACE = "tensorflow-trace.json"  # what TensorFlow's profiler recorded on the rank, where the program ran it
ENDED = "ended"  # empty: the rank's process has ended, and its log is complete
RUN_NOTE = "run"  # the folder of the run that the rank executes, in its first line
STACKS = "stacks"  # the stacks that the rank writes on a signal
PROCESS = "process"  # the identity of the rank's process
EXIT = "exit"  # how the rank's process ended, and when; of ranks on several hosts
EXCESS = "excess"  # the memory that the rank held when it was ended for it; of ranks on several hosts

# The folders in the one that ranks have on a host which shares neither the runs' folder nor the clusters'.
APART_RUNS = "runs"
APART_LOG = "log"

# The folder for the temporary files of a world's ranks begins so.
WORLD_FOLDER = "jupyter_ddl-"
# The folder, in that of temporary files, of the large arrays of joblib's tasks begins so.
TASK_ARRAYS = "ddl-arrays-"
# So does that in which JAX's profiler writes.
JAX_PROFILE = "jupyter_ddl-jax-"

# The name of an event of a JAX_TRACE begins so; the rest is when it happened, in nanoseconds since the epoch.
JAX_EPOCH = "jupyter_ddl epoch "

# A rank in a file's name, as ranks write it.
_RANK = "0|[1-9][0-9]{0,8}"


def rank_file(rank: int | str, kind: str) -> str:
    """Return the name of a rank's file.

    Args:
        rank: its number; or what stands for it, in a shell's script or a glob.
        kind: one of the constants above.

    Example:
        >>> rank_file(3, EVENTS)
        'rank-3.events.jsonl'
    """
    return f"rank-{rank}.{kind}"


def rank_file_pattern(*kinds: str) -> re.Pattern[str]:
    """Return a pattern of the names of all ranks' files of some kinds, whose first group is the rank.

    Example:
        >>> rank_file_pattern(LOG, EVENTS).fullmatch("rank-12.log")[1]
        '12'
    """
    return re.compile(rf"rank-({_RANK})\.(?:{'|'.join(map(re.escape, kinds))})")
