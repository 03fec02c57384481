"""What both languages hold of events.py and hub_messages.py: a JSON schema and examples of each. Run by `make schema`.

The Python classes are the one definition; TypeScript's types, and what it checks of them, are written too. All of it is
committed, and a test in each language reads it.
"""

from __future__ import annotations

import json
import math
import sys
import types
from dataclasses import MISSING, Field, asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from jupyter_ddl.protocol import events, hub_messages
from jupyter_ddl.protocol.codec import encode, json_value
from jupyter_ddl.protocol.faults import (
    Facts,
    Fault,
    Frame,
    LastSample,
    Place,
    RankProcess,
    Remedy,
    Thread,
    Wait,
)
from jupyter_ddl.views.fault import in_short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HERE = Path(__file__).resolve().parent
SCHEMA = HERE / "events.schema.json"
FIXTURE = HERE / "events.fixture.json"
TYPES = HERE.parent / "src" / "model" / "events.ts"
HUB_TYPES = HERE.parent / "src" / "model" / "hub_messages.ts"
HUB_SCHEMA = HERE / "hub.schema.json"
HUB_FIXTURE = HERE / "hub.fixture.json"

LOST = Fault(
    "lost",
    "rank",
    (1,),
    "node-a",
    1_700_000_005.0,
    "out of memory killer",
    facts=Facts(world_size=2, pid=4711, signum=9, oom_kills=1, last=LastSample(0.5, 2**30, 2**33, 2**36, 7)),
)
RAISED = Fault("raised", "ranks", (1,), "node-a", 1.5, facts=Facts(world_size=2, error="ValueError", message="no"))
SILENT = Fault("silent", "rank", (1,), "node-a", facts=Facts(processes=(RankProcess(1, "stopped", 4711, "node-a"),)))
_PLACE = Place((1,), ("node-a",), (Thread("MainThread", (Frame("ipykernel_1/2.py", 3, "<module>", "pass"),)),), "idle")
STALLED = Fault("stalled", ranks=(0, 1), facts=Facts(seconds=5.0, waits=(Wait(("loss",), (1,)),), places=(_PLACE,)))

