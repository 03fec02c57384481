"""A collective that a thread begins while Horovod ends gets an error, always: nobody would answer it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.mpi

# One rank is enough. With stock Horovod's queue a thread hung within some hundred shutdowns.
PROGRAM = """
import os, sys, threading, time
from mpi4py import MPI
import horovod.tensorflow as hvd
import tensorflow as tf

THREADS, SHUTDOWNS, HANGS_S = 3, int(sys.argv[1]), 30
ones = tf.ones(2)
calls = [0] * THREADS

def collectives(thread):
    while True:
        try:
            hvd.allreduce(ones, name=f"thread {thread} call {calls[thread] % 50}")
        except (tf.errors.OpError, ValueError):
            pass  # Horovod has ended, or is about to
        calls[thread] += 1

hvd.init()
for thread in range(THREADS):
    threading.Thread(target=collectives, args=(thread,), daemon=True).start()
for _ in range(SHUTDOWNS):
    time.sleep(0.002)
    hvd.shutdown()
    time.sleep(0.001)
    before, began_s = list(calls), time.monotonic()
    while any(now == then for now, then in zip(calls, before)):
        if time.monotonic() - began_s > HANGS_S:
            print("hung", flush=True)
            os._exit(1)
        time.sleep(0.0005)
    hvd.init()
print("all ended", flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("shutdowns", [150, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_collective_beside_a_shutdown_ends(shutdowns: int) -> None:
    argv = [sys.executable, "-c", PROGRAM, str(shutdowns)]
    child = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False)
    assert child.stdout.splitlines()[-1:] == ["all ended"], child.stdout + child.stderr
