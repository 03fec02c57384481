"""Records what a cell does in time, with `--timeline`, in files of the run's folder; `jupyter_ddl.timeline` reads them.

| module | holds |
|---|---|
| `timeline_file` | Horovod's timelines, of all its initialisations in one file |
| `cell_profile` | what the profiler of a framework records of a cell |
| `torch_profile`, `jax_profile` | torch's and JAX's |
| `tensorflow_profile` | TensorFlow's, where the program runs it |

Nothing here imports a framework. Runs on: every rank.
"""
