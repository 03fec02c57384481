"""What is tried of an exchange, what is worth it, and the line to set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_ddl import cli
from jupyter_ddl.scaling import tuning
from jupyter_ddl.scaling.tuning import Job, Trial, Tuned
from jupyter_ddl.scaling_program.tuned import EnoughSteps, Timed

if TYPE_CHECKING:
    from pathlib import Path

JOB = Job(("train.py", "--fast"), 2, ("--auto",), 5, 20)


def tuned(kind: str, gains: tuple[float, ...], **settings: object) -> Tuned:
    """Return a trial that gained so much in the rounds."""
    trial = Trial(kind, f"{kind} {gains[0]}", **settings)  # type: ignore[arg-type]
    return Tuned(trial, tuple(0.01 / (1 + gain) for gain in gains), gains)


def test_trials_fit_the_job() -> None:
    two = tuning.trials(2, 2, nccl=False, hosts=False)
    assert {trial.kind for trial in two} == {"fusion", "cycle", "groups", "compression", "threads"}
    assert [trial.threads for trial in two if trial.threads] == [1, 2]
    four = {trial.name for trial in tuning.trials(8, 4, nccl=False, hosts=True)}
    assert {"MPI ring", "MPI Rabenseifner", "MPI hierarchical", "4 threads a rank"} <= four
    with_nccl = {trial.name for trial in tuning.trials(8, 4, nccl=True, hosts=True)}
    assert {"NCCL Tree", "hierarchical"} <= with_nccl
    assert not {"MPI ring"} & with_nccl


def test_only_fp16_changes_results() -> None:
    every = [*tuning.trials(8, 4, nccl=True, hosts=True), *tuning.trials(8, 4, nccl=False, hosts=True)]
    assert {trial.name for trial in every if trial.changes} == {"fp16"}
    assert {trial.name for trial in every if trial.compression} == {"fp16"}


@pytest.mark.parametrize(
    ("gains", "expected"), [((0.1, 0.2, 0.3), True), ((-0.01, 0.2, 0.3), False), ((0.01, 0.02, 0.02), False)]
)
def test_a_gain_counts_where_every_round_has_one(gains: tuple[float, ...], expected: bool) -> None:
    assert tuned("fusion", gains).is_worth_it is expected


def test_the_best_of_each_kind_is_combined_and_fp16_never() -> None:
    found = [
        tuned("fusion", (0.1, 0.1), variables={"HOROVOD_FUSION_THRESHOLD": "1"}),
        tuned("fusion", (0.2, 0.2), variables={"HOROVOD_FUSION_THRESHOLD": "2"}),
        tuned("groups", (0.05, 0.06), groups=4),
        tuned("threads", (-0.5, -0.5), threads=1),
        tuned("compression", (0.9, 0.9), compression="fp16", changes="gradients travel as float16"),
    ]
    together = tuning.combined(found)
    assert together is not None
    settings = (dict(together.variables), together.threads, together.groups, together.compression)
    assert settings == ({"HOROVOD_FUSION_THRESHOLD": "2"}, None, 4, None)
    said = tuning.line(together, JOB)
    assert "jupyter ddl run -n 2 --env HOROVOD_FUSION_THRESHOLD=2 --auto train.py --fast" in said
    assert "%ddl start -n 2 --env HOROVOD_FUSION_THRESHOLD=2" in said
    assert "groups=4" in said
    assert tuning.best(found) == found[1].trial


def test_groups_alone_are_set_in_the_program() -> None:
    together = tuning.combined([tuned("groups", (0.05, 0.06), groups=4)])
    assert tuning.line(together, JOB) == "Set in the program: hvd.DistributedOptimizer(..., groups=4)"


def test_nothing_that_gains_is_said() -> None:
    found = [tuned("fusion", (0.01, 0.0))]
    assert tuning.combined(found) is None
    assert tuning.best(found) is None
    assert tuning.line(None, JOB) == "Nothing gains 3% in every round: leave it as it is."


def test_the_table_has_the_best_first_below_the_program_as_it_is() -> None:
    found = [
        Tuned(Trial(tuning.AS_IT_IS, tuning.AS_IT_IS), (0.01, 0.01), (0.0, 0.0)),
        tuned("fusion", (-0.1, 0.0)),
        tuned("compression", (0.5, 0.7), changes="gradients travel as float16"),
    ]
    lines = tuning.table(found).splitlines()
    assert lines[1].split() == ["as", "it", "is", "10.00", "ms"]
    assert "+60%" in lines[2]
    assert "+50% to +70%" in lines[2]
    assert lines[2].endswith("gradients travel as float16")


def test_a_trial_is_a_run_with_its_settings(tmp_path: Path) -> None:
    trial = Trial("fusion", "f", {"HOROVOD_FUSION_THRESHOLD": "7"}, threads=3, groups=2, compression="fp16")
    words = JOB.command(trial, tmp_path / "out")
    start, _, program = " ".join(words).partition(" -- ")
    assert start.endswith("run -n 2 --threads 3 --env HOROVOD_FUSION_THRESHOLD=7 --auto")
    assert program.split()[1:] == [str(tmp_path / "out"), "5", "20", "2", "fp16", "script", "train.py", "--fast"]


def test_the_rounds_are_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def step_s(_job: Job, trial: Trial) -> float:
        order.append(trial.name)
        return 0.02 if trial.name == tuning.AS_IT_IS else 0.01

    monkeypatch.setattr(Job, "step_s", step_s)
    found = tuning.tune(JOB, [Trial("cycle", "a"), Trial("cycle", "b")], rounds=3)
    assert order == [tuning.AS_IT_IS, "a", "b", "a", "b", tuning.AS_IT_IS, "b", tuning.AS_IT_IS, "a"]
    assert [each.gain for each in found] == [0.0, 1.0, 1.0]


def test_steps_end_the_program_when_there_are_enough() -> None:
    timed = Timed(warm_up=1, steps=2)
    timed.ended(0.0, 9.0)
    timed.ended(9.0, 10.0)
    with pytest.raises(EnoughSteps):
        timed.ended(10.0, 12.0)
    assert timed.step_s == [1.0, 2.0]
    assert not issubclass(EnoughSteps, Exception)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["none.py"], "The script must exist. Received: none.py"),
        (["--only", "speed", "SCRIPT"], "--only names kinds of settings. Received: speed"),
    ],
)
def test_what_is_wrong_is_refused(
    words: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tuning, "uses_nccl", lambda: False)
    script = tmp_path / "train.py"
    script.write_text("")
    assert cli.main(["tune", "-n", "2", *(str(script) if word == "SCRIPT" else word for word in words)]) == 1
    assert text in capsys.readouterr().err
