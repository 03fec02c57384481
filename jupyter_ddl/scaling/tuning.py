"""Tries what can change a program's exchange, a few steps each and in turns, and says what it gains.

Runs on: a terminal; for `%%distributed --tune` a process beside the kernel.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.gpu_links import gpus_and_links
from jupyter_ddl.protocol.aligned_rows import aligned
from jupyter_ddl.scaling.sides import started

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROGRAM = Path(__file__).parents[1] / "scaling_program" / "tuned.py"
# A gain below is what turns differ by on a quiet machine.
WORTH = 0.03
AS_IT_IS = "as it is"
_LEAST_STEPS = 3
_MIB = 2**20
_ASKS_FOR_NCCL = """
import horovod.tensorflow
print(bool(horovod.tensorflow.nccl_built()))
"""


@dataclass(frozen=True)
class Trial:
    """One setting.

    Attributes:
        kind: of which one setting is taken at most, as "fusion".
        name: as the table says it.
        variables: for the ranks.
        threads: of a rank; None leaves them.
        groups: of gradients that travel together; None leaves them.
        compression: "fp16", or None.
        changes: how results differ; "" where they are the same bits, or those of another order of the sum.
    """

    kind: str
    name: str
    variables: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None
    groups: int | None = None
    compression: str | None = None
    changes: str = ""


@dataclass(frozen=True)
class Tuned:
    """What a trial took.

    Attributes:
        trial: the setting.
        step_s: the median step of each round.
        gains: of each round, what it gains over the program as it is: 0.1 for a tenth more steps in a second.
    """

    trial: Trial
    step_s: tuple[float, ...]
    gains: tuple[float, ...]

    @property
    def gain(self) -> float:
        """The median of the rounds' gains."""
        return statistics.median(self.gains)

    @property
    def is_worth_it(self) -> bool:
        """Whether it gains in every round, and more than turns differ by."""
        return self.gain >= WORTH and min(self.gains) > 0


@dataclass(frozen=True)
class Job:
    """What is tuned.

    Attributes:
        script: and its arguments.
        ranks: or None for the default of `jupyter ddl run`.
        run_options: more options of it.
        warm_up: steps that are not timed.
        steps: those that are.
        is_cell: the script is a notebook's cell, which has `rank`, `local_rank` and `world_size`.
    """

    script: tuple[str, ...]
    ranks: int | None
    run_options: tuple[str, ...]
    warm_up: int
    steps: int
    is_cell: bool = False

    def command(self, trial: Trial, out: Path) -> list[str]:
        """Return the command that runs a trial."""
        ranks = () if self.ranks is None else ("-n", str(self.ranks))
        threads = () if trial.threads is None else ("--threads", str(trial.threads))
        settings = [word for item in trial.variables.items() for word in ("--env", "=".join(item))]
        program = [str(PROGRAM), str(out), str(self.warm_up), str(self.steps), str(trial.groups or "-")]
        start = [sys.executable, "-m", "jupyter_ddl.cli", "run", *ranks, *threads, *settings, *self.run_options, "--"]
        return [*start, *program, trial.compression or "-", "cell" if self.is_cell else "script", *self.script]

    def step_s(self, trial: Trial) -> float:
        """Run a trial; return the median of its steps.

        Raises:
            DdlError: the program failed.
            InvalidInput: it trained for too few steps, or its steps are not seen.
        """
        with tempfile.TemporaryDirectory(prefix="jupyter-ddl-tune-") as folder:
            out = Path(folder, "steps.json")
            found = started(self.command(trial, out), {"TF_CPP_MIN_LOG_LEVEL": "2"}, out, trial.name)
        if len(found) < _LEAST_STEPS:
            raise InvalidInput(
                "What is tuned trains for some steps of Keras's fit, or reports them with jupyter_ddl.report.",
                f"{len(found)} steps after the first {self.warm_up}",
                "Let it train longer, or pass a smaller --warm-up.",
            )
        return float(statistics.median(found))


