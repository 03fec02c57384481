"""The example as published, with five seeds: one process, and all ranks with each meaning of the batch size.

Run by `mpiexec -n N python auto_mnist_seeds_program.py FOLDER`.
"""

from __future__ import annotations

from auto_mnist import trained
from mpi4py import MPI  # owns MPI, as in our engine: Horovod's shutdown must not finalise it

WORLD = MPI.COMM_WORLD
SEEDS = range(5)


def main() -> None:
    # Before Horovod and what we do to Keras are imported. Each rank takes some of the seeds.
    mine = [trained(seed)["accuracy"] for seed in SEEDS[WORLD.rank :: WORLD.size]]
    alone = [accuracy for part in WORLD.allgather(mine) for accuracy in part]

    from numerics_harness import FINDINGS, take_all

    import jupyter_ddl

    def together(batch: str) -> list[float]:
        jupyter_ddl.auto(batch=batch)
        return [trained(seed)["accuracy"] for seed in SEEDS]

    FINDINGS["alone"] = lambda: alone
    FINDINGS["global"] = lambda: together("global")
    FINDINGS["per-rank"] = lambda: together("per-rank")
    take_all()


if __name__ == "__main__":
    main()
