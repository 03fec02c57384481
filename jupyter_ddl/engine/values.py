"""Sets variables of this rank to values from the kernel, and sends values there; keeps them for the ranks that follow.

Pickling and unpickling run the code of the values' classes: what that raises is the answer, and a release interrupts
it.

Runs on: every rank, in the main thread.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.error_text import text_of
from jupyter_ddl.engine.kept_variables.rank_variables import RankVariables
from jupyter_ddl.protocol.codec import encode
from jupyter_ddl.protocol.value_requests import PullValue, PushValues, SaveVariables, StageVariables, ValuesMoved

if TYPE_CHECKING:
    from jupyter_ddl.engine.guard import Guard
    from jupyter_ddl.protocol.value_requests import Move

MESSAGE_TYPE = "ddl_values"


class Values:
    """The values in one rank's namespace.

    Args:
        kernel: the engine's.
        rank: its number.
        guard: lets releases interrupt what takes too long.
    """

    def __init__(self, kernel: Any, rank: int, guard: Guard) -> None:
        self._kernel = kernel
        self._rank = rank
        self._guard = guard
        self._variables = RankVariables(kernel.shell, guard.names)

    def answer(self, request: Move, stream: Any, identities: Any, message: dict[str, Any]) -> None:
        """Do what is asked for, and send the answer to the socket that asked."""
        buffers: list[Any] = []
        error = None
        released: list[str] = []
        try:
            with self._guard.interruptible(request.move) as released:
                buffers = self._moved(request, message)
        except BaseException as raised:  # noqa: BLE001  a value's own code may raise SystemExit too; the kernel waits
            buffers, error = [], f"{type(raised).__name__}: {text_of(raised)}"
        self._kernel.session.send(
            stream,
            MESSAGE_TYPE,
            encode(ValuesMoved(request.move, self._rank, error, released[0] if error and released else None)),
            parent=message,
            ident=identities,
            buffers=buffers,
        )

    def _moved(self, request: Move, message: dict[str, Any]) -> list[Any]:
        """Do what is asked for; return the buffers of the answer."""
        if isinstance(request, PushValues):
            self._set(request, message["buffers"])
            return []
        if isinstance(request, PullValue):
            # The cluster's own user asks, who may run any cell here.
            return _pickled(eval(request.name, self._namespace))  # noqa: S307
        if isinstance(request, SaveVariables):
            return _pickled(self._variables.save(Path(request.folder)))
        if isinstance(request, StageVariables):
            return _pickled(self._variables.stage(Path(request.folder), request.left_out))
        self._variables.use(is_wanted=request.is_wanted)
        return []

    def _set(self, request: PushValues, buffers: list[Any]) -> None:
        from ipyparallel.serialize import deserialize_object

        values, left = {}, list(buffers)
        for name, frames in zip(request.names, request.frames, strict=True):
            # In the rank's namespace: functions of the notebook find their globals there.
            values[name], _ = deserialize_object(left[:frames], self._namespace)
            del left[:frames]
        # All or none: each could be unpickled.
        for name, value in values.items():
            if name.isidentifier():
                self._namespace[name] = value
            else:
                _assign(name, value, self._namespace)

    @property
    def _namespace(self) -> dict[str, Any]:
        namespace: dict[str, Any] = self._kernel.shell.user_ns
        return namespace


def _pickled(value: object) -> list[Any]:
    from ipyparallel.serialize import serialize_object

    pickled: list[Any] = serialize_object(value)
    return pickled


def _assign(target: str, value: Any, namespace: dict[str, Any]) -> None:
    """Assign to an item or an attribute, as `weights["layer"]`."""
    temporary = "_jupyter_ddl_pushed"
    namespace[temporary] = value
    try:
        exec(f"{target} = {temporary}", namespace)  # noqa: S102  the cluster's own user asks
    finally:
        del namespace[temporary]
