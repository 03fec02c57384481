"""Plans a cluster: how many ranks, on which devices, with how many threads.

`plan` turns what the user requested into a ClusterSpec, and refuses what this host cannot do.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_ddl.cluster import gpu_choice, gpu_places
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.topology import (
    VISIBLE_VARIABLE,
    default_rank_count,
    physical_cores,
    usable_cores,
)
from jupyter_ddl.launch.place import HERE, Place
from jupyter_ddl.launch.profiles.limits import idle_stop_in
from jupyter_ddl.launch.schedulers.known import scheduler_of
from jupyter_ddl.paths import SKLEARN_VARIABLE
from jupyter_ddl.protocol import settled_variables
from jupyter_ddl.protocol.frameworks import AUTO, checked
from jupyter_ddl.protocol.number_texts import counted
from jupyter_ddl.protocol.sklearn_names import NONE, checked_sklearn
from jupyter_ddl.protocol.standby import NEVER, checked_standby

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_ddl.launch.profiles.limits import Allowed
    from jupyter_ddl.protocol.idle_stop import IdleStop

DEFAULT_NAME = "default"
THREADS_VARIABLE = "TF_NUM_INTRAOP_THREADS"
# More than the largest job has; a larger number would fill this process's memory before mpiexec refuses it.
_MOST = 1_000_000
_SHOWN_BITS = 128
_NAMED_HOSTS = 8


def plan(
    n: int | None = None,
    gpus: Sequence[str | int] | str | None = None,
    threads: int | None = None,
    name: str | None = None,
    environment: Mapping[str, str] | None = None,
    keep: bool = False,
    oversubscribe: bool = False,
    place: Place = HERE,
    framework: str = AUTO,
    standby: str = NEVER,
    idle_stop: IdleStop | None = None,
    *,
    keep_variables: bool = False,
    allowed: Allowed | None = None,
) -> ClusterSpec:
    """Return what to start for what the user requested, checked against this host.

    Runs on: kernel.

    Args:
        n: ranks; by default one per GPU, and with no GPU one per two physical cores, at least 2; on several hosts one
            per slot.
        gpus: the GPUs to use, by index or UUID, as a list or as "0,1"; "none" or an empty list for the cores; by
            default every GPU that CUDA_VISIBLE_DEVICES allows, on several hosts that of each host.
        threads: TensorFlow's threads on each rank; by default TF_NUM_INTRAOP_THREADS, else the rank's share of the
            cores.
        name: the cluster's name, by default "default".
        environment: variables for the ranks.
        keep: let the ranks outlive this kernel.
        oversubscribe: let several ranks, or clusters, share a GPU, or more ranks than slots onto a host.
        place: where the ranks are.
        framework: what the ranks import before the first cell, as `protocol.frameworks` names it.
        standby: "auto" or "never": whether others wait to take their place.
        idle_stop: when idle ranks are ended; None for never.
        keep_variables: save what cells defined there before that.
        allowed: the most that the profile of the start allows; None without one.

    Raises:
        InvalidInput: what was requested breaks a rule.
        ClusterError: NVML is there but does not work.
    """
    if n is not None:
        check_count("n", n, "Pass n=1 or more, or leave it out to get one rank per GPU.")
    if threads is not None:
        check_count("threads", threads, "Pass threads=1 or more, or leave it out to share the cores among the ranks.")
    variables = _checked_environment(environment or {})
    if place.is_here and place.container is None:
        # Elsewhere another Python may have what this one lacks: the ranks check.
        checked_sklearn(variables.get(SKLEARN_VARIABLE, NONE))
    common: dict[str, Any] = {
        "name": checked_name(DEFAULT_NAME if name is None else name),
        "environment": variables,
        "keep": keep,
        "oversubscribe": oversubscribe,
        "place": place,
        "framework": checked(framework),
        "standby": checked_standby(standby),
        "idle_stop": idle_stop,
        "keep_variables": _checked_keeping(place, keep_variables=keep_variables),
    }
    wanted = threads or _threads_from(variables)
    if place.is_here:
        chosen = _here(n, gpus, wanted, allowed, oversubscribe=oversubscribe)
    else:
        chosen = _on_hosts(n, gpus, wanted, place, oversubscribe=oversubscribe)
    if place.container is not None:
        chosen["note"] += f" In the image {place.container}."
    spec = ClusterSpec(**common, **chosen, refuses_devices=gpu_choice.is_none(gpus))
    return spec if allowed is None else limited(spec, allowed)


def _here(
    n: int | None,
    gpus: Sequence[str | int] | str | None,
    threads: int | None,
    allowed: Allowed | None,
    *,
    oversubscribe: bool,
) -> dict[str, Any]:
    """Return the fields of a spec that depend on what this host has."""
    pool = gpu_choice.chosen(gpus)
    allotment = None if allowed is None else allowed.allotment
    if pool and allowed is not None and allotment is not None:
        # Which of them each rank gets is known when it has claimed it.
        count = n or gpu_places.default_count(pool, allowed, allotment)
        each = threads or max(1, usable_cores() // count)
        note = f"{counted(count, 'rank')}, {counted(each, 'thread')} each."
        among = () if gpus is None else pool
        return {"n": count, "devices": (), "threads": each, "note": note, "finds_devices": True, "gpus_among": among}
    ranks = n if n is not None else default_rank_count(len(pool), physical_cores())
    if pool and ranks > len(pool) and not oversubscribe:
        raise InvalidInput(
            "Engines must not outnumber GPUs.",
            f"n={ranks}, GPUs={len(pool)}",
            f"Pass n<={len(pool)}, or --oversubscribe.",
        )
    devices = tuple(pool[rank % len(pool)] for rank in range(ranks)) if pool else ()
    cores = usable_cores()
    threads_each = threads or max(1, cores // ranks)
    note = _note(ranks, len(set(devices)), cores, threads_each, refused=gpu_choice.is_none(gpus))
    return {"n": ranks, "devices": devices, "threads": threads_each, "note": note}


def _on_hosts(
    n: int | None, gpus: Sequence[str | int] | str | None, threads: int | None, place: Place, *, oversubscribe: bool
) -> dict[str, Any]:
    """Return the fields of a spec where each rank finds on its host what it computes with."""
    if gpus is not None and not gpu_choice.is_none(gpus):
        raise InvalidInput(
            "On several hosts each rank takes a GPU of its own host, by its number there.",
            f"gpus={gpus!r}",
            "Leave --gpus out, or pass --gpus none to use the cores.",
        )
    ranks = place.slots if n is None else n
    if ranks > place.slots and not oversubscribe:
        raise InvalidInput(
            "Ranks must not outnumber the slots of their hosts.",
            f"n={ranks}, slots={place.slots}",
            "Name more slots, as in -H nodea:4,nodeb:4, or pass --oversubscribe.",
        )
    named = ", ".join(one.host for one in place.hosts[:_NAMED_HOSTS])
    named += f" and {len(place.hosts) - _NAMED_HOSTS} more" if len(place.hosts) > _NAMED_HOSTS else ""
    note = f"{counted(ranks, 'rank')} on {counted(len(place.hosts), 'host')} ({named})."
    scheduler = scheduler_of(place)
    if scheduler is not None:
        nodes = counted(len(place.hosts), "node")
        note = f"{scheduler.title} job {place.job}: {nodes} ({named}), {counted(ranks, 'rank')}."
    return {"n": ranks, "devices": (), "threads": threads, "note": note, "finds_devices": not gpu_choice.is_none(gpus)}


def replanned(spec: ClusterSpec, changes: Mapping[str, Any]) -> ClusterSpec:
    """Return a spec with other arguments of `plan`, those in `changes`; their `env` is added to the variables.

    Raises:
        InvalidInput: what was requested breaks a rule, or is more than the profile allows that the ranks started with.
    """
    wanted: dict[str, Any] = {
        "n": spec.n,
        # Ranks that share a GPU have it several times.
        "gpus": "none" if spec.refuses_devices else list(dict.fromkeys(spec.devices or spec.gpus_among)) or None,
        "threads": spec.threads,
        "name": spec.name,
        "keep": spec.keep,
        "oversubscribe": spec.oversubscribe,
        "place": spec.place,
        "framework": spec.framework,
        "standby": spec.standby,
        "idle_stop": spec.idle_stop,
        "keep_variables": spec.keep_variables,
    }
    if "n" in changes and "gpus" not in changes and spec.devices:
        # Another number of ranks takes other GPUs.
        del wanted["gpus"]
    wanted |= {name: value for name, value in changes.items() if name != "env"}
    if "idle_stop" in changes:
        wanted["idle_stop"] = idle_stop_in(None, changes["idle_stop"])
    return plan(**wanted, environment=spec.environment | dict(changes.get("env", {})), allowed=spec.allowed)


def limited(spec: ClusterSpec, allowed: Allowed) -> ClusterSpec:
    """Return a spec that keeps what a profile allows, and is within it.

    Raises:
        InvalidInput: it is more.
    """
    allowed.check(ranks=spec.n, nodes=len(spec.place.hosts))
    allowed.check_idle_stop(spec.idle_stop)
    spec = replace(spec, allowed=allowed)
    note = spec.note + gpu_places.note(spec)
    if allowed.memory_per_rank is not None:
        note += (
            f" Each may hold {allowed.memory_per_rank} of memory (the profile {allowed.profile_of('memory_per_rank')})."
        )
    # Ranks that wait to take the place of these would need GPUs too.
    return replace(spec, note=note, standby=spec.standby if allowed.gpus is None else NEVER)


def variables_from(pairs: Sequence[str]) -> dict[str, str]:
    """Return the variables that `--env NAME=VALUE` options give.

    Raises:
        InvalidInput: one has no equals sign.
    """
    variables = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInput("--env takes a name and a value.", pair, "Write --env NAME=VALUE.")
        variables[name] = value
    return variables


def check_count(what: str, value: object, remedy: str) -> None:
    """Check a number of ranks, nodes or threads.

    Raises:
        InvalidInput: it is no whole number, below 1 or too large.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidInput(f"{what} must be a whole number of at least 1.", f"{what}={value!r}", remedy)
    if value > _MOST:
        received = value if value.bit_length() <= _SHOWN_BITS else f"a number of {value.bit_length()} bits"
        raise InvalidInput(f"{what} must be at most {_MOST:,}.", f"{what}={received}", remedy)


