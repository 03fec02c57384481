"""Whether the ranks train one model on data of their own: weights, batches and gradients compared.

| module | owns |
|---|---|
| `sync`, `comparison`, `drift` | the ranks' weights: the proof, the cheap comparison, what is said of a difference |
| `same_batches`, `same_gradients` | ranks that train on the same batches |

Runs on: every rank.
"""
