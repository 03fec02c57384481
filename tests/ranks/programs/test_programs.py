"""Programs as people wrote them from 2017 to 2023, pasted in a cell unchanged: they train, in sync."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from ranks.program_runs import (
    PROGRAMS,
    TIMELINE,
    Outcome,
    exchanges_in,
    run_as_script,
    run_in_cell,
    text_of,
    write_mnist,
)
from ranks.sizes import slow_but

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi


@dataclass(frozen=True)
class Expected:
    """What a program must come to.

    Attributes:
        models: the names under which it leaves models.
        history: what `fit` must have recorded, besides the loss.
        says: a line that rank 0 must print.
        files: what rank 0 must leave, as a pattern.
    """

    models: frozenset[str]
    history: frozenset[str] = frozenset()
    says: str = ""
    files: str = ""


def expected(*models: str, history: str = "", says: str = "", files: str = "") -> Expected:
    return Expected(frozenset(models), frozenset(history.split()), says, files)


IN_A_CELL = {
    "accumulated_gradients": expected("model", history="accuracy"),
    "autoencoder_weights": expected("first_half", "model", history="val_loss", says="Error:", files="autoencoder.h5"),
    "average_scores": expected("model", history="accuracy", says="On 360 images:"),
    "batch_by_batch": expected("model", says="rank 0: loss"),
    "elastic_loop": expected("model", says="Batches done: 20"),
    "elastic_state": expected("model", history="accuracy", says="Epochs done: 2"),
    "fine_tuning": expected("base", "model", "odd_or_even", history="accuracy", says="head alone"),
    "gan_two_tapes": expected("discriminator", "generator", says="step 40:"),
    "half_precision": expected("model", history="accuracy"),
    "mnist_augmented": expected(
        "model", history="accuracy val_accuracy", says="Test accuracy:", files="augmented-3.h5"
    ),
    "mnist_session": expected("model", history="val_accuracy", says="Test accuracy:", files="checkpoint-2.h5"),
    "moved_names": expected("model", history="acc val_acc", says="As saved:", files="best-0?-*.hdf5"),
    "own_callbacks": expected("model", history="accuracy lr", says="Learning rates by epoch:"),
    "review_embedding": expected("model", history="acc val_acc", says="A new one:"),
    "sequence_loader": expected("model", history="val_accuracy"),
    "sharded_pipeline": expected("model", history="val_accuracy"),
    "siamese_custom_loss": expected("base", "head", "model", "twins", files="twins_weights.h5"),
    "sine_lstm": expected("model", history="mae val_mae", says="Error on rank 0:"),
    "tf2_dataset": expected("model", history="accuracy", files="checkpoint-3.h5"),
    "tf2_gradient_tape": expected("model", says="Step #70", files="checkpoints-1.index"),
    "vae_train_step": expected("decoder", "encoder", "vae"),
}
WITHOUT_KERAS = {"diabetes_linear", "digits_in_a_graph", "line_in_a_graph"}
ELSEWHERE = {"arguments", "image_folders_resume", "two_groups"}
# Of each kind one; `make test-slow` runs the others.
QUICK = {"moved_names", "tf2_gradient_tape", "vae_train_step"}


def check(outcome: Outcome, wanted: Expected, folder: Path) -> None:
    # The report has compared the weights of each model bit by bit; here, that it found the models at all.
    models = set(outcome.one("checksums"))
    assert models <= wanted.models, models
    assert models, "the report must find a model"
    iterations = outcome.one("iterations")
    assert iterations > 0
    assert outcome.exchanges >= iterations, "every step must have exchanged gradients"
    for report in outcome.ranks:
        assert report["losses"][-1] < report["losses"][0], "the loss must have fallen"
        assert wanted.history <= set(report["history"])
    assert wanted.says in outcome.output[0]
    assert not wanted.files or list(folder.glob(wanted.files)), list(folder.iterdir())


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with MNIST, or what this machine has in its place."""
    return write_mnist(tmp_path_factory.mktemp("data"))


