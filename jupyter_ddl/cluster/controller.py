"""`python -m jupyter_ddl.cluster.controller`: ipyparallel's controller, ended with its lease."""

from __future__ import annotations

from jupyter_ddl.tether import end_with_parent

if __name__ == "__main__":
    # Before ipyparallel's import, which takes a while.
    end_with_parent()
    from ipyparallel.controller.app import main

    main()
