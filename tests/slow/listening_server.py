"""A server that a user of JupyterHub wrote: it keeps the tokens that it is sent, and answers what is not true."""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

CLUSTER = {
    "id": "x",
    "user": "alice",
    "name": "<b>\x1b[31m" + "y" * 1000,
    "world_size": 2,
    "devices": ["0"],
    "is_on_cores": False,
    "hosts": ["h"],
    "job": None,
    "start_s": 1.8e9,
    "state": "idle",
    "idle_s": 1e9,
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        token = self.headers.get("Authorization")
        if token is not None:
            with Path(os.environ["TOKENS"]).open("a") as file:
                file.write(token.removeprefix("token ") + "\n")
        body = json.dumps({"user": "alice", "clusters": [CLUSTER]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    url = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    sys.exit(HTTPServer((url.hostname or "127.0.0.1", url.port or 0), Handler).serve_forever())
