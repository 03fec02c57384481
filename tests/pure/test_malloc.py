"""Unit tests for engine.malloc, in processes of their own: what malloc has learnt in pytest's does not count."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from jupyter_ddl.engine import malloc

# Three blocks a step, each of which glibc would keep by itself, together more than it keeps.
STEPS = """
import ctypes, resource, sys
from jupyter_ddl.engine.malloc import keep_freed_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]

def step(size=18 * 2**20):
    blocks = [libc.malloc(size) for _ in range(3)]
    for block in blocks:
        libc.memset(block, 1, size)
    for block in blocks:
        libc.free(block)

is_set = keep_freed_memory() if sys.argv[1] == "ours" else False
for _ in range(3):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print(is_set, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _steps(side: str, **variables: str) -> tuple[bool, int]:
    """Return whether the thresholds were set, and the page faults of ten steps."""
    ours = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES" and "MALLOC" not in name}
    command = [sys.executable, "-c", STEPS, side]
    told = subprocess.run(command, env={**ours, **variables}, check=True, capture_output=True, text=True).stdout.split()
    return told[0] == "True", int(told[1])


def test_a_step_takes_the_memory_that_the_one_before_has_freed() -> None:
    is_set, faults = _steps("ours")
    assert is_set
    left = _steps("glibc's")[1]
    assert left > 1_000 + 10 * faults, "glibc gives nothing back: the thresholds are needless"


@pytest.mark.parametrize(
    "variables",
    [{"MALLOC_TRIM_THRESHOLD_": "131072"}, {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=131072"}],
    ids=["variable", "tunable"],
)
def test_what_the_user_set_wins(variables: dict[str, str]) -> None:
    is_set, faults = _steps("ours", **variables)
    assert not is_set
    assert faults > 1_000


def test_any_choice_of_the_user_counts() -> None:
    assert not _steps("ours", GLIBC_TUNABLES="glibc.malloc.check=0:glibc.malloc.top_pad=131072")[0]
    assert not _steps("ours", MALLOC_MMAP_MAX_="65536")[0]


def test_another_setting_of_the_user_does_not_count() -> None:
    is_set, faults = _steps("ours", GLIBC_TUNABLES="glibc.malloc.hugetlb=1")
    assert is_set
    assert faults < 1_000


def test_a_c_library_that_is_not_glibc_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(malloc.ctypes, "CDLL", lambda _: object())
    assert not malloc.keep_freed_memory()


# glibc has learnt to keep blocks of this size; one that stays above them keeps the heap from shrinking.
KEPT = """
import ctypes, psutil
from jupyter_ddl.engine.malloc import give_freed_memory_back

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
size = 8 * 2**20
libc.free(libc.malloc(2 * size))
is_set = give_freed_memory_back() if sys.argv[1] == "ours" else False
before = psutil.Process().memory_info().rss
blocks = [libc.malloc(size) for _ in range(9)]
for block in blocks:
    libc.memset(block, 1, size)
for block in blocks[:-1]:
    libc.free(block)
print(is_set, round((psutil.Process().memory_info().rss - before) / size))
"""


@pytest.mark.parametrize(("side", "said"), [("ours", "True 1"), ("glibc's", "False 9")])
def test_what_is_freed_is_given_back_where_memory_is_short(side: str, said: str) -> None:
    ours = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES" and "MALLOC" not in name}
    command = [sys.executable, "-c", "import sys\n" + KEPT, side]
    assert subprocess.run(command, env=ours, check=True, capture_output=True, text=True).stdout.strip() == said
