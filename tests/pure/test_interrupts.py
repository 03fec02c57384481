"""An interrupt reaches a cell that waits, whenever it comes. Each check has a process of its own, for its signals."""

from __future__ import annotations

import subprocess
import sys

# The first signal is noted and ends no call, as one does that comes just before the call that waits.
TOO_EARLY = """
import signal, threading, time
from jupyter_ddl.engine import interrupts

real, calls = interrupts._signal_main_thread, []

def signal_too_early():
    calls.append("signal")
    if len(calls) == 1:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    else:
        real()

interrupts._signal_main_thread = signal_too_early
runs = interrupts.Interrupts({})
runs.arm("run")
threading.Timer(0.3, runs.request, ("run", "asked")).start()
try:
    time.sleep(600)
except KeyboardInterrupt:
    runs.disarm()
    time.sleep(0.5)
    print("interrupted after", len(calls))
"""


def test_a_signal_just_before_the_call_that_waits_is_sent_again() -> None:
    done = subprocess.run([sys.executable, "-c", TOO_EARLY], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("interrupted after 2\n", "")


EARLY = """
import time
from jupyter_ddl.engine.interrupts import Interrupts

runs = Interrupts({})
runs.request("run", "asked")
try:
    runs.arm("run")
except KeyboardInterrupt:
    print("at once")
runs.arm("run", grace_s=0.3)
print("has a moment")
try:
    time.sleep(600)
except KeyboardInterrupt:
    print("and no more")
"""


def test_what_was_released_before_it_begins_has_no_time_or_the_time_that_it_is_given() -> None:
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("at once\nhas a moment\nand no more\n", "")
