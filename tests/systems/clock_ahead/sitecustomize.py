"""Puts Python's clock forward where a variable says so: of a host, as clocks are no namespace of Linux's."""

import os
import time

_AHEAD_S = float(os.environ.get("JUPYTER_DDL_TEST_CLOCK_AHEAD_S", "0"))

if _AHEAD_S:
    _now = time.time
    _now_ns = time.time_ns
    time.time = lambda: _now() + _AHEAD_S
    time.time_ns = lambda: _now_ns() + int(_AHEAD_S * 1e9)
