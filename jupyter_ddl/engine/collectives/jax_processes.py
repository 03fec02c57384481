"""Starts jax.distributed on this rank, and releases ranks that wait in a collective of JAX.

`jax.distributed.initialize()` needs no argument: the ranks meet at a port of ours, and rank 0 names a new port for
JAX's coordination service each time.

JAX cannot end a collective in which a rank waits. So the connections of its gloo are shut down, which it takes for the
end of its peers, and the client of the coordination service, by which ranks wait for each other before a first
collective. What JAX holds of them cannot be used again: the next cell that uses JAX gets new backends, and the ranks
meet again. Service and clients are JAX's recoverable ones: others end the process when a peer does.

Source: jax 0.10.2, jax/_src/distributed.py, State.initialize; xla, xla/pjrt/distributed/client.h (the callback that
ends the process cannot be replaced from Python: it raises std::bad_cast).

Runs on: every rank. Nothing here imports JAX.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine import malloc
from jupyter_ddl.engine.collectives import release_thread, sockets
from jupyter_ddl.engine.collectives.jax_calls import Calls
from jupyter_ddl.engine.collectives.jax_earlier import Earlier
from jupyter_ddl.engine.collectives.jax_ends import Ends
from jupyter_ddl.engine.collectives.jax_gloo import Gloo
from jupyter_ddl.engine.collectives.jax_service import Services
from jupyter_ddl.engine.collectives.jax_stalls import JaxWatched
from jupyter_ddl.engine.collectives.library import Turn
from jupyter_ddl.engine.collectives.patience import Patience
from jupyter_ddl.engine.collectives.rendezvous import Rendezvous
from jupyter_ddl.engine.collectives.stalls import Stalls
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import import_hooks
from jupyter_ddl.host.held_ports import HeldPorts
from jupyter_ddl.host.patching import Layer, patch, unpatched

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from jupyter_ddl.engine.collectives.meeting_point import MeetingPoint
    from jupyter_ddl.engine.world import World

# All ranks have met before they connect.
_CONNECT_S = 30
_SIGNALS = "orbax.checkpoint._src.futures.signaling_client"


class JaxProcesses:
    """jax.distributed on one rank.

    Args:
        world: this rank's.
        point: where the ranks meet; nothing else may use it.
    """

    def __init__(self, world: World, point: MeetingPoint) -> None:
        self._world = world
        self._point = point
        self._barrier = Rendezvous(point, world.rank, world.world_size)
        self._services = Services()
        self._turn = Turn("")
        # How many barriers there were in the run.
        self._count = 0
        # What `initialize` was given last, until the program's own `shutdown`.
        self._given: dict[str, Any] | None = None
        # Whether the backends are to be made again: their processes have ended.
        self._is_stale = False
        # Called when JAX's processes have been made by the program's `initialize`.
        self.begun: Callable[[], None] = lambda: None
        self._ended = threading.Event()
        self._released = threading.Event()
        self._lock = threading.Lock()
        self._gloo = Gloo(world.rank, lambda: _state().client)
        self._ends = Ends(world.rank, world.world_size)
        self._calls = Calls()
        self._watched = JaxWatched(world.world_size, self._calls, self._whole_client)
        self._stalls = Stalls(world.rank, world.world_size, self._watched)
        # What belongs to processes that have ended is refused.
        self._earlier = Earlier(lambda: self._is_stale or self._generation > 1)
        # How often processes were made: a release that comes late must not end the next ones.
        self._generation = 0

    @classmethod
    def of(cls, world: World, point: MeetingPoint, shared_device: str | None) -> JaxProcesses:
        """Return those of a rank that starts: they act when a program imports JAX.

        Args:
            world: this rank's.
            point: where the ranks meet.
            shared_device: the GPU that this rank shares with another; None where it shares none.
        """
        chosen = {"XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_ALLOCATOR"} & set(os.environ)
        if shared_device is not None and not chosen:
            # JAX would take three quarters of the GPU for the first rank.
            os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        processes = cls(world, point)
        processes._calls.install()
        processes._earlier.install()
        import_hooks.when_imported("jax.distributed", processes._install)
        return processes

    def begin_cell(self, turn: Turn) -> None:
        """Note that a cell begins: what an earlier one has ended, here or on another rank, is made again where used."""
        if (
            self._given is not None
            and not self._is_stale
            and (self._ended.is_set() or self._ends.are_apart(_state().client, self._turn.run))
        ):
            self._end(self._generation)
            self._is_stale = True
            # Now: JAX asks for backends once.
            _clear()
        self._turn, self._count = turn, 0
        self._released.clear()
        self._stalls.begin_cell(turn)

    def end_cell(self) -> None:
        """Keep the processes: idle ones cost nothing."""
        self._stalls.end_cell()

    def raised(self) -> None:
        """Tell the others where: where all have raised at the same place, the processes are as good as before."""
        self._stalls.end_cell()
        if self._given is not None and not self._turn.on_subset:
            self._ends.tell_raised(_state().client, self._turn.run, sys.exc_info()[2])

    def release(self) -> None:
        """End the collectives of this rank; new processes are made where a later cell uses JAX."""
        self._released.set()
        if self._given is not None:
            # No daemon: at the end of a script C++ code must not be cut off.
            generation = self._generation
            release_thread.begin(lambda: self._end(generation), "jupyter_ddl JAX release", daemon=False)

    def was_ended_elsewhere(self, text: str) -> bool:
        """Return whether an error's text says that a peer has ended the collective."""
        return "Gloo" in text and sockets.says_ended(text)

    def entered(self) -> int | None:
        """Return None: JAX does not say how many."""
        return None

    def _whole_client(self) -> Any:
        """Return the client of JAX's service; None where there is none, or JAX numbers processes as no rank is.

        None too while it connects: another thread's call ends the process then ("the JAX distributed service detected
        fatal errors").
        """
        if self._is_stale:
            return None
        state = _state()
        is_whole = (state.process_id, state.num_processes) == (self._world.rank, self._world.world_size)
        return state.client if is_whole else None

    def _end(self, generation: int) -> None:
        """End all connections of JAX's, first of all those in which ranks wait."""
        with self._lock:
            if self._ended.is_set() or generation != self._generation:
                return
            self._ended.set()
            self._gloo.shut_down()
            state = _state()
            self._ends.tell_ended(state.client)
            self._disconnect()

    def _disconnect(self) -> None:
        """Leave the coordination service, which stays for the others."""
        state = _state()
        self._services.keep(state)
        self._gloo.forget()
        self._calls.forget()
        # A recoverable client waits for no other rank.
        _module().State.shutdown(state)
        _forget_in_orbax()
        self._stalls.leave_board()

    def _install(self, public: ModuleType) -> None:
        malloc.keep_freed_memory()
        distributed, bridge = _module(), sys.modules["jax._src.xla_bridge"]
        if not hasattr(distributed, "_ENABLE_RECOVERABILITY"):
            # An older JAX, whose service ends all ranks where one leaves.
            return
        for module in (distributed, public):
            patch(module, "initialize", self._initialize, Layer.RANK)
            patch(module, "shutdown", self._shutdown, Layer.RANK)
        patch(bridge, "backends", self._backends, Layer.RANK)
        patch(sys.modules["jaxlib._jax"], "make_gloo_tcp_collectives", self._gloo.make, Layer.RANK)
        # JAX's own end leaves the service; rank 0's process holds it until all have.
        self._services.end_last()

    def _initialize(self, stock: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        """Replace `initialize`: ranks meet by themselves; again with the same arguments, it has been done.

        Raises:
            InvalidInput: it has been done with others.
        """
        given = inspect.signature(stock).bind(*args, **kwargs)
        given.apply_defaults()
        if self._given is not None and not self._is_stale and _state().client is not None:
            if self._given == given.arguments:
                # A notebook's cells run again.
                return
            raise InvalidInput(
                "jax.distributed.initialize() is called once.",
                "a call with other arguments than the one before",
                "Call jax.distributed.shutdown() first.",
            )
        self._begin(stock, dict(given.arguments))
        self.begun()

    def _begin(self, stock: Callable[..., None], given: dict[str, Any]) -> None:
        """Make this rank one of JAX's processes.

        Raises:
            InvalidInput: it has computed with JAX before; or the cell runs on some of the ranks.
        """
        if self._is_stale:
            _clear()
        elif sys.modules["jax._src.xla_bridge"].backends_are_initialized():
            raise InvalidInput(
                "jax.distributed.initialize() must come before all other use of JAX on a rank.",
                "a rank that has used JAX already",
                "Restart the ranks (%ddl restart), and call it in the first cell.",
            )
        # Else a rank that leaves the service ends all others.
        sys.modules["jax"].config.update("jax_enable_recoverability", True)
        wanted, is_ours = dict(given), self._meets_here(given)
        # From here on JAX is to compute on all ranks, also where this is interrupted and a later cell computes.
        self._given, was_stale, self._is_stale = given, self._is_stale, True
        # No other process is given the new service's port before it listens.
        with HeldPorts() as ports:
            if is_ours or (was_stale and given["num_processes"] == self._world.world_size):
                # Also where the program has chosen the port, which the earlier service may still have.
                port = self._meet(given["initialization_timeout"], ports)
            if is_ours:
                wanted |= self._of_these_ranks(given, port)
            with self._lock:
                self._generation += 1
                self._ended.clear()
            self._watched.begin()
            stock(**wanted)
        self._is_stale = False
        self._stalls.watch()

    def _of_these_ranks(self, given: dict[str, Any], port: int) -> dict[str, Any]:
        """Return the arguments that make all ranks the processes of JAX."""
        address = f"{self._point.address}:{port}"
        arguments = {
            "coordinator_address": address,
            "num_processes": self._world.world_size,
            "process_id": self._world.rank,
            "cluster_detection_method": "deactivate",
            "initialization_timeout": min(given["initialization_timeout"], _CONNECT_S),
            # By default it listens on all networks.
            "coordinator_bind_address": given["coordinator_bind_address"] or address,
        }
        if given["local_device_ids"] is None and "," in os.environ.get("CUDA_VISIBLE_DEVICES", ""):
            # Ranks of PyTorch see all GPUs of their host; in JAX each would take all of them.
            arguments["local_device_ids"] = self._world.local_rank
        return arguments

    def _meets_here(self, given: dict[str, Any]) -> bool:
        """Return whether a call is of the ranks as they were started: the program's own words win.

        Raises:
            InvalidInput: the cell runs on some of the ranks, and the others would be waited for.
        """
        own = ("coordinator_address", "cluster_detection_method")
        if any(given[name] for name in own) or "JAX_COORDINATOR_ADDRESS" in os.environ:
            return False
        world = self._world
        is_whole = given["process_id"] in (None, world.rank) and given["num_processes"] in (None, world.world_size)
        if is_whole and self._turn.on_subset:
            raise InvalidInput(
                "All ranks together become the processes of JAX, and this cell runs on some of them.",
                "jax.distributed.initialize(), or the first use of JAX after a cell that failed",
                "Run the cell on all ranks.",
            )
        return is_whole

    def _meet(self, timeout_s: float, ports: HeldPorts) -> int:
        """Wait for all ranks; return the port of the new coordination service, which rank 0 holds."""
        self._count += 1
        wait = Patience("jax.distributed.initialize", self._turn, self._world.rank, timeout_s, self._released)

        def choose() -> int:
            # All ranks have left the earlier one.
            self._services.end()
            return ports.add()

        return self._barrier.meet(f"{self._turn.run}/{self._count}", choose, wait)

    def _shutdown(self, _stock: Callable[..., None]) -> None:
        """Replace `shutdown`: no rank waits for others, and `initialize` may be called again."""
        if _state().client is not None:
            self._disconnect()
            self._is_stale = True
        self._given = None

    def _backends(self, stock: Callable[..., Any]) -> Any:
        """Replace `backends`, which JAX asks before its first computation: processes that were ended are made again."""
        if self._is_stale and self._given is not None:
            self._begin(unpatched(_module(), "initialize"), self._given)
        if self._given is None or sys.modules["jax._src.xla_bridge"].backends_are_initialized():
            found = stock()
        else:
            with self._watched.making_devices():
                found = stock()
        if self._given is not None and not self._ended.is_set():
            self._gloo.learn(_state().client)
        return found


def _module() -> ModuleType:
    return sys.modules["jax._src.distributed"]


def _state() -> Any:
    return _module().global_state


def _clear() -> None:
    """Forget the backends of processes that have ended; arrays that this rank holds whole stay readable."""
    sys.modules["jax._src.api"].clear_backends()


def _forget_in_orbax() -> None:
    """Have Orbax ask for JAX's client again: it keeps the first one, and could save nothing after a release.

    Source: orbax-checkpoint 0.12.8, _src/futures/signaling_client.py, get_signaling_client.
    """
    signaling = import_hooks.executed(_SIGNALS)
    forget = getattr(getattr(signaling, "get_signaling_client", None), "cache_clear", None)
    if forget is not None:
        forget()
