"""What a new user does: clone, `make demo`, and again."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_S = 2400


@pytest.mark.slow
@pytest.mark.mpi
def test_a_fresh_clone_trains_in_one_command_and_the_second_time_installs_nothing(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)

    first, output = make_demo(clone, tmp_path)
    assert first["world_size"] == 2
    assert first["test_accuracy"] > 0.9
    assert first["images_per_second"] > 0
    assert "installing" in output
    assert "Horovod for the TensorFlow" in output

    second, output = make_demo(clone, tmp_path)
    assert second["world_size"] == 2
    assert "installing" not in output
    assert "Horovod for the TensorFlow" not in output


def make_demo(clone: Path, tmp_path: Path) -> tuple[dict[str, Any], str]:
    """Run `make demo` with a cache of its own; return its JSON line and all that it printed."""
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "MAKEFLAGS")},
        "JUPYTER_DDL_CACHE": str(tmp_path / "cache"),
        "JUPYTER_DDL_RUNTIME": str(tmp_path / "runtime"),
    }
    done = subprocess.run(
        ["make", "demo"], cwd=clone, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures, done.stdout
