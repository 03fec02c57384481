"""`--memory`: its words, and what is told of those that are none."""

from __future__ import annotations

from argparse import ArgumentParser

import pytest

from jupyter_ddl.commands.arguments import add_cell_arguments, add_script_arguments, cell_options
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.cell_options import CellOptions
from jupyter_ddl.protocol.memory_options import USAGE, MemoryOptions, parsed


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("accumulate=4", MemoryOptions(4)),
        ("remat", MemoryOptions(remat=True)),
        ("mixed", MemoryOptions(mixed=True)),
        ("mixed, accumulate=2", MemoryOptions(2, mixed=True)),
        ("host,remat", MemoryOptions(remat=True, host=True)),
        ("shard-all", MemoryOptions(shard_all=True)),
        ("shard-all,remat,mixed", MemoryOptions(remat=True, mixed=True, shard_all=True)),
    ],
)
def test_words_of_memory_can_be_combined(words: str, options: MemoryOptions) -> None:
    assert parsed(words) == options
    assert parsed(str(options)) == options


@pytest.mark.parametrize(
    "words",
    [
        "",
        "fast",
        "accumulate",
        "accumulate=1",
        "accumulate=0",
        "accumulate=-2",
        "accumulate=x",
        "remat=2",
        "remat,remat",
    ],
)
def test_a_word_of_memory_that_is_none_is_told(words: str) -> None:
    with pytest.raises(InvalidInput) as error:
        parsed(words)
    assert str(error.value) == (
        f"--memory takes words of {USAGE}, each once, with N from 2. Received: --memory {words}. "
        "Write e.g. --memory accumulate=4,remat."
    )


def test_the_plan_says_what_memory_does() -> None:
    assert parsed("accumulate=4,remat").plan() == (
        "each batch in 4 parts, one update; activations of large layers are computed again in the backward pass"
    )


def test_the_plan_of_a_loop_says_what_is_other_there() -> None:
    assert parsed("mixed").plan(of_loop=True) == "computes in bfloat16"
    assert "and the optimizer's state" in parsed("host").plan(of_loop=True)


def test_memory_takes_its_record_and_no_text() -> None:
    with pytest.raises(InvalidInput, match=r"Received: 'remat'\. Pass memory_options\.MemoryOptions\(accumulate=4\)"):
        CellOptions(memory="remat")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"A batch has at least one part\. Received: accumulate=0\."):
        MemoryOptions(0)
    for word in ("accumulate=2", "host", "shard-optimizer"):
        with pytest.raises(
            InvalidInput,
            match=r"shard-all goes with remat and mixed, and with no other word.* Write --memory shard-all, or",
        ):
            parsed(f"shard-all,{word}")
    with pytest.raises(InvalidInput, match=r"Received: --memory shard-all without --auto\. Add --auto"):
        CellOptions(memory=MemoryOptions(shard_all=True))


@pytest.mark.parametrize("add", [add_cell_arguments, add_script_arguments])
def test_explain_has_no_code_for_memory(add: object) -> None:
    parser = ArgumentParser()
    add(parser)  # type: ignore[operator]
    with pytest.raises(InvalidInput, match="--memory has no code of its own"):
        cell_options(parser.parse_args(["--auto", "--explain", "--memory", "remat"]))
