"""The models that `jupyter ddl bench scaling` trains, each as its source gives it.

| module | holds |
|---|---|
| `definition` | what a model of the benchmark is |
| `catalogue` | all of them by name, and a user's from a file |
| `cnn`, `hep_cnn`, `cosmogan`, `resnet50`, `transformer` | one model each, with its source |

Keras comes in as an argument: 3 with Horovod, 2 (`tf_keras`) under most strategies of tf.distribute. Data are made, in
the shape that the sources give. Runs on: every process that trains.
"""
