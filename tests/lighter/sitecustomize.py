"""Spares the tests' processes what libraries import for features that no test uses.

Python runs this file when it starts, where the folder is in PYTHONPATH: tests/conftest.py puts it there for the tests
that are not slow. A program's own imports of these libraries are left alone. CPU seconds of one process:

- Keras imports scikit-learn (with SciPy) and matplotlib, for its wrappers and galleries: 1.4 of TensorFlow's 5.0;
- jsonschema compiles the grammar of IRIs: 1.4 of a Jupyter server's 2.3.
"""

from __future__ import annotations

import sys

# The library -> who goes without.
SPARED = {"sklearn": "keras", "matplotlib": "keras", "rfc3987_syntax": "jsonschema"}
BETWEEN = ("importlib", "_frozen_importlib", "jupyter_ddl.host.import_hooks", __name__)


class Spared:
    """An import finder that finds nothing, and refuses a library to those who go without."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if SPARED.get(name.partition(".")[0], "") == importer().partition(".")[0]:
            raise ModuleNotFoundError(f"No module named {name!r}: spared by {__file__}", name=name)


def importer() -> str:
    """Return the name of the module that is importing another."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(BETWEEN):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))


sys.meta_path.insert(0, Spared())
