"""Reads profiles: a file has a table for each, `[a100]`, with its keys.

In it are keys such as `launcher = "slurm"`, and the tables `[a100.defaults]`, `[a100.limits]` and `[a100.environment]`.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.untrusted_files import read_bytes
from jupyter_ddl.launch.place import MPIEXEC
from jupyter_ddl.launch.profiles.limits import seconds_of
from jupyter_ddl.launch.profiles.places import check_trusted, profile_files, profile_folders
from jupyter_ddl.launch.profiles.profile import SUBMITS, Defaults, Limits, Named, Profile
from jupyter_ddl.protocol.gpu_allotment import SHARED
from jupyter_ddl.protocol.idle_stop import NEVER, idle_stop_of
from jupyter_ddl.protocol.memory_limit import bytes_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_FILE_BYTES = 1 << 20
_LEAST_SHARE_BYTES = 2 * 2**30
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TABLES: dict[str, Any] = {"defaults": Defaults, "limits": Limits}


def all_profiles(folders: tuple[Path, ...] | None = None) -> dict[str, Named]:
    """Return the profiles by their names; a later file's profile replaces an earlier one's of its name.

    Raises:
        InvalidInput: a file breaks a rule; the error names the file and the key.
    """
    found: dict[str, Named] = {}
    for file in profile_files(profile_folders() if folders is None else folders):
        found |= {one.name: one for one in read_profiles(file)}
    return found


def profile_named(name: str, folders: tuple[Path, ...] | None = None) -> Named:
    """Return the profile of a name.

    Raises:
        InvalidInput: there is none, or a file breaks a rule.
    """
    known = all_profiles(folders)
    if name not in known:
        where = ", ".join(str(folder) for folder in (profile_folders() if folders is None else folders))
        raise InvalidInput(
            "A profile must be one that a file names.",
            repr(name),
            f"Profiles: {', '.join(sorted(known)) or 'none'}. Files of them are looked for in {where}.",
        )
    return known[name]


def read_profiles(file: Path) -> list[Named]:
    """Return a file's profiles, in order.

    Raises:
        InvalidInput: it cannot be read, another user can change it, it is no TOML, or a key breaks a rule.
    """
    try:
        check_trusted(file)
        tables = tomllib.loads(read_bytes(file.resolve(), limit=_FILE_BYTES).decode())
    except OSError as error:
        raise _refused("A file of profiles must be readable.", file, error.strerror or str(error)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _refused("A file of profiles must be TOML.", file, str(error)) from error
    return [_profile(name, table, file) for name, table in tables.items()]


def _profile(name: str, table: object, file: Path) -> Named:
    if not _NAME.fullmatch(name) or not isinstance(table, dict):
        raise _refused("Each profile must be a table with its name.", file, repr(name), "Write [a100] above its keys.")
    _check_keys(name, table, _keys_of(Profile), file)
    for inner, kind in _TABLES.items():
        if isinstance(table.get(inner), dict):
            _check_keys(f"{name}.{inner}", table[inner], _keys_of(kind), file)
    try:
        profile = msgspec.convert(table, Profile)
    except msgspec.ValidationError as error:
        said = str(error).replace("`$.", f"`{name}.")
        raise _refused("A profile's key must have a value of its type.", file, said) from error
    _check_values(name, profile, file)
    return Named(name, str(file), profile)


def _keys_of(kind: Any) -> tuple[str, ...]:
    # Any: the attribute is its metaclass's.
    return tuple(kind.__struct_fields__)


def _check_keys(where: str, table: dict[str, Any], allowed: Iterable[str], file: Path) -> None:
    for key in table:
        if key not in allowed:
            raise _refused(
                "A profile's keys must be known.", file, f"{where}.{key}", f"[{where}] takes {', '.join(allowed)}."
            )


def _check_values(name: str, profile: Profile, file: Path) -> None:
    counts = {
        **{f"defaults.{key}": getattr(profile.defaults, key) for key in _keys_of(Defaults)},
        **{f"limits.{key}": getattr(profile.limits, key) for key in _keys_of(Limits)},
    }
    for key, value in counts.items():
        least = 0 if key.endswith("gpus_per_node") else 1
        if isinstance(value, int) and value < least:
            raise _refused(f"A count must be at least {least}.", file, f"{name}.{key} = {value}")
        if key.endswith(".time") and value is not None and seconds_of(value) is None:
            raise _refused("A time must be HOURS:MINUTES or HOURS:MINUTES:SECONDS.", file, f"{name}.{key} = {value!r}")
        if key.endswith(".idle_stop") and isinstance(value, str):
            _check_idle_stop(name, key, value, file)
        if key.endswith("memory_per_rank") and isinstance(value, str):
            _check_memory(name, key, value, file)
    _check_gpus(name, profile, file)
    for variable, value in profile.environment.items():
        if not _VARIABLE.fullmatch(variable) or "\0" in value:
            raise _refused("A variable must have a name that a shell takes.", file, f"{name}.environment.{variable}")
    for line in (*profile.modules, *profile.setup, *profile.options):
        if "\n" in line or "\0" in line:
            raise _refused("Modules, options and lines of setup must be one line each.", file, f"{name}: {line!r}")
    named = [key for key in ("hosts", "hostfile") if getattr(profile, key) is not None]
    if profile.launcher == "hosts" and len(named) != 1:
        given = " and ".join(named) or "neither"
        raise _refused('With launcher = "hosts", a profile names hosts or a hostfile.', file, f"{name}: {given}")
    if profile.launcher != "hosts" and (named or profile.ssh is not None):
        raise _refused('Hosts go with launcher = "hosts".', file, f"{name}.launcher = {profile.launcher!r}")
    if profile.launcher != "lsf" and profile.mpi_launcher != MPIEXEC:
        raise _refused('Ranks start by jsrun where launcher = "lsf".', file, f"{name}.launcher = {profile.launcher!r}")
    if profile.launcher not in SUBMITS and profile.options:
        raise _refused("Options are those of a scheduler.", file, f"{name}.launcher = {profile.launcher!r}")


def _check_idle_stop(name: str, key: str, value: str, file: Path) -> None:
    received = f"{name}.{key} = {value!r}"
    if key == "limits.idle_stop" and value == NEVER:
        raise _refused("A limit of idle ranks is a time.", file, received, "Write 2h, or leave it out.")
    try:
        idle_stop_of(value, received)
    except InvalidInput as error:
        raise _refused(error.rule, file, received, error.remedy) from error


def _check_memory(name: str, key: str, value: str, file: Path) -> None:
    try:
        bytes_of(value)
    except InvalidInput as error:
        raise _refused(error.rule, file, f"{name}.{key} = {value!r}", error.remedy) from error


def _check_gpus(name: str, profile: Profile, file: Path) -> None:
    limits = profile.limits
    received = f"{name}.limits.gpus = {limits.gpus!r}, gpu_memory_per_rank = {limits.gpu_memory_per_rank!r}"
    if (limits.gpus == SHARED) != (limits.gpu_memory_per_rank is not None):
        raise _refused('gpu_memory_per_rank goes with gpus = "shared".', file, received)
    if limits.gpus is not None and profile.launcher in SUBMITS:
        raise _refused("A scheduler gives its jobs their GPUs.", file, f"{received}, launcher = {profile.launcher!r}")
    if limits.gpu_memory_per_rank is not None and bytes_of(limits.gpu_memory_per_rank) < _LEAST_SHARE_BYTES:
        raise _refused("A share of a GPU's memory is at least 2GiB, of which CUDA takes one.", file, received)


def _refused(rule: str, file: Path, received: str, remedy: str | None = None) -> InvalidInput:
    return InvalidInput(rule, f"{file}: {received}", remedy or "Correct the file; docs/hpc-site.md has all keys.")
