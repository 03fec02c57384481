"""Saves what a loop of PyTorch's trains after each epoch, and resumes it: `--checkpoint DIR`.

| module | owns |
|---|---|
| `epochs` | the epochs of one loop: restored, counted, saved |
| `training_state` | the models, optimizers and other things of a loop, and what of them is saved how |
| `rng_state` | the states of a rank's random number generators |
| `folder` | the checkpoints' places, each whole or not there |
| `unsaved` | the warning of a loop that `--checkpoint` does not save |

torch.distributed.checkpoint writes models and optimizers: each rank its own part of what is sharded.

Runs on: every rank.
"""
