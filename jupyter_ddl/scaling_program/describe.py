"""Prints what a model of the benchmark is, as JSON: `python -m jupyter_ddl.scaling_program.describe MODEL`.

Runs on: a process of its own, since a file of the user's is run for it.
"""

from __future__ import annotations

import json
import sys

from jupyter_ddl.errors import DdlError
from jupyter_ddl.scaling_program.models import catalogue


def main() -> None:
    """Describe it, or say why it is none."""
    try:
        model = catalogue.find(sys.argv[1])
    except DdlError as error:
        sys.exit(str(error))
    print(json.dumps({name: getattr(model, name) for name in ("name", "source", "batch_size", "size")}))


if __name__ == "__main__":
    main()
