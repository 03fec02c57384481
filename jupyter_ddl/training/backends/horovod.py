"""Stands in for the package `horovod` where Keras is on PyTorch and there is none: its `keras` is jupyter_ddl.keras.

Runs on: every rank.
"""

from __future__ import annotations

# A package, of which the import finder has the modules.
__path__: list[str] = []
