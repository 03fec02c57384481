"""`python -m jupyter_ddl.cli`: the same as `jupyter ddl`, for where `jupyter` is not on PATH."""

from __future__ import annotations

import sys

from jupyter_ddl.cli import main

if __name__ == "__main__":
    sys.exit(main())
