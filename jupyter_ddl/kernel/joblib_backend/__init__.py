"""Runs joblib's tasks on the ranks: `with jupyter_ddl.parallel_backend():`.

| module | holds |
|---|---|
| `block` | the context manager: what the block begins and ends |
| `backend` | joblib's backend: ipyparallel's own, on our view of the ranks |
| `task_view` | the tasks that wait and run, each rank one at a time, and those of lost ranks again |
| `serving` | the cell on the ranks that runs the tasks of one call |
| `task_pickle` | tasks pickled, without their large arrays, which each host is sent once |

Nothing here is imported before a block begins: joblib and ipyparallel's client take a tenth of a second.
"""
