"""Stands in for the package `horovod` where Keras is not on TensorFlow and there is none: its `keras` is ours.

Runs on: every rank.
"""

from __future__ import annotations

# A package, of which the import finder has the modules.
__path__: list[str] = []