# Each class at least once: with all its fields, and with its defaults where it has some.
EXAMPLES: tuple[events.Event, ...] = (
    events.RankReady(1, 2, 1, "node-a", 4711, "GPU 1 (NVIDIA H200)", 8, uses_horovod=True),
    events.RankReady(0, 2, 0, "node-a", 4710, "CPU", 2),
    events.RankWarm(0, {"tensorflow": "2.21.0", "keras": "3.12.0"}, 3.5, "ImportError: no horovod"),
    events.RankWarm(1, {}, 3.25),
    events.RunStarted("run-1", (0, 1), 2, 1_700_000_000.5),
    events.OutputChunk("run-1", 0, "stdout", "Epoch 1\n 1/4 \r 2/4 \r", n=1),
    events.OutputChunk("run-1", 1, "stderr", "é<script>alert(1)</script>\x1b[1mbold\x1b[0m\n", 17, 1),
    events.RichOutput("run-1", 0, "result", {"text/plain": "1"}, {"image/png": {"width": 3}}, "id", 2),
    events.OutputCleared("run-1", 0, wait=True, n=3),
    events.MetricsSample("run-1", 0, 1_700_000_001.0, 12.5, 2**30),
    events.MetricsSample(
        "run-1",
        1,
        1_700_000_002.0,
        99.5,
        2**30,
        model="Sequential, 106,234 parameters, batch 128",
        step=7,
        steps=5,
        epoch=0,
        samples_per_s=1000.0,
        step_s=0.128,
        step_p50_s=0.125,
        step_p95_s=0.25,
        input_s=0.01,
        exchange_s=0.02,
        loss=0.5,
        metrics={"accuracy": 0.9},
        gpu_pct=87.5,
        gpu_memory_used_bytes=2**33,
        gpu_memory_total_bytes=2**36,
        gpu_watts=310.5,
        gpu_celsius=61.0,
        n=4,
    ),
    # JSON has neither: both cross as words.
    events.MetricsSample(
        "run-1",
        0,
        1_700_000_002.5,
        50.0,
        2**30,
        step=8,
        steps=1,
        samples_per_s=math.inf,
        step_s=-math.inf,
        loss=math.nan,
        metrics={"auc": math.nan, "learning_rate": math.inf, "gap": -math.inf},
    ),
    events.StragglerMarked("run-1", 1, 1_700_000_003.0, is_straggler=True, ratio=1.5, spends_on="input"),
    events.RankFinished("run-1", 0, 1_700_000_004.0, uses_horovod=True, horovod_runs=True, n=5),
    events.RankFailed(
        "run-1", 1, "node-a", "ValueError", "no", ("Traceback", "ValueError: no"), False, 1_700_000_004.0, n=6
    ),
    events.RankLost(None, Fault("lost", "mpiexec", facts=Facts(status=213, output="no slots")), 1_700_000_005.0),
    events.RankLost(1, LOST, 1_700_000_005.0),
    events.RankAlive(0),
    events.RankAlive(1, "run-1"),
    events.RankSilent(1, 10.5, SILENT, 1_700_000_005.0),
    events.RankSilent(1, 0.0, None, 1_700_000_006.0, is_back=True),
    events.CollectiveStalled("run-1", 0, 1_700_000_005.0, 2.0, ("HorovodAllreduce",), {"1": ["HorovodAllreduce"]}, n=7),
    events.StallReported("run-1", (0, 1), 1_700_000_005.0, STALLED),
    events.RankStacks(
        "look-1",
        1,
        "node-a",
        ({"name": "MainThread", "frames": [["ipykernel_1/2.py", 3, "<module>", "hvd.allreduce(x)"]]},),
        "it held Python's lock",
    ),
    events.RankStacks("look-1", 0, "node-a", ()),
    events.LookedUp("look-2", 0, {"matches": ["keras"], "start": 3, "end": 6}),
    events.RunFinished("run-1", "lost", 4.5, replace(LOST, remedy=Remedy("replaced", 2, 1))),
    events.RunFinished("run-1", "failed", 4.5),
)

_RUN = "2026-11-20T18-03-07-default-3f9c"
_RANKS: list[hub_messages.RankState] = [
    {"rank": 0, "local_rank": 0, "host": "node-a", "pid": 4710, "device": "CPU", "threads": 2, "state": "running"},
    {"rank": 1, "local_rank": 1, "host": "node-a", "pid": 4711, "device": "CPU", "threads": 2, "state": "silent"},
]
_CLUSTER: hub_messages.ClusterState = {
    "name": "default",
    "state": "running",
    "note": "2 ranks on 4 cores",
    "step": None,
    "world_size": 2,
    "ranks": _RANKS,
}
HUB_EXAMPLES: tuple[hub_messages.HubMessage, ...] = (
    hub_messages.KernelState("kernel-1", 4700),
    hub_messages.KernelState("kernel-1", 4700, _CLUSTER, _RUN, replace(RAISED, text="Rank 1 of 2: <b>no</b>")),
    hub_messages.KernelState("kernel-1", 4700, {**_CLUSTER, "state": "starting", "step": "starting", "ranks": []}),
    hub_messages.KernelGone("kernel-1"),
    hub_messages.RunNotice("kernel-1", _RUN, "running", "9e8a-cell", "0-1"),
    hub_messages.RunNotice("kernel-1", _RUN, "failed", "9e8a-cell", "0-1", 4.5, in_short(RAISED)),
    hub_messages.Control("1", "kernel-1", "interrupt", {}),
    hub_messages.Control("2", "kernel-1", "stacks", {"ranks": "0,2-3"}),
    hub_messages.Control("3", "kernel-1", "complete", {"code": "tf.ker", "cursor": 6}),
    hub_messages.Answer("1"),
    hub_messages.Answer("3", {"matches": ["keras"], "start": 3, "end": 6}),
    hub_messages.Answer("2", None, "A control must be for a kernel that runs. Received: kernel-1. Start it."),
    hub_messages.Watch(_RUN),
    hub_messages.Watch(_RUN, 17),
    hub_messages.Taken(_RUN, 18),
    hub_messages.Unwatch(_RUN),
)


