"""What 1,024 ranks that each send a sample a second cost the kernel: its CPU time, in percent of a core.

The ranks are simulated by one process that signs and sends what they would; the kernel's side is the real one, from the
socket over the record on disk to the follower and the dashboard. Every event must arrive, which is checked. The other
side is the limit: 30 % of a core.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import zmq

from benchmarks.channel_only import ChannelOnly, runs_on
from benchmarks.harness import Nowhere, Row, report
from jupyter_ddl import paths
from jupyter_ddl.kernel.run_follower import Follower
from jupyter_ddl.protocol.codec import encode
from jupyter_ddl.protocol.events import MetricsSample, RankFinished
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.run import Run
from jupyter_ddl.views.dashboard import Dashboard

RANKS = 1_024
SECONDS = 20
LIMIT_PCT = 30.0


def main() -> None:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as name:
        os.environ[paths.RUNS_VARIABLE] = name
        connection_file = Path(name, "connection.json")
        sender = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.fan_in", str(connection_file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert sender.stdout is not None
        sender.stdout.readline()
        cluster = ChannelOnly(connection_file, "bench", RANKS)
        runs = runs_on(cluster)
        run = Run(RunFolder("bench"), tuple(range(RANKS)), RANKS)
        runs.begin(run)
        follower = Follower(run, runs, Dashboard(Nowhere()), None)
        assert sender.stdin is not None
        process = psutil.Process()
        sender.stdin.write(f"{run.id}\n")
        sender.stdin.flush()
        before, began_s = process.cpu_times(), time.perf_counter()
        follower.wait()
        after, seconds = process.cpu_times(), time.perf_counter() - began_s
        sender.wait()
        cluster.channel.close()
        recorded = sum(b'"metrics"' in line for line in (run.folder.path / "events.jsonl").open("rb"))
    if recorded != RANKS * SECONDS:
        sys.exit(f"{RANKS * SECONDS} samples were sent, and {recorded} arrived.")
    used_pct = (after.user + after.system - before.user - before.system) / seconds * 100
    report("fan_in", [Row(f"{RANKS} ranks, the limit", (used_pct,), (LIMIT_PCT,), "% of a core")], 1.0, "lower")


def send(connection_file: Path) -> None:
    """Send what the ranks would, and a last event of each."""
    context = zmq.Context()
    events: zmq.Socket[bytes] = context.socket(zmq.XPUB)
    events.set_hwm(0)
    port = events.bind_to_random_port("tcp://127.0.0.1")
    info = {"interface": "tcp://127.0.0.1", "iopub": port, "mux": port, "control": port}
    info |= {"key": secrets.token_hex(), "signature_scheme": "hmac-sha256", "pack": "json", "unpack": "json"}
    connection_file.write_text(json.dumps(info))
    from jupyter_ddl.cluster.channel import signer

    signs = signer(info)

    def emit(event: Any) -> None:
        events.send_multipart(signs.serialize(signs.msg("ddl_event", content=encode(event)), ident=b"ddl"))

    print("ready", flush=True)
    run = sys.stdin.readline().strip()
    events.recv()  # the subscription
    sample = MetricsSample(run, 0, 0.0, 99.0, 2**31, model="Sequential, 1,000 parameters, batch 64")
    sample = replace(
        sample,
        steps=20,
        epoch=1,
        samples_per_s=5e3,
        step_s=0.05,
        step_p50_s=0.05,
        step_p95_s=0.06,
        input_s=0.001,
        exchange_s=0.01,
        loss=0.5,
    )
    sample = replace(sample, metrics={"accuracy": 0.9}, gpu_pct=97.0, gpu_memory_used_bytes=2**36, gpu_watts=600.0)
    began_s = time.monotonic()
    for number in range(SECONDS * RANKS):
        step, rank = divmod(number, RANKS)
        emit(replace(sample, rank=rank, at_s=time.time(), step=20 * step, n=step + 1))
        # Spread over the second, as ranks that began at different moments are.
        ahead_s = number / RANKS - (time.monotonic() - began_s)
        if ahead_s > 0.01:
            time.sleep(ahead_s)
    for rank in range(RANKS):
        emit(RankFinished(run, rank, time.time(), n=SECONDS + 1))
    context.destroy()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        send(Path(sys.argv[1]))
    else:
        main()
