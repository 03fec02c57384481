"""The public names of jupyter_ddl and the examples in their docstrings, read from the source without an import."""

from __future__ import annotations

import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "docs"))

from site_pages import sources

FACES = (
    "jupyter_ddl",
    "jupyter_ddl.keras",
    "jupyter_ddl.training.callbacks",  # hvd.callbacks
    "jupyter_ddl.training.elastic",  # hvd.elastic
    "jupyter_ddl.data",
    "jupyter_ddl.memory",
    "jupyter_ddl.torch",
    "jupyter_ddl.datasets",
)
# Not of a rank's program: their examples start ranks themselves.
OF_THE_KERNEL = ("jupyter_ddl.Session", "jupyter_ddl.attach", "jupyter_ddl.parallel_backend", "jupyter_ddl.start")
# Of PyTorch, in whose environment tests/frameworks/test_examples_torch.py runs them.
OF_TORCH = (
    "jupyter_ddl.memory.activations_on_host",
    "jupyter_ddl.memory.state_on_host",
    "jupyter_ddl.torch.epochs",
)
# Needs a scheduler's queue: tests/systems runs it in a real Slurm.
OF_A_QUEUE = ("jupyter_ddl.submit",)


@dataclass(frozen=True)
class Public:
    """A public class or function of ours.

    Attributes:
        name: as a program writes it, e.g. "jupyter_ddl.keras.allreduce".
        docstring: its own; "" where it has none.
    """

    name: str
    docstring: str

    @property
    def example(self) -> str:
        """Return the lines of its `Example:` section; "" where there is none."""
        found = re.search(r"^Example:\n((?:    .*\n|\n)+)", self.docstring + "\n", re.MULTILINE)
        return textwrap.dedent(found[1]) if found else ""


def public_names() -> list[Public]:
    """Return the classes and functions that `__all__` of each face lists and that this package defines."""
    return [
        Public(f"{face}.{one.name}", one.docstring)
        for face in FACES
        for one in sources.public(face)
        if one.node is not None
    ]
