"""Saves the variables of one rank's cells, and loads them on the rank that takes its place.

`stage` loads, and `use` takes what was loaded into the namespace: all ranks have them, or none.

Runs on: every rank, in the main thread.
"""

from __future__ import annotations

import json
import pickle
from types import ModuleType
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.kept_variables.definitions import define, defined_names, definitions
from jupyter_ddl.engine.kept_variables.shared_pickle import Writer, is_of_keras, weights_of
from jupyter_ddl.host import files, untrusted_files

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path


class RankVariables:
    """The variables of one rank's cells.

    Args:
        shell: the rank's.
        own: the names that each rank has by itself, and their values.

    Example:
        >>> RankVariables(shell, {"rank": 0}).save(Path("kept"))
        {'kept': ['x'], 'left_out': {'lock': "TypeError: cannot pickle '_thread.lock' object"}}
    """

    def __init__(self, shell: Any, own: Mapping[str, int]) -> None:
        self._shell = shell
        self._own = own
        # Those that ranks before this one ran.
        self._definitions: list[str] = []
        self._staged: dict[str, Any] = {}

    def save(self, folder: Path) -> dict[str, Any]:
        """Write them into a folder of this user's; return the names of those that are `kept`, and why others are not.

        Raises:
            OSError: the folder cannot be written to.
        """
        cells = self._shell.history_manager.input_hist_parsed
        sources = [*self._definitions, *definitions(cells, self._shell)]
        kept, left_out = [], {}
        with files.replacing(self._pickle(folder)) as file:
            writer = Writer(file)
            for name, value in self._variables(defined_names(sources)):
                problem = writer.problem_with((name, value))
                if problem is None:
                    kept.append(name)
                else:
                    left_out[name] = problem
        files.replace(self._record(folder), json.dumps({"definitions": sources, "kept": kept}))
        return {"kept": sorted(kept), "left_out": left_out}

    def stage(self, folder: Path, left_out: Collection[str]) -> dict[str, Any]:
        """Load what `save` wrote, without using it; return the first lines of definitions that `raised`, and why.

        Args:
            folder: of `save`.
            left_out: variables that another rank does not have.

        Raises:
            OSError: the files are gone, or another user's.
            Exception: what the code of a value's class raises.
        """
        record = untrusted_files.read_object(self._record(folder), only_own=True)
        self._definitions = record["definitions"]
        raised = define(self._definitions, self._shell)
        with untrusted_files.open_file(self._pickle(folder), only_own=True) as file:
            # This user's own file, in a folder that no other user can enter.
            reader = pickle.Unpickler(file)  # noqa: S301
            pairs = [reader.load() for _ in record["kept"]]
        self._staged = {name: value for name, value in pairs if name not in left_out}
        return {"raised": raised}

    def use(self, *, is_wanted: bool) -> None:
        """Set the variables that were staged, or forget them."""
        staged, self._staged = self._staged, {}
        if is_wanted:
            self._shell.user_ns.update(staged)

    def _variables(self, defined: Collection[str]) -> list[tuple[str, Any]]:
        """Return what cells have assigned, by name; of Keras's objects those with most weights first."""
        hidden = self._shell.user_ns_hidden
        found = [
            (name, value)
            for name, value in self._shell.user_ns.items()
            if not name.startswith("_")
            and name not in self._own
            and hidden.get(name, hidden) is not value
            and not (name in defined and (callable(value) or isinstance(value, ModuleType)))
        ]
        return sorted(found, key=lambda pair: len(weights_of(pair[1])) if is_of_keras(pair[1]) else 0, reverse=True)

    def _pickle(self, folder: Path) -> Path:
        return folder / f"rank-{self._own['rank']}.pickle"

    def _record(self, folder: Path) -> Path:
        return folder / f"rank-{self._own['rank']}.json"
