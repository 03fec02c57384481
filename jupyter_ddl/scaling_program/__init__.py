"""What the processes of one side run: they train for some steps, and the first one writes what was measured.

| module | holds |
|---|---|
| `models/` | what is trained |
| `describe` | what a model is, for a terminal |
| `training` | steps, their times and losses |
| `horovod_side` | ranks that exchange by Horovod |
| `strategy_sides` | processes under a strategy of tf.distribute |
| `exchange` | how long ranks take to reduce so many bytes |
| `tuned` | a user's script, for some steps |
| `main` | what is started |

Runs on: every process of a side.
"""
