"""Names XLA's collectives, as its programs and its profiler's traces have them.

Its broadcast, gather, reduce and scatter are of one device. Behind the name of an asynchronous one stands `-start` or
`-done`, and behind any of them a number.

Source: openxla/xla, hlo/ir/hlo_opcode.h
"""

from __future__ import annotations

COLLECTIVES = (
    *("all-reduce", "all-gather", "all-to-all", "ragged-all-to-all", "reduce-scatter"),
    *("collective-broadcast", "collective-permute"),
)
