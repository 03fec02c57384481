"""Cores are one world's at a time, by claims that all processes of a host see."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.host import core_claims
from jupyter_ddl.host.core_claims import claim

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Far beyond the cores of this machine, whose ranks have claims of their own.
FIRST = 70_000
HOLD = (
    "import sys; from jupyter_ddl.host.core_claims import claim; print(claim(eval(sys.argv[1])), flush=True); input()"
)


@contextmanager
def holder(cores: set[int]) -> Iterator[bool]:
    """Let another process claim cores, and end it afterwards; yield whether it got them."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, repr(cores)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline() == "True\n"
        process.kill()


def test_cores_are_one_process_es_until_it_ends() -> None:
    cores = set(range(FIRST, FIRST + 8))
    with holder(cores) as has_them:
        assert has_them
        assert not claim({FIRST + 7, FIRST + 8})
        with holder({FIRST + 3}) as too:
            assert not too, "though the claim that failed is gone, the first one stands"
        with holder({FIRST + 8, FIRST + 9}) as others:
            assert others, "what failed holds nothing"
    with holder(cores) as again:
        assert again, "killed, it leaves nothing behind"


def test_ranges_and_single_cores_are_kept_apart() -> None:
    with holder({FIRST + 20, FIRST + 22, FIRST + 23, FIRST + 24}) as has_them:
        assert has_them
        for core, is_free in ((21, True), (25, True), (20, False), (23, False)):
            with holder({FIRST + core}) as free:
                assert free == is_free, core


def test_very_many_ranges_are_claimed_as_one() -> None:
    with holder(set(range(FIRST + 100, FIRST + 300, 2))) as has_them:
        assert has_them
        with holder({FIRST + 151}) as between:
            assert not between


def test_nothing_can_connect_to_a_claim() -> None:
    with holder({FIRST + 400}):
        (name,) = (name for name, cores in core_claims._claims() if cores == {FIRST + 400})
        with socket.socket(socket.AF_UNIX) as other, pytest.raises(ConnectionRefusedError):
            other.connect(f"\0{name}")


@pytest.mark.parametrize(
    "name",
    ["jupyter_ddl-cores/", "jupyter_ddl-cores/0-99999999/0", "jupyter_ddl-cores/x/0123456789abcdef", "\n@ \udcff"],
)
def test_what_is_no_claim_of_ours_holds_nothing(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as odd:
        odd.bind(b"\0" + name.encode(errors="surrogateescape"))
        with holder({FIRST + 410}) as has_them:
            assert has_them


def test_a_host_without_such_sockets_is_as_if_it_were_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(core_claims, "_SOCKETS", tmp_path / "missing")
    assert claim({FIRST + 420})
    assert claim({FIRST + 420})
