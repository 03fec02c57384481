"""Says in which collective of torch.distributed a thread is, as the program wrote it: from its Python frames.

Runs on: every rank. Nothing here imports torch.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

BACKWARD = "the gradients of backward()"
_OURS = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep  # noqa: PTH120  compared with a frame's text
_C10D = "torch/distributed/distributed_c10d.py"
_FUNCTIONAL = "torch/distributed/_functional_collectives.py"
# What a collective that they start is for, by the files of torch's own users of collectives.
_USERS = (
    ("torch/distributed/fsdp/", "the parameters of FSDP"),
    ("torch/nn/parallel/distributed.py", "DistributedDataParallel"),
    ("torch/nn/modules/_functions.py", "SyncBatchNorm"),
    ("torch/autograd/", BACKWARD),
)
# What a collective is given, in c10d's words; the first that a function has says most.
_GIVEN = ("tensor", "input_tensor", "input", "self", "tensor_list", "input_tensor_list", "input_list", "output_tensor")
_ROOTS = (("src", "from"), ("dst", "to"))


def place(frame: FrameType | None) -> tuple[int, int] | None:
    """Return where a thread is, outside our own waits: equal for as long as it does not move."""
    while frame is not None and _is_wait(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else (id(frame), frame.f_lasti)


def collective(frame: FrameType | None) -> str | None:
    """Return what a thread waits in, e.g. "all_reduce of float32 [2]"; None where its frames do not say."""
    found = None
    while frame is not None:
        file = frame.f_code.co_filename
        if not _is_wait(file) and "/torch/" not in file:
            break
        found = _named(frame, file) or found
        frame = frame.f_back
    return found


def _is_wait(file: str) -> bool:
    return file.startswith(_OURS) or file == threading.__file__


def _named(frame: FrameType, file: str) -> str | None:
    """Return what a frame of torch's says; None where it says nothing."""
    name = frame.f_code.co_name
    if file.endswith((_C10D, _FUNCTIONAL)):
        if name.startswith("_") or name == "wrapper":
            return None
        # An object's bytes are not what the program passed.
        return name if "object" in name else f"{name}{_of_what(frame.f_locals)}"
    if name == "_init" and file.startswith(_OURS):
        return "init_process_group"
    return next((told for part, told in _USERS if part in file), None)


def _of_what(names: dict[str, Any]) -> str:
    given = next((names[name] for name in _GIVEN if names.get(name) is not None), None)
    listed = given if isinstance(given, (list, tuple)) else [given]
    first = listed[0] if listed else None
    shape, dtype = getattr(first, "shape", None), getattr(first, "dtype", None)
    told = "" if shape is None else f" of {str(dtype).removeprefix('torch.')} {list(shape)}"
    if told and len(listed) > 1:
        told += f" and {len(listed) - 1} more"
    roots = [f" {word} rank {names[name]}" for name, word in _ROOTS if isinstance(names.get(name), int)]
    return told + "".join(roots)