def trials(cores: int, ranks: int, *, nccl: bool, hosts: bool) -> list[Trial]:
    """Return what is worth trying.

    Args:
        cores: of this host.
        ranks: of the job.
        nccl: gradients go through NCCL, and not through MPI.
        hosts: ranks are on several hosts.
    """
    found = [
        *(Trial("fusion", f"fusion {n} MiB", {"HOROVOD_FUSION_THRESHOLD": str(n * _MIB)}) for n in (0, 2, 8, 32, 128)),
        *(Trial("cycle", f"cycle {ms} ms", {"HOROVOD_CYCLE_TIME": ms}) for ms in ("0.1", "0.5", "5")),
        *(Trial("groups", f"{n} groups", groups=n) for n in (1, 4)),
        Trial("compression", "fp16", compression="fp16", changes="gradients travel as float16"),
    ]
    if nccl:
        found += [Trial("algorithm", f"NCCL {name}", {"NCCL_ALGO": name}) for name in ("Ring", "Tree")]
        if hosts:
            found.append(Trial("algorithm", "hierarchical", {"HOROVOD_HIERARCHICAL_ALLREDUCE": "1"}))
    elif ranks > 2:
        found += [
            Trial("algorithm", f"MPI {name}", _open_mpi(number))
            for name, number in (("recursive doubling", 3), ("ring", 4), ("Rabenseifner", 6))
        ]
        if hosts:
            found.append(Trial("algorithm", "MPI hierarchical", {"OMPI_MCA_coll_han_priority": "100"}))
    per_rank = {max(1, cores // ranks), max(1, cores // ranks // 2), 2 * max(1, cores // ranks)}
    return found + [Trial("threads", f"{n} threads a rank", threads=n) for n in sorted(per_rank)]


def _open_mpi(algorithm: int) -> dict[str, str]:
    # Source: Open MPI 5.0, ompi/mca/coll/tuned/coll_tuned_allreduce_decision.c.
    return {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_allreduce_algorithm": str(algorithm),
    }


def tune(job: Job, tried: Sequence[Trial], rounds: int) -> list[Tuned]:
    """Run the program as it is and each trial once a round, each round in another order; return what they took."""
    every = [Trial(AS_IT_IS, AS_IT_IS), *tried]
    found: dict[str, list[float]] = {trial.name: [] for trial in every}
    for i in range(rounds):
        first = i * len(every) // rounds
        for trial in [*every[first:], *every[:first]]:
            found[trial.name].append(job.step_s(trial))
            said = f"round {i + 1} of {rounds}: {trial.name}, {1e3 * found[trial.name][-1]:.2f} ms a step"
            print(said, file=sys.stderr, flush=True)
    base = found[AS_IT_IS]
    return [
        Tuned(
            trial,
            tuple(found[trial.name]),
            tuple(own / other - 1 for own, other in zip(base, found[trial.name], strict=True)),
        )
        for trial in every
    ]


def combined(found: Sequence[Tuned]) -> Trial | None:
    """Return the best setting of each kind that is worth it and changes no results, together; None where none is."""
    best: dict[str, Tuned] = {}
    for tuned in sorted(found, key=lambda tuned: tuned.gain):
        if tuned.is_worth_it and not tuned.trial.changes:
            best[tuned.trial.kind] = tuned
    chosen = [tuned.trial for tuned in best.values()]
    if not chosen:
        return None
    return Trial(
        "all",
        " + ".join(trial.name for trial in chosen),
        {name: value for trial in chosen for name, value in trial.variables.items()},
        next((trial.threads for trial in chosen if trial.threads is not None), None),
        next((trial.groups for trial in chosen if trial.groups is not None), None),
    )


def best(found: Sequence[Tuned]) -> Trial | None:
    """Return the one setting that gains most, is worth it and changes no results; None where none is."""
    worth = [tuned for tuned in found if tuned.is_worth_it and not tuned.trial.changes]
    return max(worth, key=lambda tuned: tuned.gain).trial if worth else None


def uses_nccl() -> bool:
    """Return whether gradients go through NCCL: this host's ranks have GPUs, and Horovod was built for it."""
    if not gpus_and_links()[0]:
        return False
    asked = subprocess.run([sys.executable, "-c", _ASKS_FOR_NCCL], capture_output=True, text=True, check=False)
    return asked.stdout.strip() == "True"


def table(found: Sequence[Tuned]) -> str:
    """Return the trials with their gains, the best first."""
    rows = [
        (
            tuned.trial.name,
            f"{1e3 * statistics.median(tuned.step_s):.2f} ms",
            "" if tuned.trial.name == AS_IT_IS else f"{tuned.gain:+.0%}",
            "" if tuned.trial.name == AS_IT_IS else f"{min(tuned.gains):+.0%} to {max(tuned.gains):+.0%}",
            tuned.trial.changes,
        )
        for tuned in sorted(found, key=lambda tuned: (tuned.trial.name != AS_IT_IS, -tuned.gain))
    ]
    return "\n".join(aligned([("setting", "step", "gain", "of the rounds", "changes results"), *rows], right=(1, 2)))


def line(trial: Trial | None, job: Job) -> str:
    """Return what to write to have a setting."""
    if trial is None:
        return f"Nothing gains {WORTH:.0%} in every round: leave it as it is."
    groups = f"hvd.DistributedOptimizer(..., groups={trial.groups})"
    threads = [] if trial.threads is None else ["--threads", str(trial.threads)]
    settings = [*threads, *(word for item in trial.variables.items() for word in ("--env", "=".join(item)))]
    if not settings:
        return f"Set in the program: {groups}"
    ranks = [] if job.ranks is None else ["-n", str(job.ranks)]
    written = " ".join(["jupyter ddl run", *ranks, *settings, *job.run_options, *job.script])
    lines = [f"Set: {written}", f"or in a notebook: {' '.join(['%ddl start', *ranks, *settings])}"]
    return "\n".join([*lines, *([f"and in the program: {groups}"] if trial.groups else [])])
