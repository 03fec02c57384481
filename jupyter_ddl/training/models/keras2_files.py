"""Translates the training configuration and state in Keras 2's .h5 files to Keras 3.

Plain Keras 3.15 opens such files and goes wrong silently: an optimizer of Keras 2.11 to 2.15 is loaded with default
arguments, `decay` is dropped, moments are lost, and `metrics=["accuracy"]` fails at the first step.

Pure: dictionaries and arrays. Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

# These say how Keras 2 ran an optimizer, not what it computes.
_HOW_IT_RAN = ("jit_compile", "is_legacy_optimizer")


def todays_training_config(config: dict[str, Any], *, custom: Collection[str] = (), keeps_decay: bool = False) -> Any:
    """Return a model's training configuration as Keras 3 writes it.

    Args:
        config: the file's attribute `training_config`.
        custom: names of objects that are the user's own.
        keeps_decay: optimizers take `decay` here, as in Keras 2.
    """
    optimizer = config["optimizer_config"]
    name = optimizer["class_name"].removeprefix("Custom>")
    arguments = _todays_optimizer_arguments(optimizer["config"], keeps_decay=keeps_decay)
    return {
        **config,
        "optimizer_config": {
            # Keras 2.11 to 2.15 wrote their own optimizers as if they were the user's.
            "class_name": optimizer["class_name"] if optimizer["class_name"] in custom else name,
            "config": arguments,
        },
        "loss_weights": config.get("loss_weights"),
        "metrics": _todays_metrics(config.get("metrics")),
        "weighted_metrics": _todays_metrics(config.get("weighted_metrics")),
    }


def _todays_optimizer_arguments(arguments: dict[str, Any], *, keeps_decay: bool) -> dict[str, Any]:
    today = {name: value for name, value in arguments.items() if name not in _HOW_IT_RAN}
    if "lr" in today:
        today["learning_rate"] = today.pop("lr")
    decay = today.pop("decay", None)
    if decay and keeps_decay:
        today["decay"] = decay
    elif decay:
        # Source: tensorflow 2.10, keras/optimizers/optimizer_v2/optimizer_v2.py, _decayed_lr
        rate = {"initial_learning_rate": today["learning_rate"], "decay_steps": 1.0, "decay_rate": decay}
        today["learning_rate"] = {
            "module": "keras.optimizers.schedules",
            "class_name": "InverseTimeDecay",
            "config": rate,
            "registered_name": None,
        }
    return today


def _todays_metrics(metrics: Any) -> Any:
    """Return a nested structure of metrics in which names of functions are marked as such."""
    if isinstance(metrics, dict) and metrics.get("class_name") == "MeanMetricWrapper":
        arguments = metrics["config"]
        function = arguments.get("fn")
        if not isinstance(function, str):
            return metrics
        reference = {
            "module": "keras.metrics",
            "class_name": "function",
            "config": function,
            "registered_name": function,
        }
        return {**metrics, "config": {**arguments, "fn": reference}}
    if isinstance(metrics, dict) and "class_name" not in metrics:
        return {output: _todays_metrics(of_output) for output, of_output in metrics.items()}
    if isinstance(metrics, list):
        return [_todays_metrics(metric) for metric in metrics]
    return metrics


def moments(
    names: Sequence[str], arrays: Sequence[Any], shapes: Sequence[tuple[int, ...]], *, kind_comes_first: bool
) -> list[list[Any]] | None:
    """Return an optimizer's moments, one list a kind (first moments, second moments, ...), in the variables' order.

    Args:
        names: of the moments in the file.
        arrays: the moments of these names.
        shapes: of the model's trainable variables.
        kind_comes_first: "Adam/m/dense/kernel:0", as in Keras 2.11 to 2.15; not "Adam/dense/kernel/m:0".

    Returns:
        None where the moments do not fit the variables.
    """
    by_kind: dict[str, list[Any]] = {}
    for name, array in zip(names, arrays, strict=True):
        parts = name.removesuffix(":0").split("/")
        by_kind.setdefault(parts[min(1, len(parts) - 1)] if kind_comes_first else parts[-1], []).append(array)
    groups = list(by_kind.values())
    if any(len(group) != len(shapes) for group in groups):
        # Keras before tf.keras only numbered them, "training/Adam/Variable_7:0", one kind after another.
        if len(arrays) % len(shapes):
            return None
        groups = [list(arrays[i : i + len(shapes)]) for i in range(0, len(arrays), len(shapes))]
    # It wrote a number for each state that Adam does not keep without amsgrad.
    groups = [group for group in groups if any(array.shape != (1,) for array in group) or set(shapes) == {(1,)}]
    fit = all(array.shape == shape for group in groups for array, shape in zip(group, shapes, strict=True))
    return groups if fit else None


def ran_as_keras_2_11(config: dict[str, Any]) -> bool:
    """Return whether the optimizer is one of Keras 2.11 to 2.15, which keep their moments in another order."""
    return "jit_compile" in config["optimizer_config"]["config"]
