"""What TypeScript holds of events.py and of hub_messages.py is what they say."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
from jsonschema.validators import validator_for

from jupyter_ddl.protocol import events, hub_messages
from jupyter_ddl.protocol.codec import decode, encode

SCHEMA_DIR = Path(__file__).parents[2] / "labextension" / "schema"


sys.path.append(str(SCHEMA_DIR))
GENERATE: Any = importlib.import_module("generate")
FIXTURE = json.loads(GENERATE.FIXTURE.read_text())
SCHEMA = json.loads(GENERATE.SCHEMA.read_text())
HUB_FIXTURE = json.loads(GENERATE.HUB_FIXTURE.read_text())
HUB_SCHEMA = json.loads(GENERATE.HUB_SCHEMA.read_text())


@pytest.mark.parametrize("path", GENERATE.files(), ids=lambda path: path.name)
def test_a_generated_file_is_fresh(path: Path) -> None:
    assert path.read_text() == GENERATE.files()[path], "its Python side has changed: run `make schema`"


@pytest.mark.parametrize(
    ("union", "fixture", "schema"),
    [(events.Event, FIXTURE, SCHEMA), (hub_messages.HubMessage, HUB_FIXTURE, HUB_SCHEMA)],
    ids=["events", "hub"],
)
def test_every_class_is_in_the_fixture_and_in_the_schema(union: Any, fixture: Any, schema: Any) -> None:
    validator_for(schema).check_schema(schema)
    kinds = {kind.type for kind in get_args(union)}
    assert {example["type"] for example in fixture} == kinds
    tagged = [kind["properties"]["type"] for kind in schema["$defs"].values() if "type" in kind["properties"]]
    assert {tag["const"] for tag in tagged} == kinds


@pytest.mark.parametrize(
    ("example", "schema"),
    [(example, SCHEMA) for example in FIXTURE] + [(example, HUB_SCHEMA) for example in HUB_FIXTURE],
    ids=[example["type"] for example in FIXTURE + HUB_FIXTURE],
)
def test_an_example_is_valid_and_decodes(example: dict[str, Any], schema: Any) -> None:
    validator_for(schema)(schema).validate(example)
    assert json.loads(json.dumps(encode(decode(example, events.Event | hub_messages.HubMessage)))) == example


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "gossip"},
        {"type": "rank_lost", "rank": 1, "fault": {"kind": "lost"}},
        {"type": "rank_lost", "rank": "1", "fault": {"kind": "lost"}, "at_s": 1.0},
        {"type": "rank_lost", "rank": 1, "fault": {"kind": "broken"}, "at_s": 1.0},
        {"type": "run_finished", "run": "r", "outcome": "well", "seconds": 1.0},
        {"type": "rank_lost", "rank": 1, "fault": {"kind": "lost"}, "at_s": 1.0, "more": 1},
    ],
)
def test_what_is_no_event_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validator_for(SCHEMA)(SCHEMA).validate(wrong)
