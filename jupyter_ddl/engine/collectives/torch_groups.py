"""Starts torch.distributed on this rank, and releases ranks that wait in its collectives.

`init_process_group()` finds its peers by a store that this module makes: rank 0's process serves it as long as the
rank lives, and each initialisation has keys of its own there, named by the run. So it can be called again after a
release, and in every cell.

gloo has no way to end a collective in which a rank waits: `abort`, `shutdown` and `destroy_process_group` do nothing
there while anything refers to the group, as a DDP model does. So its connections are shut down, which it takes for the
end of its peers. Source: torch 2.11 and 2.13, torch/csrc/distributed/c10d/ProcessGroupGloo.hpp has no `abort`;
pytorch issue 130345.

Runs on: every rank. Nothing here imports torch.
"""

from __future__ import annotations

import inspect
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.collectives import gloo_threads, gloo_works, release_thread, sockets
from jupyter_ddl.engine.collectives.library import Turn
from jupyter_ddl.engine.collectives.stalls import Stalls
from jupyter_ddl.engine.collectives.torch_counts import Counts
from jupyter_ddl.engine.collectives.torch_stalls import TorchWatched
from jupyter_ddl.engine.collectives.torch_store import RankStore
from jupyter_ddl.engine.compiled_cache import keep_compiled
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import import_hooks
from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.protocol.frameworks import REQUIREMENTS
from jupyter_ddl.protocol.rank_sets import named

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from jupyter_ddl.engine.collectives.meeting_point import MeetingPoint
    from jupyter_ddl.engine.world import World

_MODULE = "torch.distributed.distributed_c10d"
_LOOK_S = 0.01
# Longer than a release takes; NCCL may be slow to end.
_END_S = 30.0


