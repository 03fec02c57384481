"""The examples of the public names that take PyTorch do what they show."""

from __future__ import annotations

import subprocess
import sys

from examples import OF_TORCH, public_names

# Runs what comes between lines of dots, with what the docstrings leave out.
PROGRAM = """
import doctest, sys, torch, jupyter_ddl, jupyter_ddl.memory, jupyter_ddl.torch
runner = doctest.DocTestRunner()
for example in sys.stdin.read().split("\\n.....\\n"):
    model = torch.nn.Linear(4, 1)
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    names = {
        "jupyter_ddl": jupyter_ddl,
        "torch": torch,
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), 0.1),
        "loss": torch.nn.functional.mse_loss,
        "loss_of": torch.nn.functional.mse_loss,
        "loader": [(x, y)],
        "x": x,
        "y": y,
    }
    runner.run(doctest.DocTestParser().get_doctest(example, names, "example", None, None))
print(f"{runner.tries} lines ran")
sys.exit(runner.failures)
"""


def test_examples_of_torch() -> None:
    examples = [public.example for public in public_names() if public.name in OF_TORCH]
    assert len(examples) == len(OF_TORCH)
    command = [sys.executable, "-c", PROGRAM]
    child = subprocess.run(command, input="\n.....\n".join(examples), capture_output=True, text=True, timeout=120)
    assert child.returncode == 0, child.stdout + child.stderr
    lines = sum(example.count(">>>") for example in examples)
    assert f"{lines} lines ran" in child.stdout