def files() -> dict[Path, str]:
    """Return what each of the files must hold."""
    kinds, messages = get_args(events.Event), get_args(hub_messages.HubMessage)
    return {
        SCHEMA: _json(_schema(kinds, "An event of jupyter_ddl", "events.py")),
        FIXTURE: _json([encode(example) for example in EXAMPLES]),
        TYPES: _events_ts(kinds),
        HUB_SCHEMA: _json(_schema(messages, "A message between kernel, hub and browser", "hub_messages.py")),
        HUB_TYPES: _hub_ts(),
        HUB_FIXTURE: _json([encode(example) for example in HUB_EXAMPLES]),
    }


def _json(content: Any) -> str:
    return json.dumps(content, indent=1) + "\n"


def _schema(kinds: tuple[Any, ...], title: str, source: str) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": f"Generated from jupyter_ddl/protocol/{source} by `make schema`.",
        "oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds],
        "$defs": {kind.__name__: _schema_of_class(kind) for kind in (*_parts(kinds), *kinds) if not is_typeddict(kind)},
    }


def _schema_of_class(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    tag = {"type": {"const": kind.type}} if hasattr(kind, "type") else {}
    properties = tag | {f.name: _schema_of(hints[f.name]) for f in fields(kind)}
    required = [*tag, *(f.name for f in fields(kind) if _is_required(f))]
    return {
        "description": (kind.__doc__ or "").partition("\n")[0],
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _parts(kinds: Iterable[Any]) -> list[Any]:
    """Return the dataclasses of which fields of others consist, those first that others consist of."""
    found: dict[Any, None] = {}
    for kind in kinds:
        for hint in get_type_hints(kind).values():
            named = (hint, *get_args(hint))
            parts = [part for part in named if (is_dataclass(part) and isinstance(part, type)) or is_typeddict(part)]
            found |= dict.fromkeys([*_parts(parts), *parts])
    return list(found)


def _schema_of(hint: Any) -> dict[str, Any]:
    arguments = get_args(hint)
    origin = get_origin(hint)
    simple = {str: "string", bool: "boolean", int: "integer", type(None): "null"}
    if hint is Any:
        return {}
    if hint is float:
        return {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
    if hint in simple:
        return {"type": simple[hint]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (tuple, list):
        return {"type": "array", "items": _schema_of(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema_of(arguments[1])}
    if is_dataclass(hint) and isinstance(hint, type):
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if is_typeddict(hint):
        properties = {name: _schema_of(value) for name, value in get_type_hints(hint).items()}
        return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema_of(argument) for argument in arguments]}
    raise TypeError(f"A field of an event must be of a type that JSON has. Received: {hint}.")


_FIELD = (
    "export interface Field {",
    "  readonly kind: 'string' | 'number' | 'boolean' | 'array' | 'object' | 'any';",
    "  readonly nullable: boolean;",
    "  readonly default?: unknown;",
    "  /** What the object, or each item of the array, has. */",
    "  readonly of?: Readonly<Record<string, Field>>;",
    "}",
)


def _events_ts(kinds: tuple[Any, ...]) -> str:
    lines = ["", *_interfaces(kinds), *_union("DdlEvent", kinds), *_table("DdlEvent", kinds), *_FIELD]
    return _generated("events.py", lines)


def _hub_ts() -> str:
    to_browser, from_browser = get_args(hub_messages.ToBrowser), get_args(hub_messages.FromBrowser)
    # Parts of events too: the types of those are written beside the events.
    shared = _parts(get_args(events.Event))
    lines = ["import type { Fault, Field } from './events';", ""]
    lines += _interfaces((*to_browser, *from_browser), without=shared)
    lines += [*_union("ToBrowser", to_browser), *_union("FromBrowser", from_browser), *_table("ToBrowser", to_browser)]
    return _generated("hub_messages.py", lines[:-1])


def _generated(source: str, lines: list[str]) -> str:
    head = f"// Generated from jupyter_ddl/protocol/{source} by `make schema`; not to be edited."
    return "\n".join([head, *lines, ""])


def _interfaces(kinds: tuple[Any, ...], without: Sequence[Any] = ()) -> Iterator[str]:
    for kind in (one for one in (*_parts(kinds), *kinds) if one not in without):
        yield f"/** {(kind.__doc__ or '').partition(chr(10))[0]} */"
        yield f"export interface {kind.__name__} {{"
        if hasattr(kind, "type"):
            yield f"  readonly type: {json.dumps(kind.type)};"
        yield from (f"  readonly {name}: {_typescript_of(hint)};" for name, hint in _hints(kind).items())
        yield from ("}", "")


def _union(name: str, kinds: tuple[Any, ...]) -> list[str]:
    *first, last = (f"  | {kind.__name__}" for kind in kinds)
    return [f"export type {name} =", *first, f"{last};", ""]


def _table(union: str, kinds: tuple[Any, ...]) -> Iterator[str]:
    yield "/** Of each type its fields: what JSON value each is, and what stands for one that may be left out. */"
    yield f"export const FIELDS: Readonly<Record<{union}['type'], Readonly<Record<string, Field>>>> = {{"
    for kind in kinds:
        hints = _hints(kind)
        yield f"  {kind.type}: {{"
        yield from (f"    {f.name}: {json.dumps(_field(f, hints[f.name]))}," for f in fields(kind))
        yield "  },"
    yield from ("};", "")


def _hints(kind: Any) -> dict[str, Any]:
    """Return the type of each field, also of a TypedDict."""
    hints = get_type_hints(kind)
    return hints if is_typeddict(kind) else {f.name: hints[f.name] for f in fields(kind)}


def _checked(hint: Any) -> dict[str, Any]:
    """Return what TypeScript checks of a value of a type."""
    arguments = [argument for argument in get_args(hint) if argument is not type(None)]
    is_union = get_origin(hint) in (Union, types.UnionType)
    plain = _schema_of(arguments[0] if is_union else hint)
    simple = "object" if "$ref" in plain else plain.get("type", "any")
    kind = "number" if "anyOf" in plain else "string" if "enum" in plain else simple
    checked = {"kind": "number" if kind == "integer" else kind, "nullable": len(arguments) < len(get_args(hint))}
    # Only what the hub has checked before is looked into; an event's parts are the rank's.
    inner = next((one for one in (hint, *get_args(hint)) if is_typeddict(one)), None)
    return checked if inner is None else checked | {"of": {n: _checked(h) for n, h in _hints(inner).items()}}


def _field(f: Field[Any], hint: Any) -> dict[str, Any]:
    checked = _checked(hint)
    return checked if _is_required(f) else {**checked, "default": _default(f)}


def _typescript_of(hint: Any) -> str:
    arguments = get_args(hint)
    origin = get_origin(hint)
    simple = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null", Any: "unknown"}
    if hint in simple:
        return simple[hint]
    if origin is Literal:
        return " | ".join(json.dumps(argument) for argument in arguments)
    if (is_dataclass(hint) and isinstance(hint, type)) or is_typeddict(hint):
        return str(hint.__name__)
    if origin in (tuple, list):
        return f"readonly {_typescript_of(arguments[0])}[]"
    if origin is dict:
        return f"Readonly<Record<string, {_typescript_of(arguments[1])}>>"
    return " | ".join(_typescript_of(argument) for argument in arguments)


def _is_required(f: Field[Any]) -> bool:
    return f.default is MISSING and f.default_factory is MISSING


def _default(f: Field[Any]) -> Any:
    default = f.default if f.default_factory is MISSING else f.default_factory()
    return json_value(asdict(default)) if is_dataclass(default) and not isinstance(default, type) else default


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
        sys.stdout.write(f"{path.name}\n")
