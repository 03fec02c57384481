"""Programs of Horovod's Keras API where Keras is on PyTorch and no Horovod is installed; what a rank does in fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jupyter_ddl.errors import RankError
from jupyter_ddl.protocol.cell_options import AutoOptions

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi


@pytest.fixture
def pair(keras_pair: Session) -> Session:
    return keras_pair


GLOBAL = AutoOptions(batch="global")
# Another seed on each rank, so that weights are alike by the broadcast alone.
BEGIN = """
import keras, numpy as np
import horovod.keras as hvd
hvd.init()
keras.utils.set_random_seed(3 + hvd.rank())
numbers = np.random.default_rng(0)
x = numbers.normal(size=(96, 4)).astype("float32")
y = x.sum(1, keepdims=True)
part = slice(hvd.rank(), None, hvd.size())
def made():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])
model = made()
optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.05, momentum=0.9))
model.compile(optimizer, "mse")
broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
"""
FIT = "model.fit(x[part], y[part], batch_size=8, epochs=2, verbose=0, shuffle=False, callbacks=[broadcast])\n"
# One rank takes the samples of both, in batches of those that both had.
ALONE = """
model = made()
model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse")
keras.utils.set_random_seed(3)
model.set_weights(made().get_weights())
order = np.concatenate([np.r_[i : i + 16 : 2, i + 1 : i + 16 : 2] for i in range(0, 96, 16)])
model.fit(x[order], y[order], batch_size=16, epochs=2, verbose=0, shuffle=False)
"""
FAILS = """
class Fails(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if hvd.rank() == 1 and batch == 2:
            raise ValueError("broken")
"""
WEIGHTS = "weights = np.concatenate([weight.ravel() for weight in model.get_weights()])\n"


def weights(session: Session, code: str, **options: Any) -> list[np.ndarray]:
    session.run(code + WEIGHTS, timeout_s=100, **options)
    return list(session.pull("weights").values())


def message(session: Session, code: str, **options: Any) -> str:
    with pytest.raises(RankError) as raised:
        session.run(code, timeout_s=100, **options)
    return str(raised.value)


def test_a_program_of_horovods_trains_as_one_process_with_the_global_batch(pair: Session) -> None:
    first, second = weights(pair, BEGIN + FIT)
    third, _ = weights(pair, BEGIN.replace("+ hvd.rank()", "") + ALONE, independent=True)
    assert np.array_equal(first, second)
    assert np.abs(first - third).max() < 1e-5


def test_the_callbacks_of_horovod(pair: Session) -> None:
    pair.run(
        BEGIN
        + """
callbacks = [
    broadcast,
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.1, warmup_epochs=2),
    hvd.callbacks.LearningRateScheduleCallback(initial_lr=0.1, multiplier=lambda epoch: 0.1, start_epoch=2),
]
logs = model.fit(x[part], y[part], batch_size=8, epochs=3, verbose=0, callbacks=callbacks).history
checksum = hvd.check_in_sync(model)
""",
        timeout_s=100,
    )
    (one, other), checksums = pair.pull("logs").values(), pair.pull("checksum")
    assert one == other
    assert one["lr"] == pytest.approx([0.075, 0.1, 0.01])
    assert checksums[0] == checksums[1]


def test_collectives(pair: Session) -> None:
    pair.run(
        """
import numpy as np
import jupyter_ddl.keras as hvd
hvd.init()
rank = hvd.rank()
both, one = hvd.ProcessSet([0, 1]), hvd.ProcessSet([1])
for process_set in (both, one):
    hvd.add_process_set(process_set)
