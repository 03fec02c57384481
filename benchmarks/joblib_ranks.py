"""joblib's tasks on two ranks and in loky's processes on the same cores: a search, a forest, and many short tasks.

Both sides are warm: the ranks run, and so do loky's processes. Their results must be equal, which is checked. One
process is a third side, by which the gain of either is seen where nothing else runs; it is told and not judged.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

import jupyter_ddl
from benchmarks.harness import Row, report, rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

N = 2
ROUNDS = 5
SAMPLES, FEATURES = 30_000, 40
SHORT = 3_000
AIM = 1.1


def main() -> None:
    """Run the benchmark."""
    x, y = make_classification(SAMPLES, FEATURES, n_informative=20, random_state=0)

    def search() -> Any:
        return (
            GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [4, 6, 8, 10]}, cv=3)
            .fit(x, y)
            .best_score_
        )

    def forest() -> Any:
        return RandomForestClassifier(16, max_depth=10, random_state=0).fit(x, y).score(x, y)

    def short() -> Any:
        return sum(joblib.Parallel()(joblib.delayed(abs)(number) for number in range(SHORT)))

    with jupyter_ddl.start(n=N, name="joblib", framework="none") as session:
        places: dict[str, Callable[[], AbstractContextManager[Any]]] = {
            "ranks": lambda: jupyter_ddl.parallel_backend(session=session, quiet=True),
            "loky": lambda: loky(),
            "one": nullcontext,
        }
        rows, also = list[Row](), list[Row]()
        for work in (search, forest, short):
            results = set()

            def timed(place: Callable[[], AbstractContextManager[Any]], work: Callable[[], Any] = work) -> float:
                with place():
                    began_s = time.perf_counter()
                    results.add(np.round(work(), 12).item())  # noqa: B023  used within the round
                    return time.perf_counter() - began_s

            sides = {name: (lambda place=place: timed(place)) for name, place in places.items()}
            for name in ("ranks", "loky"):
                sides[name]()
            seconds = rounds(sides, ROUNDS, show="{:.2f} s".format)
            assert len(results) == 1, f"{work.__name__} gave {results}"
            ours, theirs, one = (tuple(seconds[name]) for name in places)
            # A call is a run, with a folder and a record: that is what so short a one takes.
            (also if work is short else rows).append(Row(f"{work.__name__}, loky", ours, theirs, "s"))
            also.append(Row(f"{work.__name__}, one process", ours, one, "s"))
    report("joblib_ranks", rows, aim=AIM, better="lower", also=also)


@contextmanager
def loky() -> Iterator[None]:
    """Run joblib's tasks in its own processes."""
    with joblib.parallel_config(backend="loky", n_jobs=N):
        yield


if __name__ == "__main__":
    main()
