"""Provides data sets to learn on, from this machine's copies or a download.

| module | owns |
|---|---|
| `digits` | real images of digits, with a fallback that needs no network |
| `spirals` | points on two spirals, which every machine has |
| `keras_datasets` | `keras.datasets` from this machine's copies |
| `downloads` | one download for all processes of a host |
"""

from jupyter_ddl.datasets.digits import DataSet, mnist
from jupyter_ddl.datasets.spirals import spirals

__all__ = ["DataSet", "mnist", "spirals"]
