"""Saves what a rank's cells have defined into a file, and gives it to the rank that takes its place.

| module | holds |
|---|---|
| `rank_variables` | what is saved and loaded, and what is left out |
| `definitions` | imports, functions and classes, as source |
| `shared_pickle` | the pickle of all variables, in which what two of them share stays shared |

Nothing here imports a framework. Runs on: every rank, in the main thread.
"""
