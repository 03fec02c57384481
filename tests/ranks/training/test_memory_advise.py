"""`jupyter_ddl.memory.advise` on TensorFlow: needs that are known."""

from __future__ import annotations

from memory_checks import check_keras, needs_on


def test_needs_of_a_keras_model_on_tensorflow() -> None:
    check_keras(needs_on("tensorflow"))
