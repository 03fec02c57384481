"""Runs a training loop of PyTorch's that was written for one process on all ranks: `--auto`.

The program stays as it is: a model, an optimizer, a DataLoader, `loss.backward()`, `optimizer.step()`. Each rank gets
its part of each batch, and at the end of each backward pass the gradients of all ranks are averaged, as DDP does.

| module | owns |
|---|---|
| `loops` | when a cell is distributed, by which group, and what is patched |
| `batches` | how a DataLoader's batches are divided |
| `gradients` | how gradients are averaged |
| `saving` | that a file is whole which every rank saves |
| `agreement` | that ranks have the same random numbers, weights and batches |

Runs on: every rank, where a program has imported torch.
"""
