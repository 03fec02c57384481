"""This rank's part of each batch that one process would make.

| module | owns |
|---|---|
| `place` | which part of how many samples is whose |
| `order`, `rows` | arrays: in which order, and only this rank's rows are ever read |
| `batches` | everything else: the batch is made, and this rank's part of it kept |
| `likeness` | all ranks make the same batches |
| `adapter` | what Keras takes for data in place of the user's |

Runs on: every rank.
"""

from jupyter_ddl.training.auto.parts.adapter import Parts, parts

__all__ = ["Parts", "parts"]
