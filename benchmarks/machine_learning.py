"""Machine learning that is not deep, on data large enough that it counts: time and accuracy of each, side by side.

    python -m benchmarks.machine_learning [FOLDER]

Each side trains on the same rows and is judged on the same others; sides take turns, and what is shown is the median of
the rounds. A side whose package is not installed is left out, and said. FOLDER gets machine_learning.json and .md, and
a chart for light and for dark pages; `make pictures` draws the one of docs/ml.md from its table.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.datasets import make_classification
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split

import jupyter_ddl
from benchmarks import charts
from benchmarks.harness import rounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

N = 2
ROUNDS = 3
SAMPLES, FEATURES, INFORMATIVE = 80_000, 40, 20
TREES, DEPTH, BOOSTED = 24, 12, 60
SHARED = """
import time
import numpy as np
from sklearn.metrics import accuracy_score
x, y, x_test, y_test = (np.load(f"{FOLDER}/{name}.npy") for name in ("x", "y", "x_test", "y_test"))
"""
# What runs in a cell on the ranks: it sets `seconds` and `accuracy` there.
ON_RANKS = {
    "xgboost": """
import xgboost
from jupyter_ddl import ml
began_s = time.perf_counter()
booster = ml.train_xgboost({"objective": "binary:logistic", "max_depth": 6}, x, y, ROUNDS)
seconds = time.perf_counter() - began_s
accuracy = accuracy_score(y_test, booster.predict(xgboost.DMatrix(x_test)) > 0.5)
""",
    "lightgbm": """
from jupyter_ddl import ml
began_s = time.perf_counter()
booster = ml.train_lightgbm({"objective": "binary", "verbosity": -1}, x, y, ROUNDS)
seconds = time.perf_counter() - began_s
accuracy = accuracy_score(y_test, booster.predict(x_test) > 0.5)
""",
}
FOREST = """
from sklearn.ensemble import RandomForestClassifier
began_s = time.perf_counter()
forest = RandomForestClassifier(TREES, max_depth=DEPTH, n_jobs=-1, random_state=0).fit(x, y)
seconds = time.perf_counter() - began_s
accuracy = accuracy_score(y_test, forest.predict(x_test))
"""

# | what | median (least-most) | accuracy |
_ROW = re.compile(r"^\| ([^|]+) \| ([\d.]+) \(([\d.]+)-([\d.]+)\) \| ([\d.]+) \|$", re.MULTILINE)

Outcome = tuple[float, float]


def main() -> None:
    """Run the benchmark."""
    x, y = make_classification(SAMPLES, FEATURES, n_informative=INFORMATIVE, flip_y=0.05, random_state=0)
    x, x_test, y, y_test = train_test_split(x.astype("float32"), y, random_state=0)
    data = {"x": x, "y": y, "x_test": x_test, "y_test": y_test}
    with tempfile.TemporaryDirectory() as shared:
        import numpy as np

        for name, array in data.items():
            np.save(f"{shared}/{name}.npy", array)
        with jupyter_ddl.start(n=N, name="ml", framework="none") as session:
            session.run(f"FOLDER = {shared!r}{SHARED}TREES, DEPTH, ROUNDS = {TREES}, {DEPTH}, {BOOSTED}")
            sides, missing = sides_of(session, data)
            if find_spec("sklearnex") is None:
                outcomes = measured(sides)
                missing.append("scikit-learn-intelex")
            else:
                with jupyter_ddl.start(n=1, name="ml-intelex", framework="none", threads=N, sklearn="intelex") as fast:
                    fast.run(f"FOLDER = {shared!r}{SHARED}TREES, DEPTH = {TREES}, {DEPTH}")
                    sides["forest, scikit-learn-intelex, 1 rank of 2 threads"] = lambda: cell(fast, FOREST)
                    outcomes = measured(sides)
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    table = table_of(outcomes)
    print(table, file=sys.stderr)
    if folder is not None:
        folder.mkdir(exist_ok=True, parents=True)
        (folder / "machine_learning.md").write_text(table)
        (folder / "machine_learning.json").write_text(json.dumps(outcomes, indent=1) + "\n")
        draw(outcomes, folder)
    print(json.dumps({"name": "machine_learning", "rows": outcomes, "not_installed": missing}))


def sides_of(session: Session, data: dict[str, Any]) -> tuple[dict[str, Callable[[], Outcome]], list[str]]:
    """Return what is compared, by name, and the packages of sides that are left out."""
    from sklearn.ensemble import RandomForestClassifier

    x, y = data["x"], data["y"]

    def forest(n_jobs: int | None) -> Any:
        return RandomForestClassifier(TREES, max_depth=DEPTH, n_jobs=n_jobs, random_state=0).fit(x, y)

    def on_ranks() -> Any:
        with jupyter_ddl.parallel_backend(session=session, quiet=True):
            return forest(None)

    sides: dict[str, Callable[[], Outcome]] = {
        "forest, scikit-learn, 1 thread": lambda: here(lambda: forest(None), data),
        "forest, scikit-learn, 2 threads": lambda: here(lambda: forest(N), data),
        "forest, parallel_backend, 2 ranks": lambda: here(on_ranks, data),
    }
    missing = []
    if find_spec("snapml"):
        from snapml import RandomForestClassifier as SnapForest

        def snap() -> Any:
            return SnapForest(n_estimators=TREES, max_depth=DEPTH, n_jobs=N, random_state=0, use_histograms=True).fit(
                x, y
            )

        sides["forest, snapml, 2 threads"] = lambda: here(snap, data)
    else:
        missing.append("snapml")
    if find_spec("xgboost"):
        import xgboost

        def boosted() -> Any:
            return xgboost.XGBClassifier(n_estimators=BOOSTED, max_depth=6, n_jobs=N, tree_method="hist").fit(x, y)

        sides["boosting, xgboost, 2 threads"] = lambda: here(boosted, data)
        sides["boosting, train_xgboost, 2 ranks"] = lambda: cell(session, ON_RANKS["xgboost"])
    else:
        missing.append("xgboost")
    if find_spec("lightgbm"):
        import lightgbm

        def light() -> Any:
            return lightgbm.LGBMClassifier(n_estimators=BOOSTED, n_jobs=N, verbosity=-1).fit(x, y)

        sides["boosting, lightgbm, 2 threads"] = lambda: here(light, data)
        sides["boosting, train_lightgbm, 2 ranks"] = lambda: cell(session, ON_RANKS["lightgbm"])
    else:
        missing.append("lightgbm")
    return sides, missing


def here(train: Callable[[], Any], data: dict[str, Any]) -> Outcome:
    """Return how long a training of this process took, and the accuracy of what it gave."""
    began_s = time.perf_counter()
    model = train()
    seconds = time.perf_counter() - began_s
    return seconds, float(accuracy_score(data["y_test"], model.predict(data["x_test"])))


def cell(session: Session, code: str) -> Outcome:
    """Return the same of a training on ranks: of the slowest."""
    session.run(code)
    return max(session.pull("seconds").values()), float(session.pull("accuracy")[0])


def measured(sides: dict[str, Callable[[], Outcome]]) -> dict[str, dict[str, float]]:
    """Return each side's figures: the median of its seconds with their range, and its accuracy."""
    found = rounds(sides, ROUNDS, show=lambda outcome: f"{outcome[0]:.1f} s")
    return {
        name: {
            "seconds": round(statistics.median(seconds for seconds, _ in outcomes), 2),
            "seconds_min": round(min(seconds for seconds, _ in outcomes), 2),
            "seconds_max": round(max(seconds for seconds, _ in outcomes), 2),
            "accuracy": round(outcomes[-1][1], 4),
        }
        for name, outcomes in found.items()
    }


