"""Each public class and function shows how it is used; tests/ranks/programs/test_examples.py runs what they show."""

from __future__ import annotations

import doctest

import pytest
from examples import Public, public_names

PUBLIC = public_names()


def test_the_public_names_are_found() -> None:
    names = {public.name for public in PUBLIC}
    assert {"jupyter_ddl.start", "jupyter_ddl.keras.allreduce", "jupyter_ddl.data.shard"} <= names
    assert "jupyter_ddl.keras.rank" not in names, "Horovod's own"


@pytest.mark.parametrize("public", PUBLIC, ids=lambda public: public.name)
def test_a_public_name_has_an_example(public: Public) -> None:
    assert doctest.DocTestParser().get_examples(public.example), f"{public.name} needs an Example: in its docstring"
