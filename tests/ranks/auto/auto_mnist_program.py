"""The example on a part of the images, without dropout: all ranks with a global batch, against one process.

Run by `mpiexec -n N python auto_mnist_program.py FOLDER`.
"""

from __future__ import annotations

from typing import Any

from auto_mnist import trained
from mpi4py import MPI  # owns MPI, as in our engine: Horovod's shutdown must not finalise it

A_PART: dict[str, Any] = {"dropout": 0.0, "epochs": 2, "images": 1280}


def main() -> None:
    # Before Horovod and what we do to Keras are imported.
    wanted = MPI.COMM_WORLD.bcast(trained(1, **A_PART) if MPI.COMM_WORLD.rank == 0 else None)

    from numerics_harness import finding, take_all
    from numerics_models import identical_everywhere, largest

    import jupyter_ddl

    @finding
    def without_dropout() -> dict[str, Any]:
        jupyter_ddl.auto(batch="global")
        found = trained(1, **A_PART)
        return {
            "identical": identical_everywhere(found["weights"]),
            "difference": largest(found["weights"], wanted["weights"]),
            "accuracies": [found["accuracy"], wanted["accuracy"]],
        }

    take_all()


if __name__ == "__main__":
    main()