found = {
    "average": float(hvd.allreduce(rank)),
    "largest": float(hvd.allreduce(np.float32(rank), op=hvd.Max)),
    "half": float(hvd.allreduce(np.float32(0.1), compression=hvd.Compression.fp16)),
    "rows": hvd.allgather(np.arange(rank + 1)).tolist(),
    "root's": hvd.broadcast([rank + 5], 1).tolist(),
    "own part": hvd.reducescatter(np.ones((3, 1), "float32"), op=hvd.Sum).tolist(),
    "sent": hvd.alltoall(np.arange(4) + 10 * rank).tolist(),
    "objects": hvd.allgather_object({"rank": rank}),
    "object": hvd.broadcast_object(rank, root_rank=1),
    "of both": float(hvd.allreduce(1.0, op=hvd.Sum, process_set=both)),
    "of one": float(hvd.allreduce(7.0, process_set=one)) if one.included() else None,
    "sizes": [hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size(), hvd.is_homogeneous()],
}
hvd.barrier()
""",
        timeout_s=60,
    )
    first, second = pair.pull("found").values()
    alike = {
        "average": 0.5,
        "largest": 1.0,
        "half": pytest.approx(0.1, abs=1e-4),
        "rows": [0, 0, 1],
        "root's": [6],
        "objects": [{"rank": 0}, {"rank": 1}],
        "object": 1,
        "of both": 2.0,
    }
    for found in (first, second):
        assert {name: found[name] for name in alike} == alike
    assert (first["own part"], second["own part"]) == ([[2.0], [2.0]], [[2.0]])
    assert (first["sent"], second["sent"]) == ([0, 1, 10, 11], [2, 3, 12, 13])
    assert (first["of one"], second["of one"]) == (None, 7.0)
    assert (first["sizes"], second["sizes"]) == ([2, 0, 2, 0, 1, True], [2, 1, 2, 0, 1, True])


def test_ranks_with_different_numbers_of_batches_end_together(pair: Session) -> None:
    uneven = "part = slice(0, 20) if hvd.rank() == 0 else slice(20, None)\n"
    uneven += "optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.01), backward_passes_per_step=2)\n"
    uneven += "model.compile(optimizer, 'mse')\n"
    first, second = weights(pair, BEGIN + uneven + FIT)
    assert np.array_equal(first, second)


def test_a_loop_of_the_programs_own(pair: Session) -> None:
    loop = """
import torch
hvd.broadcast_variables(model.variables, root_rank=0)
for start in range(0, 48, 8):
    inputs, targets = torch.as_tensor(x[part][start : start + 8]), torch.as_tensor(y[part][start : start + 8])
    model.zero_grad()
    (model(inputs) - targets).square().mean().backward()
    with torch.no_grad():
        optimizer.apply([weight.value.grad for weight in model.trainable_weights], model.trainable_weights)
