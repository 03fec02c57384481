"""Refuses what `--auto` cannot distribute, with the reason and what to write instead.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import BACKEND, TENSORFLOW, ops

_TAPE = " or hvd.DistributedGradientTape" if BACKEND == TENSORFLOW else ""
_EXPLICIT = f"Write the program with hvd.DistributedOptimizer{_TAPE}, without --auto."


def refuse_model(model: Any) -> None:
    """Raise if a model cannot be trained on parts of its batches.

    Raises:
        InvalidInput: it is under tf.distribute, or keeps state from one batch to the next.
    """
    distributed = ops.distributed_by(model)
    if distributed is not None:
        raise InvalidInput(
            "--auto distributes a model that is not distributed yet.",
            f"a model under {distributed}",
            "Drop the strategy's scope.",
        )
    stateful = [layer.name for layer in model._flatten_layers() if getattr(layer, "stateful", False)]
    if stateful:
        raise InvalidInput(
            "A stateful layer keeps a state for each sample of a batch, which must come to the same place each time.",
            f"layer {stateful[0]} with stateful=True",
            f"Pass stateful=False, or divide the sequences among the ranks yourself. {_EXPLICIT}",
        )


def refuse_optimizer(optimizer: Any) -> None:
    """Raise for an optimizer that updates outside of what is distributed.

    Raises:
        InvalidInput: always.
    """
    raise InvalidInput(
        "--auto distributes fit and train_on_batch with the optimizer of compile: it cannot know which data a loop of "
        "the program's own, or a second optimizer, is for.",
        f"an update by {type(optimizer).__name__} that is not the compiled optimizer's",
        _EXPLICIT,
    )


def refuse_loop(optimizer: Any) -> None:
    """Raise for an update by hand with an optimizer of `compile`: before a `fit` and after it alike.

    Raises:
        InvalidInput: always.
    """
    raise InvalidInput(
        "--auto distributes fit and train_on_batch: it cannot know which data a loop of the program's own is for.",
        f"an update by {optimizer.__class__.__name__} outside of them",
        f"Put the step into a train_step of the model, and call fit. {_EXPLICIT}",
    )


def refuse_plain_cell(method: str, *, independent: bool) -> None:
    """Raise for the training of a model that `--auto` has distributed, in a run that is not to be distributed.

    Raises:
        InvalidInput: always.
    """
    alone = "Call model.compile again with a new optimizer for a model of its own on each rank"
    raise InvalidInput(
        "A model that was trained with --auto exchanges its gradients, and trains on with --auto.",
        f"{method} in a cell with --independent" if independent else f"{method} in a cell without it",
        f"{alone}." if independent else f"Write %%distributed --auto. {alone}.",
    )


def refuse_distributed(optimizer: Any) -> None:
    """Raise for an optimizer that the program has distributed itself.

    Raises:
        InvalidInput: always.
    """
    raise InvalidInput(
        "--auto is for programs that do not use Horovod.",
        f"a model with a {type(optimizer).__name__}",
        "Drop --auto: the program divides the data itself.",
    )


def refuse_data(data: Any) -> None:
    """Raise for data whose order the ranks cannot be sure to share.

    Raises:
        InvalidInput: it is a grain dataset or one of tf.distribute; or a dataset of another backend of Keras's.
    """
    kind = f"{type(data).__module__}.{type(data).__qualname__}"
    refused, own = (("torch.",), "tf.data.Dataset") if BACKEND == TENSORFLOW else ((), "torch.utils.data.DataLoader")
    is_dataset = any(one.__module__.startswith("tensorflow.python.data.") for one in type(data).__mro__)
    if kind.startswith(("grain.", "tensorflow.python.distribute.", *refused)) and not ops.is_tensor(data):
        raise InvalidInput(
            f"--auto divides arrays, {own}, keras.utils.PyDataset, generators and pandas.",
            kind,
            "Make it a tf.data.Dataset, e.g. by tf.data.Dataset.from_generator."
            if BACKEND == TENSORFLOW
            else "Make it a torch.utils.data.DataLoader, or a keras.utils.PyDataset.",
        )
    if is_dataset and BACKEND != TENSORFLOW:
        raise InvalidInput(
            f"--auto divides a tf.data.Dataset where Keras is on TensorFlow; here it is on {BACKEND}.",
            kind,
            "Set KERAS_BACKEND=tensorflow, or make it a torch.utils.data.DataLoader or a keras.utils.PyDataset.",
        )
