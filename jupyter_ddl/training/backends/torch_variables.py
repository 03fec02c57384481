"""Holds what steps of PyTorch change, with the methods of variables of TensorFlow's or Keras's.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import torch


class HostNumber:
    """A number that steps change, on the host.

    Attributes:
        name: what it is.
        dtype: by Keras's name.
        shape: that of a scalar.
    """

    def __init__(self, value: float, dtype: str, name: str) -> None:
        self._value = torch.tensor(value, dtype=dtype_of(dtype))
        self.name = name
        self.dtype = dtype
        self.shape = ()

    def read_value(self) -> torch.Tensor:
        """Return it as a tensor, which later changes leave as it is."""
        return self._value

    def assign(self, value: Any) -> None:
        """Set it."""
        plain = value.detach() if isinstance(value, torch.Tensor) else torch.tensor(np.array(value))
        self._value = plain.to("cpu", self._value.dtype, copy=True)

    def assign_add(self, value: Any) -> torch.Tensor:
        """Add to it; return the sum."""
        self._value = self._value + value
        return self._value

    def numpy(self) -> Any:
        """Return it."""
        return self._value.numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return it, for NumPy."""
        return np.asarray(self._value.numpy(), dtype)


class ReferredBatch:
    """The last batch, by reference: a step does not change its batch."""

    def __init__(self) -> None:
        self.batch: Any = None

    def keep(self, data: Any) -> None:
        """Keep a batch."""
        self.batch = data

    def free_others(self) -> None:
        """Do nothing: there is one."""


class GradientSum:
    """A sum of gradients, with the methods of TensorFlow's variables."""

    def __init__(self, like: torch.Tensor) -> None:
        self._value = torch.zeros_like(like)
        self.shape = tuple(like.shape)
        self.dtype = keras.backend.standardize_dtype(like.dtype)
        self.name = "sum_of_gradients"

    def assign_add(self, value: torch.Tensor) -> None:
        """Add to it."""
        self._value = self._value + value

    def assign(self, value: Any) -> None:
        """Set it."""
        self._value = (value if isinstance(value, torch.Tensor) else torch.tensor(np.array(value))).to(self._value)

    def read_value(self) -> torch.Tensor:
        """Return it."""
        return self._value

    def numpy(self) -> Any:
        """Return it as an array."""
        return array(self._value)


class Buffer:
    """A buffer of a module, with the methods of Keras's variables.

    Attributes:
        path: its name in the model.
    """

    def __init__(self, path: str, value: torch.Tensor) -> None:
        self.path = self.name = path
        self._value = value
        self.shape = tuple(value.shape)
        self.dtype = keras.backend.standardize_dtype(value.dtype)

    @property
    def value(self) -> torch.Tensor:
        """The buffer itself."""
        return self._value

    def numpy(self) -> Any:
        """Return it as an array."""
        return array(self._value)

    def assign(self, value: Any) -> None:
        """Set it."""
        new = value if isinstance(value, torch.Tensor) else torch.tensor(np.array(value))
        with torch.no_grad():
            self._value.copy_(new)


def buffers_of(model: Any) -> list[Any]:
    """Return the buffers of the modules of PyTorch's that a model has."""
    found: dict[int, Buffer] = {}
    # Keras's layers are no submodules of its models.
    for layer in model._flatten_layers():
        for name, value in layer.named_buffers():
            found.setdefault(id(value), Buffer(f"{layer.name}/{name}", value))
    return list(found.values())


def array(tensor: Any) -> Any:
    """Return a NumPy array of a tensor; of a sequence of bfloat16 as float32, which NumPy has."""
    plain = tensor.detach().cpu()
    return (plain.float() if plain.dtype is torch.bfloat16 else plain).numpy()


def dtype_of(dtype: Any) -> torch.dtype:
    """Return PyTorch's dtype of one by PyTorch's or Keras's name."""
    found: torch.dtype = dtype if isinstance(dtype, torch.dtype) else getattr(torch, str(dtype))
    return found
