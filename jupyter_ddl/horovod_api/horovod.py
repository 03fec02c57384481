"""Stands in for the package `horovod` where there is none: its `torch` is ours, and its `keras` on PyTorch and JAX.

Runs on: every rank.
"""

from __future__ import annotations

# A package, of which the import finder has the modules.
__path__: list[str] = []
