"""Defines the options of a cell or a script: one record, the same from the magic or the command line to the rank.

Making the record checks what does not depend on the ranks; `checked` checks the rest.
`jupyter_ddl.commands.arguments` has the command line's side; CONTRIBUTING.md says how to add an option.

Runs on: kernel, terminal and every rank.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.codec import Int64, json_value
from jupyter_ddl.protocol.memory_options import MemoryOptions
from jupyter_ddl.protocol.rank_sets import compact

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    _Function = TypeVar("_Function", bound=Callable[..., Any])

if TYPE_CHECKING:
    Folder = str | os.PathLike[str]
else:
    # Its type on the way to a rank, which the codec reads here: `checked` has made it a whole path.
    Folder = str

PER_RANK, GLOBAL = "per-rank", "global"
BATCHES = (PER_RANK, GLOBAL)
LINEAR, SQRT, NONE = "linear", "sqrt", "none"
SCALINGS = (LINEAR, SQRT, NONE)
STOP, WARN = "stop", "warn"
ON_DRIFT = (STOP, WARN)
STALL_AFTER_S = 10.0
# Horovod counts whole seconds, and a tensor that it has seen before takes it four of its intervals.
_LEAST_STALL_S = 5.0
# 31 years. Python's clocks end at 292, and who writes more means never.
_LONGEST_S = 1e9
# How often Horovod looks for stalls.
STALL_CHECK = "HOROVOD_STALL_CHECK_TIME_SECONDS"
# What run.json leaves out: neither changes what the cell does.
_UNRECORDED = ("sample_every_s", "count")


def stall_check(after_s: float | None) -> dict[str, str]:
    """Return the variable by which Horovod finds a stall in time; none where stalls are not reported."""
    # A tensor in Horovod's cache is found after four intervals; a stall is reported when it is seen twice.
    return {} if after_s is None else {STALL_CHECK: str(max(1, int(after_s / 10)))}


def _check_longest(option: str, time_s: float | None, remedy: str) -> None:
    """Raise where a time is longer than threads and Horovod can wait, infinity included."""
    if time_s is not None and time_s > _LONGEST_S:
        raise InvalidInput(f"{option} takes at most {_LONGEST_S:,.0f} seconds.", f"{option} {time_s:g}", remedy)


def check_on_drift(on_drift: str) -> None:
    """Raise unless this is an action that `fit` can take on drift.

    Raises:
        InvalidInput: it is none of the choices.
    """
    if on_drift not in ON_DRIFT:
        raise InvalidInput("On drift fit can stop or warn.", on_drift, "Pass stop, which is the default, or warn.")


@dataclass(frozen=True)
class AutoOptions:
    """How `--auto` distributes a program that was written for one process.

    Attributes:
        batch: which batch size the code has: "per-rank", each rank's; or "global", that of all ranks together.
        scale_lr: how the learning rate grows with the batch: "linear", "sqrt" or "none". None leaves it to the
            optimizer: linear for SGD, sqrt for adaptive ones; none where the batch is global, and so no larger.
        warmup_epochs: over how many epochs it grows; None for 3, or a quarter of the epochs where that is less.

    Raises:
        InvalidInput: a value is none of these.
    """

    batch: str = PER_RANK
    scale_lr: str | None = None
    warmup_epochs: float | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        if self.batch not in BATCHES:
            raise InvalidInput("--batch must be per-rank or global.", self.batch, "Leave it out for per-rank.")
        if self.scale_lr not in (None, *SCALINGS):
            raise InvalidInput(
                "--scale-lr must be linear, sqrt or none.", self.scale_lr, "Leave it out for what fits the optimizer."
            )
        if self.warmup_epochs == math.inf:
            raise InvalidInput("--warmup-epochs must end.", "inf", "Pass e.g. 5, or 0 for no warm-up.")
        if self.warmup_epochs is not None and not self.warmup_epochs >= 0:
            raise InvalidInput(
                "--warmup-epochs must be at least 0.", f"{self.warmup_epochs:g}", "Pass 0 for no warm-up."
            )
        if self.batch == GLOBAL and self.scale_lr in (LINEAR, SQRT):
            raise InvalidInput(
                "The learning rate grows with the batch, and with --batch global that is the code's own.",
                f"--batch global --scale-lr {self.scale_lr}",
                "Drop one of the two.",
            )


@dataclass(frozen=True)
class StallOptions:
    """When a stall is reported, and what is done then: some ranks wait in a collective that others do not enter.

    Attributes:
        after_s: a stall is reported between half of this time and all of it after progress stopped; None for never.
        action: "report" where the ranks are; or "abort": also release them, and raise RunStalled.

    Raises:
        InvalidInput: `after_s` is too short, or `action` needs it.
    """

    after_s: float | None = STALL_AFTER_S
    action: Literal["report", "abort"] = "report"

    def __post_init__(self) -> None:
        """Check the values."""
        if self.after_s is not None and not self.after_s >= _LEAST_STALL_S:
            raise InvalidInput(
                f"A stall is reported after at least {_LEAST_STALL_S:g} seconds.",
                f"{self.after_s:g}",
                "Pass more, or 0 for never.",
            )
        _check_longest("--stall-after", self.after_s, "Pass less, or 0 for never.")
        if self.after_s is None and self.action == "abort":
            raise InvalidInput(
                "What is done when a cell stalls needs a time.",
                "--on-stall abort, --stall-after 0",
                "Drop one of them.",
            )


@dataclass(frozen=True, kw_only=True)
class CellOptions:
    """The options of one cell, or of a script.

    Attributes:
        timeout_s: the kernel releases the ranks after this time; None for never.
        independent: each rank trains a model of its own, so no rank warns of it.
        auto: how a program that was written for one process is distributed; None for one that distributes itself.
        sample_every_s: how often each rank sends a MetricsSample; None for never.
        stalls: when a stall is reported, and what is done then.
        checkpoint: the folder that `fit` saves to after each epoch, and resumes from (docs/checkpoints.md).
        on_drift: what `fit` does where the ranks' weights differ: "stop" or "warn".
        memory: how Keras models are trained in less memory (docs/memory.md); None for as they are.
        timeline: record Horovod's timeline into the run's folder (docs/timeline.md).
        above: lines of the notebook's cell above the code, which tracebacks count.
        count: the number of the notebook's prompt, by which tracebacks name the cell; None for the rank's own.

    Raises:
        InvalidInput: a value is wrong, or two exclude each other.
    """

    timeout_s: float | None = None
    independent: bool = False
    auto: AutoOptions | None = None
    sample_every_s: float | None = 1.0
    stalls: StallOptions = StallOptions()
    checkpoint: Folder | None = None
    on_drift: str = STOP
    memory: MemoryOptions | None = None
    timeline: bool = False
    # Where the code stands. Cells with the same options are equal wherever they stand.
    above: Int64 = field(default=0, compare=False)
    count: Int64 | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Check what does not depend on the ranks."""
        if not isinstance(self.auto, AutoOptions | None):
            # Python's own caller: a rank could not read the request, and would not answer.
            raise InvalidInput(
                "auto says how a program is distributed.", repr(self.auto), "Pass cell_options.AutoOptions(), or None."
            )
        if self.auto is not None and self.independent:
            raise InvalidInput(
                "--auto trains one model on all ranks.",
                "--auto --independent",
                "Drop --auto for a model of its own on each rank.",
            )
        if self.sample_every_s is not None and not self.sample_every_s >= 0:
            raise InvalidInput(
                "The interval between samples must not be negative.",
                f"--sample-every {self.sample_every_s:g}",
                "Pass a number above 0, or 0 for none.",
            )
        _check_longest("--sample-every", self.sample_every_s, "Pass less, or 0 for none.")
        _check_longest("--timeout", self.timeout_s, "Leave it out for none.")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise InvalidInput(
                "A timeout must be more than 0 seconds.", f"--timeout {self.timeout_s:g}", "Leave it out for none."
            )
        check_on_drift(self.on_drift)
        if not isinstance(self.memory, MemoryOptions | None):
            raise InvalidInput(
                "memory says how a training needs less of it.",
                repr(self.memory),
                "Pass memory_options.MemoryOptions(accumulate=4), or None.",
            )
        if self.memory is not None and self.memory.shard_optimizer and self.independent:
            raise InvalidInput(
                "--memory shard-optimizer divides the state of one model that all ranks train.",
                "--memory shard-optimizer --independent",
                "Drop one of the two.",
            )
        if self.memory is not None and self.memory.shard_all and self.auto is None:
            raise InvalidInput(
                "--memory shard-all shards models that --auto distributes.",
                "--memory shard-all without --auto",
                "Add --auto; a program that distributes itself calls fully_shard (docs/memory.md).",
            )
        if self.checkpoint is not None and not str(self.checkpoint):
            # Else it would be the working folder; a shell's unset variable says it so.
            raise InvalidInput("--checkpoint takes a folder.", "''", "Name one: --checkpoint runs/mnist")
        if self.checkpoint is not None and self.independent:
            raise InvalidInput(
                "--checkpoint saves the one model that all ranks train.",
                "--checkpoint --independent",
                "Drop one of the two; keras.callbacks.ModelCheckpoint saves a rank's own.",
            )

    def checked(self, ranks: Sequence[int], world_size: int) -> CellOptions:
        """Return these options for a cell on some ranks, with the checkpoints' folder as a whole path.

        Args:
            ranks: that run the cell.
            world_size: of all ranks.

        Raises:
            InvalidInput: the options need all ranks; or the checkpoints' folder has no whole path.
        """
        if self.auto is not None and len(ranks) < world_size:
            raise InvalidInput(
                "--auto distributes over all ranks.",
                f"ranks {compact(ranks)} of {world_size}",
                "Drop -r, or start a cluster of that many ranks.",
            )
        if self.checkpoint is None:
            return self
        if len(ranks) < world_size:
            raise InvalidInput(
                "--checkpoint saves the one model that all ranks train.",
                f"ranks {compact(ranks)} of {world_size}",
                "Drop -r, or --checkpoint.",
            )
        return replace(self, checkpoint=_whole_path(self.checkpoint))

    def record(self) -> dict[str, Any]:
        """Return the options that run.json keeps."""
        return {name: value for name, value in json_value(self).items() if name not in _UNRECORDED}