"""
    first, second = weights(pair, BEGIN + loop)
    assert np.array_equal(first, second)
    result = pair.run(BEGIN + loop.replace("[part]", ""), timeout_s=60)
    assert result.ranks[0].stderr.count("WARNING: the 2 ranks train on the same batches") == 1


def test_ranks_that_begin_with_different_weights_are_an_error(pair: Session) -> None:
    told = message(pair, BEGIN + FIT.replace("[broadcast]", "[]"))
    assert "RanksOutOfSync: All ranks must hold the same weights. Received: rank 1 of 2 differs from rank 0" in told
    assert "Pass hvd.callbacks.BroadcastGlobalVariablesCallback(0) to fit." in told


def test_ranks_that_train_on_the_same_batches_are_warned(pair: Session) -> None:
    result = pair.run(BEGIN + FIT.replace("[part]", ""), timeout_s=60)
    assert "WARNING: the 2 ranks train on the same batches" in result.ranks[0].stderr


def test_a_rank_that_raises_releases_the_other_which_trains_on(pair: Session) -> None:
    told = message(pair, BEGIN + FAILS + FIT.replace("[broadcast]", "[broadcast, Fails()]"))
    assert "Rank 1 of 2" in told
    assert "ValueError: broken" in told
    first, second = weights(pair, FIT)
    assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("hvd.DistributedGradientTape(None)", "A GradientTape is TensorFlow's, and Keras is on torch."),
        ("hvd.elastic.run", "hvd.elastic retries what Horovod has cut short"),
        ("hvd.join()", "hvd.join is Horovod's, and Keras on PyTorch exchanges by torch.distributed."),
        ("hvd.DistributedOptimizer(keras.optimizers.SGD(), op=hvd.Adasum)", "Adasum is Horovod's"),
        ("hvd.start_timeline('timeline.json')", "The timeline is Horovod's, and Keras on torch exchanges without it."),
        ("hvd.init(comm=[0])", "Over torch.distributed hvd.init takes no communicator."),
    ],
)
def test_what_pytorch_has_not_is_refused(pair: Session, line: str, says: str) -> None:
    assert f"InvalidInput: {says}" in message(pair, BEGIN + line)


AUTO = """
import keras, numpy as np
keras.utils.set_random_seed(3)
numbers = np.random.default_rng(0)
x = numbers.normal(size=(103, 4)).astype("float32")
y = x.sum(1, keepdims=True)
layers = [keras.layers.Dense(8, activation="tanh"), keras.layers.Dropout(0.3), keras.layers.BatchNormalization()]
model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
class Stops(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if stops and epoch == 2:
            raise KeyError("on purpose")
options = {"batch_size": 16, "epochs": 4, "validation_split": 0.1, "verbose": 0}
history = model.fit(x, y, callbacks=[Stops()], **options).history
"""


def test_a_training_that_resumes_from_a_checkpoint_ends_as_one_that_was_not_cut(
    pair: Session,
    tmp_path: Path,
) -> None:
    whole = weights(pair, "stops = False\n" + AUTO, auto=GLOBAL)
    assert "on purpose" in message(pair, "stops = True\n" + AUTO, auto=GLOBAL, checkpoint=str(tmp_path))
    result = pair.run("stops = False\n" + AUTO + WEIGHTS, auto=GLOBAL, checkpoint=str(tmp_path), timeout_s=100)
    assert "resumes after epoch 2 of 4" in result.ranks[0].stdout
    for before, after in zip(whole, pair.pull("weights").values(), strict=True):
        assert np.array_equal(before, after)


def test_fit_reports_samples_losses_and_epochs(pair: Session) -> None:
    result = pair.run("stops = False\n" + AUTO.replace('"batch_size": 16', '"batch_size": 2'), auto=GLOBAL)
    told = [json.loads(line) for line in (Path(result.folder) / "rank-0.events.jsonl").read_text().splitlines()]
    readings = [event for event in told if event["type"] == "metrics" and event["samples_per_s"]]
    assert sum(event["samples_per_s"] for event in readings) > 0
    assert readings[-1]["model"] == "Sequential, 81 parameters, batch 1"
    assert 0 < readings[-1]["exchange_s"] < readings[-1]["step_s"]
    ended = [event for event in told if event["type"] == "epoch_ended"]
    assert [event["epoch"] for event in ended] == [0, 1, 2, 3]
    assert ended[-1]["metrics"] == pytest.approx({name: values[-1] for name, values in pair.pull("history")[0].items()})


def test_layers_draw_for_their_own_samples_and_averages_are_those_of_all_ranks(pair: Session) -> None:
    drawn = """
class Seen(keras.layers.Layer):
    def call(self, inputs):
        if inputs.device.type != "meta":
            seen.append((inputs == 0).sum(0).tolist())
        return inputs
seen = []
model = keras.Sequential(
    [keras.Input((4,)), keras.layers.Dense(32), keras.layers.Dropout(0.5), Seen(), keras.layers.Dropout(0.5, seed=7)]
    + [Seen(), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
)
model.compile("sgd", "mse")
model.fit(x[:96], y[:96], batch_size=16, epochs=2, verbose=0)
"""
    first, second = weights(pair, "stops = False\n" + AUTO + drawn, auto=GLOBAL)
    assert np.array_equal(first, second), "moving averages too"
    one, other = pair.pull("seen").values()
    assert len(one) == len(other) == 24
    assert not any(ours == theirs for ours, theirs in zip(one, other, strict=True))
    assert len({str(counts) for counts in one}) == 24


def test_what_auto_refuses(pair: Session) -> None:
    by_hand = """
optimizer = keras.optimizers.SGD()
model.zero_grad()
model(x).mean().backward()
optimizer.apply([weight.value.grad for weight in model.trainable_weights], model.trainable_weights)
"""
    told = message(pair, "stops = False\n" + AUTO + by_hand, auto=GLOBAL)
    assert "--auto distributes fit and train_on_batch with the optimizer of compile" in told
    told = message(pair, "model.fit(x, y, verbose=0)")
    assert "A model that was trained with --auto exchanges its gradients, and trains on with --auto." in told
    told = message(pair, "x = x + rank\nmodel.fit(x, y, verbose=0)", auto=GLOBAL)
    assert "x (float32 (103, 4)) with other rows on rank 1 than on rank 0" in told


def test_buffers_of_modules_are_averaged_and_saved(pair: Session, tmp_path: Path) -> None:
    code = """
import keras, numpy as np, torch
keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(96, 4)).astype("float32")
y = x.sum(1, keepdims=True)
normal = torch.nn.BatchNorm1d(8)
wrapped = keras.layers.TorchModuleWrapper(normal)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), wrapped, keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y, batch_size=16, epochs=2, verbose=0)
means = normal.running_mean.numpy().copy()
"""
    pair.run(code, auto=GLOBAL, timeout_s=60, checkpoint=str(tmp_path))
    first, second = pair.pull("means").values()
    assert np.array_equal(first, second)
    assert np.abs(first).max() > 0
    pair.run(code, auto=GLOBAL, timeout_s=60, checkpoint=str(tmp_path))
    assert np.array_equal(pair.pull("means")[1], first), "read from the checkpoint, without a step"
