"""Holds the classes and functions that a written program may need. They are meant to be read."""

from __future__ import annotations

EVALUATE = '''
def evaluate_together(
    model, x, y=None, batch_size=None, verbose=1, sample_weight=None, steps=None, callbacks=None, return_dict=False
):
    """Evaluate on this rank's part of the data, and return the result of all ranks' parts together."""
    data = jupyter_ddl.data.parts(x, y, sample_weight, batch_size=(batch_size or 32) * hvd.size(), shuffle=False)
    result = model.evaluate(data, verbose=0, steps=steps, callbacks=callbacks, return_dict=True)
    if not all(hvd.allgather_object(bool(result))):  # too few samples for a part each
        return model.evaluate(x, y, batch_size, 0, sample_weight, steps, callbacks, return_dict)
    average = hvd.callbacks.MetricAverageCallback()  # weighs by samples, and sums what AUC and the like have counted
    average.set_model(model)
    average.on_epoch_end(0, result)
    if verbose and hvd.rank() == 0:
        print(" - ".join(f"{name}: {value:.4f}" for name, value in result.items()))
    values = [result["loss"], *(value for name, value in result.items() if name != "loss")]
    return result if return_dict else values if len(values) > 1 else values[0]
'''

OWN_RANDOM_NUMBERS = '''
class OwnRandomNumbers(keras.callbacks.Callback):
    """Each rank draws dropout masks and augmentations of its own: alike, they would be the same N times over."""

    apart = set()

    def on_train_begin(self, logs=None):
        for variable in self.model.non_trainable_variables:
            if "seed_generator" in variable.path and id(variable) not in self.apart:
                self.apart.add(id(variable))
                seed, count = variable.numpy()
                variable.assign([(int(seed) + hvd.rank() * 1_000_003) % 2**32, count])
'''

MOVING_STATISTICS = '''
class AverageMovingStatistics(keras.callbacks.Callback):
    """What BatchNormalization learns from each rank's own data becomes the mean of the ranks', once an epoch."""

    def average(self):
        for weight in self.model.non_trainable_weights:
            if "float" in weight.dtype:
                weight.assign(hvd.allreduce(weight.value))

    def on_test_begin(self, logs=None):
        self.average()

    def on_epoch_end(self, epoch, logs=None):
        self.average()
'''

START_TOGETHER = '''
class StartTogether(hvd.callbacks.BroadcastGlobalVariablesCallback):
    """Rank 0 restores what BackupAndRestore has saved; the others get it from there, and begin in the same epoch."""

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self.model._initial_epoch = hvd.broadcast_object(self.model._initial_epoch)
'''

EVERY_NTH = '''
class EveryNth(keras.utils.PyDataset):
    """Of N ranks, this one takes every N-th batch."""

    def __init__(self, whole):
        super().__init__(workers=whole.workers, use_multiprocessing=whole.use_multiprocessing)
        self.whole = whole

    def __len__(self):
        return len(range(hvd.rank(), len(self.whole), hvd.size()))

    def __getitem__(self, index):
        return self.whole[hvd.rank() + index * hvd.size()]

    def on_epoch_end(self):
        self.whole.on_epoch_end()
'''

CLASS_WEIGHTS = '''
def weights_of(y, class_weight):
    """Return a weight for each sample, as fit makes them of class_weight."""
    classes = np.asarray(y)
    classes = classes.argmax(axis=-1) if classes.ndim > 1 and classes.shape[-1] > 1 else classes.reshape(-1)
    return np.array([class_weight.get(int(one), 1.0) for one in classes])
'''

SCHEDULE = '''
class ScheduleOfAllRanks(keras.optimizers.schedules.LearningRateSchedule):
    """The program's schedule by the samples that all ranks have seen, times a factor that WarmUp sets."""

    factor = keras.Variable(1.0, trainable=False)

    def __init__(self, schedule):
        self.schedule = schedule

    def __call__(self, step):
        return self.factor * self.schedule(step * hvd.size())
'''

_WARM_UP = '''
class WarmUp(keras.callbacks.Callback):
    """{what}"""

    now = 1.0  # the factor that the last step had

    def __init__(self, factor, epochs):
        super().__init__()
        self.factor, self.epochs = factor, epochs

    def on_train_begin(self, logs=None):
        steps = hvd.allgather_object(self.params["steps"])
        self.steps = min(steps) if all(steps) else None  # of the rank that has fewest; None where not known
        if self.model.optimizer.iterations.numpy() > 0:
            self.epochs = 0  # it continues a training, and is warm

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        done = self.epoch + min(1, (batch + self.model.steps_per_execution) / self.steps if self.steps else 1)
        share = 1 if done >= self.epochs else (1 + done * (hvd.size() - 1) / self.epochs) / hvd.size()
        before, WarmUp.now = WarmUp.now, self.factor * share
        for total in getattr(self.model.optimizer, "momentums", ()):  # SGD's: sums of steps of the rate before
            total.assign(total * (WarmUp.now / before))
{set}'''

WARM_UP_SCHEDULE = _WARM_UP.format(
    what="Times the schedule by `factor`, and in the first epochs by less: 1/N at first, if there are N ranks.",
    set="        ScheduleOfAllRanks.factor.assign(WarmUp.now)\n",
)

# The program sets the rate itself: what it reads and sets stays its own.
WARM_UP_RATE = _WARM_UP.format(
    what="Times the learning rate in each step by `factor`, and in the first epochs by less: 1/N at first.",
    set="""        rate = float(self.model.optimizer.learning_rate.numpy())
        if rate != self.scaled:
            self.own = rate  # set by the program since
        self.model.optimizer.learning_rate = self.own * WarmUp.now
        self.scaled = float(self.model.optimizer.learning_rate.numpy())

    def on_epoch_end(self, epoch, logs=None):
        self.model.optimizer.learning_rate = self.own  # for callbacks that read or change it
        self.scaled = None
""",
).replace("    now = 1.0 ", "    scaled = None  # the rate that is set for a step\n    now = 1.0 ")

BY_NAME = {
    "START_TOGETHER": START_TOGETHER,
    "OWN_RANDOM_NUMBERS": OWN_RANDOM_NUMBERS,
    "MOVING_STATISTICS": MOVING_STATISTICS,
    "SCHEDULE": SCHEDULE,
    "WARM_UP_SCHEDULE": WARM_UP_SCHEDULE,
    "WARM_UP_RATE": WARM_UP_RATE,
    "EVERY_NTH": EVERY_NTH,
    "CLASS_WEIGHTS": CLASS_WEIGHTS,
    "EVALUATE": EVALUATE,
}
