"""Provides data sets to learn on, from this machine's copies or a download.

| module | owns |
|---|---|
| `digits` | real images of digits, with a fallback that needs no network |
| `keras_datasets` | `keras.datasets` from this machine's copies |
| `downloads` | one download for all processes of a host |
"""

from jupyter_ddl.datasets.digits import DataSet, mnist

__all__ = ["DataSet", "mnist"]
