"""What both languages hold of events.py: a JSON schema, examples, and TypeScript types. Run by `make schema`.

events.py is the one definition; these three are committed, and a test in each language reads them.
"""

from __future__ import annotations

import json
import sys
import types
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from jupyter_ddl import events
from jupyter_ddl.wire import encode

HERE = Path(__file__).resolve().parent
SCHEMA = HERE / "events.schema.json"
FIXTURE = HERE / "events.fixture.json"
TYPES = HERE.parent / "src" / "model" / "events.ts"

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
    events.StragglerMarked("run-1", 1, 1_700_000_003.0, is_straggler=True, ratio=1.5, spends_on="input"),
    events.RankFinished("run-1", 0, 1_700_000_004.0, uses_horovod=True, horovod_runs=True, n=5),
    events.RankFailed(
        "run-1", 1, "node-a", "ValueError", "no", ("Traceback", "ValueError: no"), False, 1_700_000_004.0, n=6
    ),
    events.RankLost(None, "mpiexec ended", 1_700_000_005.0),
    events.RankLost(1, "killed by signal 9", 1_700_000_005.0, "node-a", 9, oom_kills=1),
    events.RankAlive(0),
    events.RankAlive(1, "run-1"),
    events.RankSilent(1, 10.5, "its process 4711 is stopped", 1_700_000_005.0),
    events.RankSilent(1, 0.0, "", 1_700_000_006.0, is_back=True),
    events.CollectiveStalled("run-1", 0, 1_700_000_005.0, 2.0, ("HorovodAllreduce",), {"1": ["HorovodAllreduce"]}, n=7),
    events.StallReported("run-1", (0, 1), 1_700_000_005.0, "The cell has stalled for 5 s"),
    events.RankStacks(
        "look-1",
        1,
        "node-a",
        ({"name": "MainThread", "frames": [["ipykernel_1/2.py", 3, "<module>", "hvd.allreduce(x)"]]},),
        "it held Python's lock",
    ),
    events.RankStacks("look-1", 0, "node-a", ()),
    events.RunFinished("run-1", "failed", 4.5),
)


def files() -> dict[Path, str]:
    """Return what each of the three files must hold."""
    kinds = get_args(events.Event)
    return {
        SCHEMA: json.dumps(_schema(kinds), indent=1) + "\n",
        FIXTURE: json.dumps([encode(example) for example in EXAMPLES], indent=1) + "\n",
        TYPES: _typescript(kinds),
    }


def _schema(kinds: tuple[Any, ...]) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An event of jupyter_ddl",
        "description": "Generated from jupyter_ddl/events.py by `make schema`.",
        "oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds],
        "$defs": {kind.__name__: _schema_of_class(kind) for kind in kinds},
    }


def _schema_of_class(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    properties = {"type": {"const": kind.type}} | {f.name: _schema_of(hints[f.name]) for f in fields(kind)}
    required = ["type", *(f.name for f in fields(kind) if _is_required(f))]
    return {
        "description": (kind.__doc__ or "").partition("\n")[0],
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _schema_of(hint: Any) -> dict[str, Any]:
    arguments = get_args(hint)
    origin = get_origin(hint)
    simple = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    if hint is Any:
        return {}
    if hint in simple:
        return {"type": simple[hint]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _schema_of(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema_of(arguments[1])}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema_of(argument) for argument in arguments]}
    raise TypeError(f"A field of an event must be of a type that JSON has. Received: {hint}.")


def _typescript(kinds: tuple[Any, ...]) -> str:
    lines = ["// Generated from jupyter_ddl/events.py by `make schema`; not to be edited.", ""]
    for kind in kinds:
        hints = get_type_hints(kind)
        lines += [f"/** {(kind.__doc__ or '').partition(chr(10))[0]} */", f"export interface {kind.__name__} {{"]
        lines += [f"  readonly type: {json.dumps(kind.type)};"]
        lines += [f"  readonly {f.name}: {_typescript_of(hints[f.name])};" for f in fields(kind)]
        lines += ["}", ""]
    lines += ["export type DdlEvent =", *(f"  | {kind.__name__}" for kind in kinds)]
    lines[-1] += ";"
    lines += [
        "",
        "/** Of each type its fields: what JSON value each is, and what stands for one that may be left out. */",
    ]
    lines += ["export const FIELDS: Readonly<Record<DdlEvent['type'], Readonly<Record<string, Field>>>> = {"]
    for kind in kinds:
        hints = get_type_hints(kind)
        lines += [f"  {kind.type}: {{"]
        lines += [f"    {f.name}: {json.dumps(_field(f, hints[f.name]))}," for f in fields(kind)]
        lines += ["  },"]
    lines += ["};", "", "export interface Field {"]
    lines += ["  readonly kind: 'string' | 'number' | 'boolean' | 'array' | 'object' | 'any';"]
    lines += ["  readonly nullable: boolean;", "  readonly default?: unknown;", "}", ""]
    return "\n".join(lines)


def _field(f: Field[Any], hint: Any) -> dict[str, Any]:
    schema = _schema_of(hint)
    plain, *others = schema.get("anyOf", [schema])
    kind = "string" if "enum" in plain else plain.get("type", "any")
    field = {"kind": "number" if kind == "integer" else kind, "nullable": bool(others)}
    return field if _is_required(f) else {**field, "default": _default(f)}


def _typescript_of(hint: Any) -> str:
    arguments = get_args(hint)
    origin = get_origin(hint)
    simple = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null", Any: "unknown"}
    if hint in simple:
        return simple[hint]
    if origin is Literal:
        return " | ".join(json.dumps(argument) for argument in arguments)
    if origin is tuple:
        return f"readonly {_typescript_of(arguments[0])}[]"
    if origin is dict:
        return f"Readonly<Record<string, {_typescript_of(arguments[1])}>>"
    return " | ".join(_typescript_of(argument) for argument in arguments)


def _is_required(f: Field[Any]) -> bool:
    return f.default is MISSING and f.default_factory is MISSING


def _default(f: Field[Any]) -> Any:
    return f.default if f.default_factory is MISSING else f.default_factory()


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
        sys.stdout.write(f"{path.name}\n")
