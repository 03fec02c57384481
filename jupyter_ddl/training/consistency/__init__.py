"""Compares weights, batches and gradients: do the ranks train one model, each on its own data?

| module | owns |
|---|---|
| `sync`, `comparison`, `drift` | the ranks' weights: the proof, the cheap comparison, the report of a difference |
| `same_batches`, `same_gradients`, `eager_same_gradients` | ranks that train on the same batches |

Runs on: every rank.
"""