def checked_name(name: str) -> str:
    """Return a cluster's name.

    Raises:
        InvalidInput: it is none.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", name):
        raise InvalidInput(
            "A cluster's name must be 1 to 64 letters, digits, dots, underscores or hyphens, with no dot in front.",
            f"name={name!r}",
            "Pass a name such as 'train-2'.",
        )
    return name


def _checked_environment(environment: Mapping[str, str]) -> dict[str, str]:
    for variable, value in environment.items():
        if not isinstance(variable, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
            raise InvalidInput(
                "A variable's name must be letters, digits and underscores, with no digit in front.",
                f"{variable!r}",
                "Pass --env NAME=VALUE.",
            )
        if not isinstance(value, str) or "\0" in value:
            raise InvalidInput(
                "A variable's value must be text without a zero byte.",
                f"{variable}={value!r}",
                f"Pass --env {variable}=VALUE, or a str from Python.",
            )
        if variable == VISIBLE_VARIABLE:
            raise InvalidInput(
                "Each rank sees the one GPU that is its own, so its CUDA_VISIBLE_DEVICES cannot be set.",
                f"{variable}={value}",
                "Choose the GPUs with --gpus.",
            )
    settled_variables.check(environment, os.environ)
    return dict(environment)


def _checked_keeping(place: Place, *, keep_variables: bool) -> bool:
    if keep_variables and not place.is_here:
        raise InvalidInput(
            "Variables are kept where all ranks are on this host.",
            f"--keep-variables and {counted(len(place.hosts), 'host')}",
            "Leave it out, and save what is needed in a cell: %%distributed --checkpoint DIR.",
        )
    return keep_variables


def _threads_from(variables: Mapping[str, str]) -> int | None:
    """Return the threads that the user has set for TensorFlow itself, if a number above 0."""
    setting = variables.get(THREADS_VARIABLE, os.environ.get(THREADS_VARIABLE, ""))
    return int(setting) if setting.isdecimal() and int(setting) > 0 else None


def _note(ranks: int, gpu_count: int, cores: int, threads: int, *, refused: bool) -> str:
    each = f"{counted(threads, 'thread')} each"
    if gpu_count:
        how = "one per GPU" if ranks == gpu_count else f"sharing {counted(gpu_count, 'GPU')}"
        return f"{counted(ranks, 'rank')}, {how}, {each}."
    if refused:
        why = "No GPU asked for"
    elif VISIBLE_VARIABLE in os.environ:
        why = f"No GPU visible ({VISIBLE_VARIABLE}={os.environ[VISIBLE_VARIABLE]})"
    else:
        why = "No GPU here"
    return f"{why}: {counted(ranks, 'rank')} on {counted(cores, 'core')}, {each}."