# In a process that is no rank of ours, neither stalls nor samples are reported.
PLAIN_OPTIONS = CellOptions(stalls=StallOptions(None), sample_every_s=None)


class Options(TypedDict, total=False):
    """The keywords of `Session.run`: the fields of `CellOptions` that a caller sets.

    For type checkers, which cannot derive them from the dataclass; a test compares the two.
    """

    timeout_s: float | None
    independent: bool
    auto: AutoOptions | None
    sample_every_s: float | None
    stalls: StallOptions
    checkpoint: Folder | None
    on_drift: str
    memory: MemoryOptions | None
    timeline: bool


def takes_options(function: _Function) -> _Function:
    """Write the options into the signature of a function that takes them as `**options`.

    So help() and completion name them.
    """
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
        for one in fields(CellOptions)
        if one.name in Options.__annotations__
    ]
    vars(function)["__signature__"] = signature.replace(parameters=[*own, *options])
    return function


def _whole_path(folder: str | os.PathLike[str]) -> str:
    """Return a folder's whole path, as the ranks get it.

    Args:
        folder: as the user wrote it; from the current folder, or from the home folder with "~".
    """
    try:
        return str(Path(folder).expanduser().absolute())
    except (OSError, RuntimeError) as error:
        # From os.getcwd; and from expanduser for an unknown user.
        raise InvalidInput(
            "--checkpoint takes a folder from the working folder, or a whole path.",
            f"{folder} ({error.strerror if isinstance(error, OSError) else error})",
            "Pass a whole path, or go to a folder that is there with `%cd`.",
        ) from error
