"""Makes the sentences on the time that a batch job has left."""

from __future__ import annotations

from jupyter_ddl.protocol.number_texts import time_left


def warning_text(title: str, left_s: float, checkpoint: str | None) -> str:
    """Return the warning that a job's wall time is nearly over, as one line.

    Args:
        title: of the job, e.g. "Slurm job 12".
        left_s: until then.
        checkpoint: the folder of the running cell's checkpoints; None without any.
    """
    text = f"{title} has {time_left(left_s)} left: then its scheduler ends the ranks"
    if checkpoint is None:
        return f"{text}, and what they hold is lost"
    return f"{text}. --checkpoint saves at the end of this epoch to {checkpoint}; the same cell resumes from there"