def table_of(outcomes: dict[str, dict[str, float]]) -> str:
    """Return the figures as a table of Markdown."""
    lines = ["| what | seconds (range) | accuracy |", "|---|---|---|"]
    for name, row in outcomes.items():
        spread = f"{row['seconds']:.1f} ({row['seconds_min']:.1f}-{row['seconds_max']:.1f})"
        lines.append(f"| {name} | {spread} | {row['accuracy']:.3f} |")
    return "\n".join(lines) + "\n"


def outcomes_of(page: str) -> dict[str, dict[str, float]]:
    """Return the figures of a page that has the table of `table_of`.

    Args:
        page: docs/ml.md, in which nothing else has rows of this form.

    Example:
        >>> outcomes_of("| forest, `snapml`, 2 threads | 4.3 (2.8-4.8) | 0.930 |")
        {'forest, snapml, 2 threads': {'seconds': 4.3, 'seconds_min': 2.8, 'seconds_max': 4.8, 'accuracy': 0.93}}
    """
    names = ("seconds", "seconds_min", "seconds_max", "accuracy")
    return {
        found[1].replace("`", ""): dict(zip(names, map(float, found.groups()[1:]), strict=True))
        for found in _ROW.finditer(page)
    }


def draw(outcomes: dict[str, dict[str, float]], folder: Path) -> None:
    """Write machine-learning-THEME.png for each theme.

    Args:
        outcomes: what `measured` or `outcomes_of` returned.
        folder: for the pictures.
    """
    for theme in charts.THEMES:
        with charts.themed(theme) as pyplot:
            figure = plot(pyplot, outcomes)
            charts.save(figure, folder / f"machine-learning-{theme}.png")
            pyplot.close(figure)


def plot(pyplot: Any, outcomes: dict[str, dict[str, float]]) -> Any:
    """Draw seconds and accuracy side by side.

    Args:
        pyplot: matplotlib's, in a theme.
        outcomes: what `measured` or `outcomes_of` returned.

    Returns:
        matplotlib's figure.
    """
    names = list(outcomes)[::-1]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 0.5 * len(names) + 1.2), sharey=True)
    seconds = [outcomes[name]["seconds"] for name in names]
    reach = [
        [outcomes[name]["seconds"] - outcomes[name]["seconds_min"] for name in names],
        [outcomes[name]["seconds_max"] - outcomes[name]["seconds"] for name in names],
    ]
    left.barh(names, seconds, xerr=reach, color="#3f7fb5", ecolor="#888888")
    left.set_xlabel("seconds to train (bar: range)")
    accuracy = [outcomes[name]["accuracy"] for name in names]
    right.plot(accuracy, names, "o", color="#d0703c")
    right.set_xlabel(f"accuracy on {SAMPLES // 4:,} other rows")
    right.grid(axis="x", alpha=0.3)
    figure.suptitle(f"{SAMPLES * 3 // 4:,} rows of {FEATURES} features, 2 cores", fontsize=10)
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    main()
