"""Explains `--auto`: returns its plan, and the same program in explicit Horovod (`--explain`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import MetadataWrapper

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.explain import models, plan, steps, written
from jupyter_ddl.explain.header import with_header
from jupyter_ddl.explain.reading import Reading
from jupyter_ddl.explain.settings import Settings
from jupyter_ddl.explain.writing import Writing
from jupyter_ddl.modernise.magic_lines import MagicLines
from jupyter_ddl.protocol.cell_options import PER_RANK, AutoOptions

_AUTO_OPTIONS = re.compile(r"[ \t]+--(?:auto|explain|(?:batch|scale-lr|warmup-epochs)[ =]\S+)(?!\S)")


@dataclass(frozen=True)
class Explanation:
    """What `--auto` does to a program.

    Attributes:
        plan: a few lines, as `--auto` prints them first; what only running shows is marked.
        program: the same program in explicit Horovod, for a `%%distributed` cell or `jupyter ddl run`.
    """

    plan: list[str]
    program: str


def explain(
    code: str,
    *,
    world_size: int,
    batch: str = PER_RANK,
    scale_lr: str | None = None,
    warmup_epochs: float | None = None,
) -> Explanation:
    """Return what `--auto` does to a program, without running it.

    Args:
        code: a cell, or a script: Keras for one process.
        world_size: ranks, for the plan. The program asks Horovod for them.
        batch: whose the batch size in the code is, "per-rank" or "global".
        scale_lr: how the learning rate grows with the batch; None for what fits the optimizer.
        warmup_epochs: over how many epochs; None for 3, or a quarter of the epochs where that is less.

    Raises:
        InvalidInput: the code is not Python, does what cannot be written out, or does not say what must be known.
    """
    options = AutoOptions(batch, scale_lr, warmup_epochs)
    magics = MagicLines()
    hidden = magics.hide(code)
    if hidden is None:
        raise InvalidInput(
            "--explain reads Python.", code.strip().partition("\n")[0], "Leave this magic out, or --explain."
        )
    wrapper = MetadataWrapper(_parsed(hidden))
    reading = Reading(wrapper)
    models.check(reading)
    steps.check(reading, options)
    settings = Settings(reading, options, world_size)
    writing = Writing(settings)
    module = wrapper.module.visit(writing)
    written.check(module, compiles=len(reading.compiles), fits=len(reading.fits))
    program = magics.show(with_header(module, writing.snippets, sets_seed=reading.sets_seed))
    if program.startswith("%%distributed"):
        first, newline, rest = program.partition("\n")
        program = _AUTO_OPTIONS.sub("", first) + newline + rest
    return Explanation(plan.lines(settings), program)


def render(explanation: Explanation) -> str:
    """Return an explanation as text: the plan, an empty line, the program."""
    return "\n".join([*explanation.plan, "", explanation.program.rstrip("\n")])


def _parsed(code: str) -> cst.Module:
    try:
        return cst.parse_module(code)
    except cst.ParserSyntaxError as error:
        raise InvalidInput(
            "A program must be valid Python 3 to be explained.",
            f"line {error.raw_line}: {error.message}",
            "Correct that line first.",
        ) from error
