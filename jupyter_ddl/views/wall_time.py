"""Makes the sentences on the time that a batch job has left."""

from __future__ import annotations

_MINUTE_S, _HOUR_S = 60, 3600


def left_text(left_s: float) -> str:
    """Return a job's time left in short: "43 min", "2 h 5 min"."""
    if left_s < _MINUTE_S:
        return f"{max(0, round(left_s))} s"
    hours, seconds = divmod(int(left_s), _HOUR_S)
    minutes = seconds // _MINUTE_S
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def warning_text(title: str, left_s: float, checkpoint: str | None) -> str:
    """Return the warning that a job's wall time is nearly over, as one line.

    Args:
        title: of the job, e.g. "Slurm job 12".
        left_s: until then.
        checkpoint: the folder of the running cell's checkpoints; None without any.
    """
    text = f"{title} has {left_text(left_s)} left: then its scheduler ends the ranks"
    if checkpoint is None:
        return f"{text}, and what they hold is lost"
    return f"{text}. --checkpoint saves at the end of this epoch to {checkpoint}; the same cell resumes from there"
