"""Runs notebook 01 without a browser, shows what it does, and ends with a table and one line of JSON: `make demo`.

Runs on: a process of its own. The figures are the notebook's; only the seconds are measured here.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from jupyter_ddl.course.notebooks import course_notebooks
from jupyter_ddl.errors import DdlError, DemoFailed, InvalidInput
from jupyter_ddl.export.cell_teller import CellTeller, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

CELL_TIMEOUT_S = 600
# Tags of cells that wait for a reader: the demo has none.
EXERCISES = ("exercise-text", "exercise", "check", "solution")
# On 10,000 images of MNIST the notebook reaches 0.97; on scikit-learn's digits, which are fewer and smaller, 0.95.
# Guessing gives 0.1.
LEAST_ACCURACY = 0.9


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo. Return 0 if training happened, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m jupyter_ddl.cli.demo", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("-n", type=int, default=2, help="ranks (default: 2)")
    parser.add_argument("--notebook", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    began_s = time.monotonic()
    try:
        figures = run(options.notebook or course_notebooks()[0], options.n, leaving_out=EXERCISES)
        check(figures, options.n)
    except DdlError as error:
        print(f"\nThe demo failed. {error}", file=sys.stderr)
        return 1
    print(f"\n{table(figures)}\n")
    last = figures["rows"][-1]
    summary = {
        "world_size": last["ranks"],
        "dataset": figures["dataset"],
        "images_per_second": round(last["images_per_second"], 1),
        "test_accuracy": round(last["test_accuracy"], 4),
        "seconds": round(time.monotonic() - began_s, 1),
    }
    print(json.dumps(summary))
    return 0


def run(path: Path, n: int, *, leaving_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """Run the notebook on n ranks, printing each part; return the `figures` that it ends with.

    Args:
        path: the notebook.
        n: how many ranks.
        leaving_out: tags of cells that are not run.

    Raises:
        InvalidInput: there is no such notebook, or no TensorFlow.
        DemoFailed: a cell raised, took too long, or ended the kernel.
    """
    if not path.is_file():
        raise InvalidInput("The demo runs a notebook of the repository.", path, "Run it in a clone: make demo.")
    if path == course_notebooks()[0] and importlib.util.find_spec("tensorflow") is None:
        raise InvalidInput(
            "The demo trains Keras on TensorFlow, with Horovod.",
            f"no TensorFlow in {sys.prefix}",
            "Run make demo, which installs both; jupyter ddl doctor says what ranks can train with here.",
        )
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    _set_parameter(notebook, f"n = {n}")
    notebook.cells = [cell for cell in notebook.cells if not set(leaving_out) & set(cell.metadata.get("tags", []))]
    # Read from the kernel while it lives, after the notebook's own cells.
    question = nbformat.v4.new_code_cell("import json\nprint(json.dumps(figures))")  # type: ignore[no-untyped-call]
    client = _TellingClient(
        notebook,
        timeout=CELL_TIMEOUT_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        extra_arguments=["--log-level=ERROR"],
    )
    try:
        with client.setup_kernel():
            for index, cell in enumerate(notebook.cells):
                client.tell(cell, index)
            notebook.cells.append(question)
            client.execute_cell(question, len(notebook.cells) - 1)
    except CellExecutionError as error:
        raise DemoFailed(f"A cell raised:\n{error.ename}: {error.evalue}") from error
    except CellTimeoutError as error:
        raise DemoFailed(
            f"Every cell must end within {CELL_TIMEOUT_S} s. Received: one that did not, under {client.heading!r}."
        ) from error
    except DeadKernelError as error:
        raise DemoFailed(
            f"The notebook's kernel must live to the end. Received: it died, under {client.heading!r}."
        ) from error
    figures: dict[str, Any] = json.loads(text_of(question))
    return figures


def check(figures: dict[str, Any], n: int) -> None:
    """Raise unless n ranks have learned.

    Raises:
        DemoFailed: they have not.
    """
    last = figures["rows"][-1]
    if last["ranks"] != n:
        raise DemoFailed(f"All ranks must have trained. Received: {last['ranks']} of {n}.")
    if not last["images_per_second"] > 0:
        raise DemoFailed(f"Images must have gone through the model. Received: {last['images_per_second']} a second.")
    if not last["test_accuracy"] >= LEAST_ACCURACY:
        raise DemoFailed(
            f"The model must have learned: test accuracy {LEAST_ACCURACY} at least. Received: "
            f"{last['test_accuracy']:.3f}."
        )


def table(figures: dict[str, Any]) -> str:
    """Return the figures of one rank and of all as text."""
    lines = [f"{'ranks':>5}  {'images/s':>9}  {'loss':>7}  {'accuracy':>8}"]
    lines += [
        f"{row['ranks']:>5}  {row['images_per_second']:>9,.0f}  {row['loss']:>7.4f}  {row['test_accuracy']:>8.3f}"
        for row in figures["rows"]
    ]
    return "\n".join([*lines, f"scaling efficiency {figures['scaling_efficiency']:.0%}, {figures['dataset']}"])


def _set_parameter(notebook: Any, source: str) -> None:
    """Replace the cell tagged "parameters", as papermill would add to it."""
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", []):
            cell.source = source


class _TellingClient(NotebookClient):
    """Prints the cells' output: at a cell's end, and for a longer one line by line."""

    heading = ""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._teller = CellTeller(indent="   ")
        self._shown: Any = None

    def tell(self, cell: Any, index: int) -> None:
        """Run a code cell, or print a heading."""
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            self.heading = cell.source.partition("\n")[0].lstrip("# ")
            print(f"-- {self.heading}", flush=True)
        self._shown = cell
        self.execute_cell(cell, index)
        if cell.cell_type == "code":
            self._teller.end(cell)

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        answer = super().process_message(msg, cell, cell_index)
        # Not a question of ours: a timer would print its answer in the next notebook's run on this event loop.
        if cell is self._shown:
            self._teller.follow(cell)
        return answer


if __name__ == "__main__":
    sys.exit(main())
