"""Serves old names in histories, logs and monitors: `acc` for `accuracy`, `lr` for `learning_rate`.

Until Keras 2.2 metrics=['accuracy'] was logged as `acc`; since then as it is written. A log answers to the old name,
where it holds the new one and not the old one; it lists the new one only.
"""

from __future__ import annotations

import re
import string
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jupyter_ddl.legacy.notices import say
from jupyter_ddl.legacy.wrapping import add_missing, wrap, wrap_method

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

_ACC = re.compile(r"(^|_)acc(?=$|_\d+$)")


def patch_logs(_keras: ModuleType) -> None:
    """Have histories, logs and what `evaluate` returns answer to `acc` and `lr`."""
    python_utils: Any = import_module("keras.src.utils.python_utils")
    trainer: Any = import_module("keras.src.backend.tensorflow.trainer")
    for module in (python_utils, trainer):
        wrap(module, "pythonify_logs", _pythonify_logs)
    wrap_method(import_module("keras.src.callbacks.history").History, "__init__", _initialise_history)
    # Keras 3.12, the newest for Python 3.10, has logs go through its steps, and maps what it finds in them.
    import_module("keras.src.tree.tree_api").register_tree_node_class(Logs)


def patch_monitors(_keras: ModuleType) -> None:
    """Have EarlyStopping, ModelCheckpoint and ReduceLROnPlateau monitor by old names."""
    wrap_method(import_module("keras.src.callbacks.monitor_callback").MonitorCallback, "_set_monitor_op", _set_monitor)


def patch_file_names(keras: ModuleType) -> None:
    """Have ModelCheckpoint fill `{val_acc:.2f}`."""
    wrap_method(keras.callbacks.ModelCheckpoint, "_get_file_path", _file_path)


def patch_metrics_names(keras: ModuleType) -> None:
    """Have `model.metrics_names` name each compiled metric, in the order in which `evaluate` returns them."""
    wrap(keras.Model, "metrics_names", _read_metrics_names)


def patch_metrics(keras: ModuleType) -> None:
    """Give metrics `reset_states()`, and models, for their recurrent layers."""
    add_missing(keras.metrics.Metric, "reset_states", _reset_metric)
    add_missing(keras.Model, "reset_states", _reset_model)


# --- logs ----------------------------------------------------------------------------------------------------------


def todays_name(name: str, there: Iterable[str]) -> str | None:
    """Return the name in `there` that an old name means; None if there is none, or the old one itself is there."""
    if name in there or not isinstance(name, str):
        return None
    new = "learning_rate" if name == "lr" else _ACC.sub(r"\1accuracy", name)
    return new if new != name and new in there else None


class Logs(dict[str, Any]):
    """A log that answers to old names too; copied or pickled it is a plain dict."""

    def __missing__(self, name: str) -> Any:
        """Return what an old name means."""
        new = todays_name(name, self.keys())
        if new is None:
            raise KeyError(name)
        say("lr in logs" if name == "lr" else "acc")
        return self[new]

    def __contains__(self, name: object) -> bool:
        """Return whether the log holds the name, or what it means today."""
        return super().__contains__(name) or (isinstance(name, str) and todays_name(name, self.keys()) is not None)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value by its name of today or of old."""
        try:
            return self[name]
        except KeyError:
            return default

    def tree_flatten(self) -> tuple[list[Any], list[str]]:
        """Return the values in the order of their names, and the names: how Keras maps what is in a dict."""
        names = sorted(self)
        return [self[name] for name in names], names

    @classmethod
    def tree_unflatten(cls, names: Iterable[str], values: Iterable[Any]) -> Logs:
        """Return what Keras has mapped."""
        return cls(zip(names, values, strict=True))

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        """Pickle as a plain dict, so that a reader of the file needs nothing of ours."""
        return dict, (dict(self),)


def _pythonify_logs(stock: Callable[..., dict[str, Any]], logs: Any) -> Logs:
    return Logs(stock(logs))


def _initialise_history(stock: Callable[..., None], self: Any) -> None:
    stock(self)
    self.history = Logs()


# --- monitors ------------------------------------------------------------------------------------------------------


def _set_monitor(stock: Callable[..., None], self: Any) -> None:
    """Choose what is better, by today's rules, and where those know no answer by Keras 2's."""
    there = _monitored(self.model)
    new = todays_name(self.monitor, there)
    if new is not None:
        say("acc in monitors")
        self.monitor = new
    try:
        stock(self)
    except ValueError:
        if self.mode != "auto":
            raise
        say("mode='auto'")
        # Source: tensorflow 2.10, keras/callbacks.py, EarlyStopping.__init__.
        self.mode = "max" if re.search(r"acc(uracy)?$|auc$|^(val_)?fmeasure", self.monitor) else "min"
        stock(self)
        self.mode = "auto"


def _monitored(model: Any) -> set[str]:
    named = set(_metrics_names(lambda model: [metric.name for metric in model.metrics], model))
    return {*named, *(f"val_{name}" for name in named)}


def _file_path(stock: Callable[..., str], self: Any, epoch: int, batch: int | None, logs: dict[str, Any]) -> str:
    logs = dict(logs or {})
    for _, field, _, _ in string.Formatter().parse(self.filepath):
        new = todays_name(field, logs) if field else None
        if field and new is not None:
            say("acc in file names")
            logs[field] = logs[new]
    return stock(self, epoch, batch, logs)


# --- metrics -------------------------------------------------------------------------------------------------------


def _read_metrics_names(stock: Callable[[Any], list[str]], model: Any) -> list[str]:
    # Keras reads every attribute of a model that it saves or loads: that is no spelling of the program's. Two frames
    # up: the reader's is below the replacement's.
    if not sys._getframe(2).f_globals.get("__name__", "").startswith("keras."):
        say("metrics_names")
    return _metrics_names(stock, model)


def _metrics_names(stock: Callable[[Any], list[str]], model: Any) -> list[str]:
    """Return Keras's names, with those of the compiled metrics in place of their holder's."""
    held = getattr(model, "_compile_metrics", None)
    # Built with the first batch; until then Keras 2 named the loss alone, too.
    logged = list(held.result()) if held is not None and held.built else []
    names: list[str] = []
    for name in stock(model):
        names += logged if held is not None and name == held.name else [name]
    return names


def _reset_metric(self: Any) -> None:
    """Forget what has been counted."""
    say("reset_states")
    self.reset_state()


def _reset_model(self: Any) -> None:
    """Forget the states of the recurrent layers."""
    say("reset_states")
    for layer in self.layers:
        for name in ("reset_states", "reset_state"):
            if hasattr(layer, name):
                getattr(layer, name)()
                break
