"""The user's optimizer and GradientTape, with the exchange of gradients before each update. Runs on: every rank.

| module | owns |
|---|---|
| `distributed_optimizer`, `tape` | what users wrap |
| `exchange`, `groups`, `early_exchange` | the gradients' way over the ranks |
| `accumulation`, `local_variables` | gradients that are exchanged later, or never |
| `options`, `learning_rate`, `build` | its arguments, its rate and its variables |
| `extra_variables` | variables that are saved with an optimizer's own |
"""
