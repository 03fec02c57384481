"""PyTorch on the ranks: `jupyter_ddl.torch.epochs`, by which `--checkpoint` saves a training loop and resumes it.

All else that a program of `torch.distributed` needs is torch's own (docs/torch.md).

Runs on: every rank, or any process.
"""

from jupyter_ddl.checkpoints.torch_loops.epochs import epochs

__all__ = ["epochs"]
