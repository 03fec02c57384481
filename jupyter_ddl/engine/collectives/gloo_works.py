"""Waits for gloo's threads before a profiler of torch's ends, since they write into what it has recorded.

gloo says that a collective is done, and then notes its end with the profiler, from a thread of its own. A profiler that
is stopped between the two has given that memory back: gloo writes into what holds something else by then, and the rank
crashes, at once or much later.

Source: torch 2.13, torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, AsyncWork::finishWorkGloo, runLoop.

Runs on: every rank. Nothing here imports torch.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import psutil

from jupyter_ddl.engine.collectives import gloo_threads
from jupyter_ddl.host.patching import Layer, patch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

# A collective that another rank does not enter never ends.
_LIMIT_S = 2.0
_LOOK_S = 0.001


def install(profiler: ModuleType) -> None:
    """Wait whenever a profiler ends, the program's own too.

    Args:
        profiler: torch.autograd.profiler.
    """
    patch(profiler, "_disable_profiler", _disable, Layer.RANK)


def wait_ended() -> bool:
    """Wait until all that gloo's threads have begun on this rank has ended.

    Returns:
        Whether it has, in two seconds.
    """
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None or not c10d.is_initialized():
        return True
    due_s = time.monotonic() + _LIMIT_S
    running = gloo_threads.running() - {threading.get_native_id()}
    while not (has_ended := _has_ended()):
        # gloo's threads do not sleep between the end of a collective and what they note of it.
        running = {thread for thread in running if _is_running(thread)}
        if has_ended is None and not running:
            break
        if time.monotonic() > due_s:
            return False
        time.sleep(_LOOK_S)
    return True


def _disable(stock: Callable[[], Any]) -> Any:
    wait_ended()
    return stock()


def _has_ended() -> bool | None:
    """Return whether torch's own record says so; None where it keeps none, as in torch 2.7."""
    dump = getattr(sys.modules["torch._C._distributed_c10d"], "_dump_fr_trace_json", None)
    works = json.loads(dump()).get("entries") if dump is not None else None
    if not works:
        return None
    # Other backends may note theirs there, too.
    return all(work["retired"] for work in works if work["profiling_name"].startswith("gloo:"))


def _is_running(thread: int) -> bool:
    """Return whether a thread of this process computes, or waits for a core only. One that has ended does not."""
    try:
        return bool(psutil.Process(thread).status() == psutil.STATUS_RUNNING)
    except psutil.NoSuchProcess:
        return False
