"""Adds the exchange of gradients to the user's optimizer and GradientTape. Runs on: every rank.

| module | owns |
|---|---|
| `distributed_optimizer`, `tape` | what users wrap |
| `distribution` | what makes an optimizer a distributed one |
| `exchange`, `groups`, `tried` | reducing gradients over the ranks; what `jupyter ddl tune` tries there |
| `early_exchange`, `torch_backward`, `jax_gradients` | reducing them before the program's own step changes them |
| `accumulation`, `local_variables` | gradients that are exchanged later, or never |
| `state_shards`, `sharding` | an optimizer's state, of which each rank keeps a part |
| `options`, `learning_rate`, `build` | its arguments, its rate and its variables |
| `extra_variables` | variables that are saved with an optimizer's own |
"""
