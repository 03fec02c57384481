"""Folders of runs, made by hand."""

from __future__ import annotations

import json
import os
import socket
import time

import psutil

from jupyter_ddl import paths
from jupyter_ddl.protocol.codec import encode

HERE = {"pid": os.getpid(), "host": socket.gethostname()}


def own_session():
    """Return how run.json names this process."""
    return {**HERE, "started_s": psutil.Process().create_time()}


def make_run(run="2026-11-20T18-03-07-default-3f9c", **content):
    """Make a run's folder, with run.json where there is content; return its path."""
    folder = paths.runs_dir() / run
    folder.mkdir(parents=True)
    (folder / "cell.py").write_text("1 + 1")
    if content:
        content = {"run": run, "start_s": time.time(), "ranks": [0, 1], "world_size": 2, **content}
        (folder / "run.json").write_text(json.dumps(content))
    return folder


def write_events(folder, events, name="events.jsonl"):
    (folder / name).write_text("".join(json.dumps(encode(event)) + "\n" for event in events))
