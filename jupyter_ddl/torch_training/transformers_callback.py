"""The callback that each Trainer of Transformers gets on a rank.

Runs on: every rank, where a program has imported transformers.
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from jupyter_ddl.torch_training import logged


class Callback(TrainerCallback):
    """Shows what the Trainer logs."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:  # noqa: ARG002
        """Take what it logs: the loss and the learning rate every `logging_steps`, and evaluations."""
        taker = logged.here()
        if taker is not None and logs:
            # At the end it logs the mean of all losses by another name, and speeds of its own.
            own = {name: value for name, value in logs.items() if not name.startswith(("train_", "total_"))}
            taker.log(_named(own))

    def on_evaluate(
        self,
        args: Any,  # noqa: ARG002 (as transformers calls it)
        state: Any,
        control: Any,  # noqa: ARG002
        metrics: Any = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Report what an evaluation came to, as the end of an epoch."""
        taker = logged.here()
        if taker is not None and metrics:
            epoch = max(0, round(state.epoch or 0) - 1)
            is_last = bool(state.max_steps) and state.global_step >= state.max_steps
            taker.epoch_ended(epoch, state.global_step, _named(metrics), is_last=is_last)


def _named(logs: dict[str, Any]) -> dict[str, Any]:
    """Return what is logged by the names of Keras: val_loss, and not eval_loss."""
    return {
        f"val_{name.removeprefix('eval_')}" if name.startswith("eval_") else name: value
        for name, value in logs.items()
        if name != "epoch"
    }
