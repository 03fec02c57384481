"""How a training scales: measured on so many ranks, beside TensorFlow's strategies, and predicted for more.

| module | holds |
|---|---|
| `sides` | how the processes of a side are started; `scaling_program/` is what they run |
| `bench` | all points, in turns |
| `results` | what all points are together |
| `points` | what was measured at one number of ranks, as numbers |
| `step_model` | the time of a step from compute, latency and bandwidth |
| `prediction` | the step model from measured points, and beside them |
| `tables` | points and prediction as tables |
| `plots` | and as pictures |
| `tuning` | what changes the exchange, tried in turns |

Runs on: a terminal.
"""
