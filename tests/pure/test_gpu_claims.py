"""GPUs are given to ranks once, by claims that all processes of a host see and that end with who made them."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.host import gpu_claims
from jupyter_ddl.host.gpu_claims import Claim, claims, count_of, has_whole, users_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLD = """
import sys
from jupyter_ddl.host.gpu_claims import claim
print(claim(sys.argv[1], eval(sys.argv[2])), flush=True)
input()
"""
# Each takes the first place that is free.
RACE = """
import sys
from jupyter_ddl.host.gpu_claims import claim
input()
print(next((place for place in range(4) if claim(sys.argv[1], place)), None), flush=True)
input()
"""


@pytest.fixture
def gpu() -> str:
    return f"GPU-{secrets.token_hex(4)}-0000-0000-0000-000000000000"


def begun(program: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextmanager
def holder(gpu: str, place: int | None) -> Iterator[bool]:
    """Let another process claim a place, and kill it afterwards; yield whether it got it."""
    with begun(HOLD, gpu, repr(place)) as process:
        assert process.stdout is not None
        yield process.stdout.readline() == "True\n"
        process.kill()


def test_a_place_is_one_process_es_until_it_is_killed(gpu: str) -> None:
    with holder(gpu, 1) as first, holder(gpu, 1) as same, holder(gpu, 0) as other:
        assert (first, same, other) == (True, False, True)
        found = claims([gpu])
        assert found == {Claim(gpu, 0, os.getuid()), Claim(gpu, 1, os.getuid())}
        assert (count_of(gpu, found), has_whole(gpu, found), users_of(found)) == (2, False, getpass.getuser())
    assert claims([gpu]) == set()
    with holder(gpu, 1) as again:
        assert again


def test_a_whole_gpu_has_no_places_beside_it(gpu: str) -> None:
    with holder(gpu, None) as whole, holder(gpu, None) as same, holder(gpu, 0) as place:
        assert (whole, same, place) == (True, False, False)
        assert has_whole(gpu, claims([gpu]))
    with holder(gpu, 3) as place, holder(gpu, None) as whole, holder(gpu, 2) as other:
        assert (place, whole, other) == (True, False, True)


def test_of_many_at_one_moment_none_gets_the_same_place(gpu: str) -> None:
    racers = [begun(RACE, gpu) for _ in range(8)]
    got = []
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    for racer in racers:
        assert racer.stdout is not None
        got.append(racer.stdout.readline().strip())
    for racer in racers:
        racer.kill()
        racer.communicate()
    assert sorted(got) == ["0", "1", "2", "3", *["None"] * 4]


def test_a_mig_device_of_an_older_driver(gpu: str) -> None:
    with holder(f"MIG-{gpu}/1/0", None) as first, holder(f"MIG-{gpu}/2/0", None) as second:
        assert first
        assert second
        assert count_of(f"MIG-{gpu}/2/0", claims([f"MIG-{gpu}/2/0"])) == 1


def test_what_others_name_so_is_read_as_far_as_it_is_a_claim(gpu: str) -> None:
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        one.bind(f"\0jupyter_ddl-gpus/{gpu}/0/99999999999999999")
        other.bind(f"\0jupyter_ddl-gpus/{gpu}/2/4294967294")
        found = claims([gpu])
        assert found == {Claim(gpu, 2, 4294967294)}
        assert users_of(found) == "user 4294967294"


def test_where_sockets_cannot_be_read_nothing_is_known(
    gpu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_claims, "_SOCKETS", tmp_path / "missing")
    with holder(gpu, 0):
        assert claims([gpu]) == set()
