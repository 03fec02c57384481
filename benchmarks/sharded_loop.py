"""Peak memory and samples/s of a loop of PyTorch's on two ranks: `--auto --memory shard-all` beside `--auto`, by turns.

With `--framework keras-jax` of `fit` on JAX. It takes an environment with PyTorch, or JAX and Keras: `make
.venv-frameworks/.test`, then `.venv-frameworks/bin/python -m benchmarks.sharded_loop`. Aim: at most 0.65 of the peak; a
half is what weights, gradients and state leave, and a part of the model is whole at a time. The peak that is judged is
of processes whose malloc gives large blocks back when they are freed; by itself glibc keeps many of those, whose sizes
differ more where a model is sharded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import Row, report, rounds

PAIRS = 5
AIM = 0.65
RANKS = 2
SIDES = {"whole": [], "sharded": ["--memory", "shard-all"]}
# Of glibc, in bytes: blocks from this size on are mapped each by itself. Source: mallopt(3)
GIVEN_BACK = {"MALLOC_MMAP_THRESHOLD_": str(2**20)}
PROGRAMS: dict[str, tuple[str, dict[str, str]]] = {
    "torch": ("sharded_loop_program.py", {}),
    "keras-jax": ("sharded_keras_program.py", {"KERAS_BACKEND": "jax"}),
}


def trained(program: str, options: list[str], more: dict[str, str]) -> dict[str, float]:
    """Train in processes of their own; return the larger of the ranks' peaks, in MiB, and samples a second."""
    program = str(Path(__file__).with_name(program))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", str(RANKS), "--auto", "--batch", "global"]
        command += [*options, program, folder]
        subprocess.run(command, env=os.environ | more, check=True, timeout=300, stdout=subprocess.DEVNULL)
        found = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(RANKS)]
    return {"peak_mib": max(one["peak_mib"] for one in found), "samples_s": min(one["samples_s"] for one in found)}


def main() -> int:
    """Measure both sides in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", choices=PROGRAMS, default="torch")
    framework: str = parser.parse_args().framework
    program, settings = PROGRAMS[framework]
    sides = {
        (name, malloc): (program, options, more | settings)
        for malloc, more in (("large blocks given back", GIVEN_BACK), ("malloc as it is", {}))
        for name, options in SIDES.items()
    }
    figures = rounds(
        {", ".join(side): lambda how=how: trained(*how) for side, how in sides.items()},  # type: ignore[misc]
        PAIRS,
        show=lambda found: f"{found['peak_mib']:.0f} MiB, {found['samples_s']:.1f}/s",
    )
    rows = [
        Row(
            f"{what}, {malloc}",
            tuple(found[what] for found in figures[f"sharded, {malloc}"]),
            tuple(found[what] for found in figures[f"whole, {malloc}"]),
            unit,
        )
        for malloc in ("large blocks given back", "malloc as it is")
        for what, unit in (("peak_mib", "MiB"), ("samples_s", "samples/s"))
    ]
    return 0 if report(f"sharded_loop {framework}", rows[:1], AIM, "lower", rows[1:]) else 1


if __name__ == "__main__":
    sys.exit(main())
