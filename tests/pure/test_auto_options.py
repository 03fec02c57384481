"""What --auto may be told."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

import pytest

from jupyter_ddl.commands.arguments import add_script_arguments, cell_options
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.cell_options import AutoOptions, CellOptions
from jupyter_ddl.protocol.codec import decode, encode
from jupyter_ddl.protocol.requests import RunCell


def parsed(*words: str) -> Namespace:
    parser = ArgumentParser()
    add_script_arguments(parser)
    return parser.parse_args(words)


def test_without_auto_there_are_no_options() -> None:
    assert cell_options(parsed()).auto is None


def test_options_are_as_given() -> None:
    words = ("--auto", "--batch", "per-rank", "--scale-lr", "linear", "--warmup-epochs", "1.5")
    assert cell_options(parsed(*words)).auto == AutoOptions("per-rank", "linear", 1.5)
    assert cell_options(parsed("--auto")).auto == AutoOptions("per-rank", None, None)


def test_options_cross_the_border_of_a_process() -> None:
    for auto in (None, AutoOptions("global"), AutoOptions(scale_lr="sqrt", warmup_epochs=0)):
        cell = RunCell("run-1", "pass", (0, 1), True, None, CellOptions(auto=auto))
        assert decode(encode(cell), RunCell) == cell


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--auto", "--batch", "rank"],
            "--batch must be per-rank or global. Received: rank. Leave it out for per-rank.",
        ),
        (
            ["--auto", "--scale-lr", "cubic"],
            "--scale-lr must be linear, sqrt or none. Received: cubic. Leave it out for what fits the optimizer.",
        ),
        (
            ["--auto", "--warmup-epochs", "-1"],
            "--warmup-epochs must be at least 0. Received: -1. Pass 0 for no warm-up.",
        ),
        (
            ["--auto", "--warmup-epochs", "nan"],
            "--warmup-epochs must be at least 0. Received: nan. Pass 0 for no warm-up.",
        ),
        (
            ["--auto", "--warmup-epochs", "inf"],
            "--warmup-epochs must end. Received: inf. Pass e.g. 5, or 0 for no warm-up.",
        ),
        (
            ["--auto", "--batch", "global", "--scale-lr", "linear"],
            (
                "The learning rate grows with the batch, and with --batch global that is the code's own. "
                "Received: --batch "
                "global --scale-lr linear. Drop one of the two."
            ),
        ),
        (
            ["--batch", "global", "--explain"],
            "--batch belongs to --auto. Received: --batch --explain. Add --auto, or drop it.",
        ),
        (["--explain"], "--explain belongs to --auto. Received: --explain. Add --auto, or drop it."),
        (
            ["--auto", "--independent"],
            (
                "--auto trains one model on all ranks. Received: --auto --independent. Drop --auto for a model "
                "of its own "
                "on each rank."
            ),
        ),
    ],
)
def test_what_is_wrong_is_told(words: list[str], told: str) -> None:
    with pytest.raises(InvalidInput) as error:
        cell_options(parsed(*words))
    assert str(error.value) == told
