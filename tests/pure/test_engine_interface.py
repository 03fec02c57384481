"""The engine asks its libraries of collectives by the interface: no module outside what implements it names one."""

from __future__ import annotations

import re
import tokenize
from pathlib import Path

import pytest

from jupyter_ddl import engine

ENGINE = Path(engine.__file__).parent
NAMES = {"horovod", "torch", "jax", "tensorflow"}
IMPLEMENTATIONS = {"collectives", "timelines"}
# Module -> why it may name a framework.
MAY_NAME = {
    "devices": "what makes one device a rank's own differs between frameworks, as the variables for threads do",
    "gpu_share": "what keeps a rank to its share of a GPU's memory is a setting of each framework's own",
    "preload": "it imports the framework that was chosen",
    "rank_state": "it makes what a rank has: Horovod's library is the one that rests",
}
# As the protocol calls requests, and fields of events, of the one library whose starts the kernel schedules.
OF_THE_PROTOCOL = {
    *("HorovodAsked", "PrepareHorovod", "RestHorovod"),
    *("horovod", "horovod_rests", "horovod_runs", "uses_horovod"),
}
MODULES = {file.relative_to(ENGINE).with_suffix("").parts: file for file in sorted(ENGINE.rglob("*.py"))}
ASKING = {".".join(parts): file for parts, file in MODULES.items() if parts[0] not in IMPLEMENTATIONS}


def names_in(file: Path) -> set[str]:
    """Return the names in a module's code, strings and comments aside, of which one word is a framework's."""
    with file.open("rb") as source:
        names = {token.string for token in tokenize.tokenize(source.readline) if token.type == tokenize.NAME}
    return {name for name in names if NAMES & {word.lower() for word in re.findall("[A-Z]?[a-z]+", name)}}


@pytest.mark.parametrize("module", sorted(set(ASKING) - set(MAY_NAME)))
def test_a_module_that_asks_names_no_framework(module: str) -> None:
    assert names_in(ASKING[module]) <= OF_THE_PROTOCOL


def test_each_exception_is_one() -> None:
    assert all(names_in(ASKING[module]) - OF_THE_PROTOCOL for module in MAY_NAME)
    found = set[str]().union(*(names_in(file) for name, file in ASKING.items() if name not in MAY_NAME))
    assert found == OF_THE_PROTOCOL
