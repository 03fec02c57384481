"""What a task of the lease raises is in its log, and the cluster's end is reported all the same."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import loops

from jupyter_ddl.cluster.lease import _begun

if TYPE_CHECKING:
    import pytest


def test_a_task_that_raises_is_told_and_its_other_way_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    called: list[str] = []

    async def judges() -> None:
        raise OSError(5, "Input/output error")

    async def hold() -> None:
        await asyncio.wait([_begun(judges(), lambda: called.append("ended"))])

    loops.run(hold())
    assert called == ["ended"]
    assert "Input/output error" in capsys.readouterr().err


def test_one_that_is_cancelled_or_ends_well_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    called: list[str] = []

    async def hold() -> None:
        sleeps = _begun(asyncio.sleep(60), lambda: called.append("ended"))
        await _begun(asyncio.sleep(0), lambda: called.append("ended"))
        sleeps.cancel()
        await asyncio.wait([sleeps])

    loops.run(hold())
    assert (called, capsys.readouterr().err) == ([], "")