@pytest.fixture
def image_folders() -> Callable[[Path], None]:
    """Return a function that writes scikit-learn's digits as pictures, a folder a class, as ImageNet comes."""
    from PIL import Image
    from sklearn.datasets import load_digits

    scans, labels = load_digits(n_class=6, return_X_y=True)

    def write(folder: Path) -> None:
        for number, (scan, label) in enumerate(zip(scans.reshape(-1, 8, 8), labels, strict=True)):
            part = folder / ("validation" if number % 6 == 0 else "train") / f"digit-{label}"
            part.mkdir(parents=True, exist_ok=True)
            Image.fromarray((scan * 15.9).astype("uint8")).resize((28, 28)).save(part / f"{number}.png")

    return write


def test_every_program_is_tested_and_knows_nothing_of_us() -> None:
    names = {path.stem for path in PROGRAMS.glob("*.py")}
    assert names == IN_A_CELL.keys() | WITHOUT_KERAS | ELSEWHERE
    assert not [name for name in names if "ddl" in text_of(name).lower()]


@pytest.mark.parametrize("name", slow_but(QUICK, IN_A_CELL))
def test_a_program_trains_in_sync_unchanged(name: str, pair: Session, tmp_path: Path, data: Path) -> None:
    check(run_in_cell(pair, name, tmp_path, data), IN_A_CELL[name], tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("line_in_a_graph", "line"), pytest.param("digits_in_a_graph", "weights", marks=pytest.mark.slow)],
)
def test_graphs_and_sessions_of_tensorflow_1(name: str, value: str, pair: Session, tmp_path: Path, data: Path) -> None:
    outcome = run_in_cell(pair, name, tmp_path, data)
    first, second = outcome.one("every rank's values")[value]
    assert first == second
    assert outcome.exchanges >= 200 // pair.world_size
    for report in outcome.ranks:
        assert report["losses"][-1] < 0.5 * report["losses"][0]


def test_no_neural_network_at_all(pair: Session, tmp_path: Path, data: Path) -> None:
    outcome = run_in_cell(pair, "diabetes_linear", tmp_path, data)
    assert "Explained variance: 0.6" in outcome.output[0], outcome.output
    assert outcome.exchanges == 2


@pytest.mark.slow
def test_a_job_that_was_killed_goes_on_from_its_checkpoint(
    pair: Session, tmp_path: Path, data: Path, image_folders: Callable[[Path], None]
) -> None:
    image_folders(tmp_path)
    wanted = expected("model", history="val_accuracy top_k_categorical_accuracy", says="Test accuracy:")
    check(run_in_cell(pair, "image_folders_resume", tmp_path, data), wanted, tmp_path)
    (tmp_path / "checkpoint-3.h5").unlink()

    resumed = run_in_cell(pair, "image_folders_resume", tmp_path, data)
    assert resumed.one("checksums").keys() == {"model"}
    assert "Epoch 3/3" in resumed.output[0]
    assert "Epoch 2/3" not in resumed.output[0]
    assert len(resumed.ranks[0]["losses"]) == 1
    assert (tmp_path / "checkpoint-3.h5").is_file()


# --- jupyter ddl run -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_script_with_arguments_trains_in_sync_from_the_command_line(tmp_path: Path, data: Path) -> None:
    printed = run_as_script(2, "arguments", tmp_path, data, "--epochs", "3", "--fp16-allreduce")
    sums = dict(re.findall(r"rank (\d) of 2: sum of weights (\S+)", printed))
    assert sums.keys() == {"0", "1"}, printed
    assert sums["0"] == sums["1"]
    first, *_, last = map(float, printed.partition("loss by epoch: ")[2].split()[:3])
    assert last < first
    assert exchanges_in(tmp_path / TIMELINE) > 50


@pytest.mark.slow
def test_a_session_of_tensorflow_1_from_the_command_line(tmp_path: Path, data: Path) -> None:
    printed = run_as_script(2, "mnist_session", tmp_path, data)
    # Both ranks test on all images with the same weights, so they print the same line: once, unless they are far apart.
    lines = re.findall(r"\[([\d-]+)\] +Test accuracy: (0\.\d+)", printed)
    assert {ranks for ranks, _ in lines} in ({"0-1"}, {"0", "1"}), printed
    assert len({accuracy for _, accuracy in lines}) == 1, printed
    assert (tmp_path / "checkpoint-2.h5").is_file()
