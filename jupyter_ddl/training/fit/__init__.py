"""What `fit` and `train_on_batch` of any Keras model do besides, on a rank.

| module | owns |
|---|---|
| `hook` | the three methods of Keras that are wrapped, and what each then does |
| `batches` | what the ranks know of each other's batches before the first step |
| `meeting` | ranks with fewer batches, or that stop early, wait for the others and take their weights |
| `in_step` | the weights are compared after the first steps and once an epoch |
| `samples` | how many samples each epoch had, for averages over samples |
| `unexchanged` | says plainly that several ranks train with no exchange at all |

Runs on: every rank.
"""

from jupyter_ddl.training.fit.samples import samples_seen
from jupyter_ddl.training.fit.wrapped_methods import install

__all__ = ["install", "samples_seen"]