class TorchGroups:
    """torch.distributed on one rank.

    Args:
        world: this rank's.
        point: where rank 0 serves the store.
        shared_device: the GPU that this rank shares with another, for people; None where it shares none.
    """

    def __init__(self, world: World, point: MeetingPoint, shared_device: str | None = None) -> None:
        self._world = world
        self._point = point
        self._shared_device = shared_device
        self._turn = Turn("")
        # Of the run in which they were made: the group of all ranks, and how many there were.
        self._made_in = ""
        self._count = 0
        self._rank_store = RankStore(point, world.world_size)
        self._store: Any = None
        self._connections: set[int] = set()
        self._gloo = gloo_threads.GlooThreads()
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._ending: threading.Thread | None = None
        self._counts = Counts()
        self._stalls = Stalls(world.rank, world.world_size, TorchWatched(self._groups, self._rank_store.connection))

    @classmethod
    def of(cls, world: World, point: MeetingPoint, shared_device: str | None) -> TorchGroups:
        """Return those of a rank that starts: its variables are set, and they act when a program imports torch.

        Collective: every rank must call this.
        """
        point.set_variables(world)
        groups = cls(world, point, shared_device)
        import_hooks.when_imported(_MODULE, groups._install)
        import_hooks.when_imported("torch.autograd.profiler", gloo_works.install)
        return groups

    def begin_cell(self, turn: Turn) -> None:
        """Note that a cell begins."""
        if self._ending is not None:
            # A release of the cell before must not shut down the connections that this one makes.
            self._ending.join(_END_S)
            self._ending = self._ending if self._ending.is_alive() else None
        self._turn, self._count = turn, 0
        self._released.clear()
        self._stalls.begin_cell(turn)

    def end_cell(self) -> None:
        """Keep the groups: an idle one costs nothing."""
        self._stalls.end_cell()

    def raised(self) -> None:
        """Keep the groups: where all ranks raise at the same place, they are as good as before."""
        self._stalls.end_cell()

    def release(self) -> None:
        """End the collectives of this rank, and all its groups; `init_process_group` makes new ones."""
        self._released.set()
        c10d = _c10d()
        if c10d is not None and c10d.is_initialized():
            # No daemon, as the thread that asks may be: at the end of a script C++ code must not be cut off.
            self._ending = release_thread.begin(lambda: self._end(c10d), "jupyter_ddl torch release", daemon=False)

    def was_ended_elsewhere(self, text: str) -> bool:
        """Return whether an error's text says that a peer has ended the collective."""
        return "gloo" in text and sockets.says_ended(text)

    def entered(self) -> int | None:
        """Return the number of collectives that the group of all ranks has begun here."""
        c10d = _c10d()
        if c10d is None or not c10d.is_initialized():
            return None
        return self._counts.of_all_ranks()

    @property
    def run(self) -> str:
        """The run of the current cell, the same on all ranks."""
        return self._turn.run

    def connection(self) -> Any:
        """Return a connection of its own to the ranks' store, which rank 0 serves from here on; None until it does."""
        self._rank_store.serve()
        return self._rank_store.connection()

    def collectives(self) -> int | None:
        """Return how many collectives this rank has entered in all groups; None where one of them is not counted."""
        c10d = _c10d()
        return 0 if c10d is None or not c10d.is_initialized() else self._counts.in_all()

    def _end(self, c10d: ModuleType) -> None:
        with self._lock:
            # `new_group` waits for the others at the store: the next one gets a connection of its own.
            with self._stalls.away_from_board():
                sockets.shut_down(self._connections | sockets.connections(to_port=self._point.port))
            self._connections.clear()
            self._store = None
            # Errors: the program destroys it meanwhile.
            with suppress(ValueError, RuntimeError, AssertionError):
                # NCCL's communicators end by it. Private, and in every torch since 2.6.
                end = getattr(c10d, "_abort_process_group", c10d.destroy_process_group)
                if c10d.is_initialized():
                    end()

    def _install(self, c10d: ModuleType) -> None:
        keep_compiled()
        patch(c10d, "init_process_group", self._init, Layer.RANK)
        patch(c10d, "new_group", self._new_group, Layer.RANK)
        self._counts.install(c10d)

    def _init(self, stock: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        """Replace `init_process_group`: ranks meet at our store, and may be interrupted meanwhile."""
        _require_version()
        self._require_released()
        given = inspect.signature(stock).bind(*args, **kwargs)
        given.apply_defaults()
        wanted = given.arguments
        self._check_backend(wanted)
        c10d = _c10d()
        assert c10d is not None
        if c10d.is_initialized() and self._made_in != self._turn.run:
            # The cell was run before, or another one made the group: a notebook's cells may run again.
            c10d.destroy_process_group()
        self._stalls.watch()
        if not c10d.is_initialized() and self._meets_here(wanted):
            rank, size = self._world.rank, self._world.world_size
            wanted |= {"store": self._meet(wanted["timeout"]), "init_method": None, "rank": rank, "world_size": size}
        self._made_in = self._turn.run
        hook = sys.excepthook
        self._noting_connections(lambda: stock(*given.args, **given.kwargs))
        # Stock's marks each line of a traceback with the rank, as our logs do.
        sys.excepthook = hook

    def _new_group(self, stock: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        made: list[Any] = []
        given = inspect.signature(stock).bind(*args, **kwargs).arguments
        self._counts.note_new_group(of_members_only=bool(given.get("use_local_synchronization")))
        self._noting_connections(lambda: made.append(stock(*args, **kwargs)))
        return made[0]

    def _noting_connections(self, make: Callable[[], None]) -> None:
        """Call what makes a group, and note its connections, which a release shuts down, and gloo's threads."""
        port = self._point.port
        before = sockets.connections(without_port=port)
        make()
        self._gloo.note(gloo_threads.named())
        with self._lock:
            self._connections |= sockets.connections(without_port=port) - before

    def _meets_here(self, wanted: dict[str, Any]) -> bool:
        """Return whether a call is of the ranks as they were started, in whatever words.

        Raises:
            InvalidInput: the cell runs on some of the ranks, and the others would be waited for.
        """
        method, world = wanted["init_method"], self._world
        ours = f"tcp://{self._point.address}:{self._point.port}"
        if wanted["store"] is not None or not (method is None or method.startswith("env://") or method == ours):
            return False
        is_whole = wanted["rank"] in (-1, world.rank) and wanted["world_size"] in (-1, world.world_size)
        if is_whole and self._turn.on_subset:
            raise InvalidInput(
                "A process group is made by all ranks together, and this cell runs on some of them.",
                "init_process_group()",
                "Run the cell that calls it on all ranks; dist.new_group(ranks) is a group of some of them.",
            )
        return is_whole

    def _require_released(self) -> None:
        """Check that no release of an earlier cell still runs, which would end the new groups too.

        Raises:
            InvalidInput: one does, after half a minute.
        """
        if self._ending is not None and self._ending.is_alive():
            raise InvalidInput(
                "A process group is made when the groups of the cell before have ended.",
                f"groups that have not ended in {_END_S:.0f} s",
                "Start the ranks again: %ddl restart",
            )

    def _check_backend(self, wanted: dict[str, Any]) -> None:
        """Choose gloo where ranks share a GPU, unless the program has chosen.

        Raises:
            InvalidInput: it has chosen NCCL.
        """
        if self._shared_device is None:
            return
        if wanted["backend"] is None:
            wanted["backend"] = "gloo"
        elif "nccl" in str(wanted["backend"]).lower():
            raise InvalidInput(
                "NCCL needs a GPU of its own for each rank.",
                f'init_process_group("{wanted["backend"]}") on ranks that share {self._shared_device}',
                'Use backend="gloo", or start one rank for each GPU.',
            )

    def _meet(self, timeout: timedelta | None) -> Any:
        """Wait for all ranks at the store; return what is this initialisation's part of it."""
        from torch.distributed import PrefixStore

        store = self._joined_store()
        self._count += 1
        self._counts.begin()
        part = PrefixStore(f"{self._turn.run}/{self._count}", store)
        part.set(str(self._world.rank), "here")
        due_s = time.monotonic() + (timeout or timedelta(minutes=30)).total_seconds()
        while missing := [rank for rank in range(self._world.world_size) if not part.check([str(rank)])]:
            self._wait_or_raise(due_s, f"the process group waits for {named(missing)}, which did not call it")
        return part

    def _joined_store(self) -> Any:
        """Return the store of this world of ranks, as soon as rank 0 serves it."""
        if self._store is None:
            self._rank_store.serve()
            due_s = time.monotonic() + timedelta(minutes=30).total_seconds()
            while not self._rank_store.is_served():
                self._wait_or_raise(due_s, "the process group waits for rank 0, which did not call it")
            self._store = self._rank_store.connect()
        return self._store

    def _groups(self) -> dict[str, tuple[int, tuple[int, ...]]]:
        """Return each group that this rank is in, its number of collectives here, and its ranks."""
        size, initialisation = self._world.world_size, f"{self._made_in}/{self._count}"
        found = {"init": (self._count, tuple(range(size)))}
        c10d = _c10d()
        if c10d is not None and c10d.is_initialized():
            groups = self._counts.by_group(size).items()
            found |= {f"{initialisation}/{group}": counted for group, counted in groups}
        return found

    def _wait_or_raise(self, due_s: float, why: str) -> None:
        """Wait a moment, in Python, where an interrupt ends it."""
        if self._released.wait(_LOOK_S):
            raise RuntimeError(f"The cell was released while {why}.")
        if time.monotonic() > due_s:
            raise RuntimeError(f"init_process_group() timed out: {why}.")


def _require_version() -> None:
    """Refuse a torch whose gloo counts no collectives, and has groups that stay after a release.

    Raises:
        InvalidInput: torch is older.
    """
    import torch

    requirement = REQUIREMENTS["torch"]
    lowest = requirement.partition(">=")[2]
    # NVIDIA's images have versions such as 2.7.0a0.
    if torch.__version__ < f"{lowest}.0a0":
        raise InvalidInput(
            f"Process groups on the ranks need torch {lowest} or a later one.",
            f"torch {torch.__version__}",
            f"Run: pip install '{requirement}'",
        )


def _c10d() -> ModuleType | None:
    """Return torch's module of process groups; None where no program has imported it."""
    return import_hooks.executed(_MODULE) if _MODULE in sys.modules else None
