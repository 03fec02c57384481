"""The check of what kernels and browsers send: they may send anything."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from jupyter_ddl.protocol.codec import encode
from jupyter_ddl.protocol.hub_messages import (
    Answer,
    BoardAsked,
    Control,
    KernelState,
    RunNotice,
    Watch,
    from_browser,
    from_hub,
    from_kernel,
)

CONTROL = Control("7", "kernel-1", "stacks", {"ranks": "0"})


@pytest.mark.parametrize("message", [CONTROL, Watch("run-1"), Watch("run-1", 3)])
def test_what_a_browser_may_send_is_read(message: Any) -> None:
    assert from_browser(json.dumps(encode(message))) == message


@pytest.mark.parametrize(
    "message",
    [
        KernelState("kernel-1", 1, None, "run-1"),
        RunNotice("kernel-1", "run-1", "finished", None, "0-1", 2),
        Answer("1", [1, {"a": None}], None),
        BoardAsked(folder="/logs"),
        BoardAsked(run="run-1"),
    ],
)
def test_what_a_kernel_may_send_is_read(message: Any) -> None:
    assert from_kernel(json.dumps(encode(message)).encode()) == message


def test_a_field_of_a_newer_version_is_left_out() -> None:
    sent = json.dumps({**encode(CONTROL), "more": 1})
    assert from_browser(sent) == from_hub(sent) == CONTROL


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ("{", "A message must be JSON. Received: '{'."),
        (b"\xff", "A message must be JSON."),
        ("[" * 100_000, "A message must be JSON."),
        ("[]", "must be one of ['control', 'taken', 'unwatch', 'watch']. Received: list."),
        ('{"type": "kernel_gone", "kernel": "k"}', "Received: 'kernel_gone'."),
        ('{"type": ["watch"]}', "Received: ['watch']."),
        (
            '{"type": "taken", "run": "r"}',
            "A taken message must be what its class says. Received: Object missing",
        ),
        ('{"type": "watch", "run": 5}', "Expected `str`, got `int` - at `$.run`."),
        ('{"type": "watch", "run": "r", "next": true}', "Expected `int`, got `bool` - at `$.next`."),
        ('{"type": "watch", "run": "r", "next": 1.5}', "Expected `int`, got `float` - at `$.next`."),
        (json.dumps({**encode(CONTROL), "arguments": []}), "Expected `object`, got `array` - at `$.arguments`."),
    ],
)
def test_what_is_no_message_is_told(sent: bytes | str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        from_browser(sent)


def test_a_kernels_state_is_one_of_those_that_there_are() -> None:
    sent = {**encode(RunNotice("k", "r", "running")), "state": "fine"}
    with pytest.raises(ValueError, match=r"Invalid enum value 'fine' - at `\$\.state`"):
        from_kernel(json.dumps(sent))
