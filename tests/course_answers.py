"""Wrong answers to the course's exercises, as learners give them: notebook -> exercise -> code of its cell.

Each must be refused by its check in one line, without a traceback, also where the cell before has raised.
"""

from __future__ import annotations

_SHARD = "%%distributed\ndef shard(images, rank, world_size):\n    return {}"
_LONELY = "%%distributed\nkeras.utils.set_random_seed({})\nlonely = make_model()\n{}"
_SMALL = """%%distributed{}
keras.utils.set_random_seed(3)
small = keras.Sequential([keras.Input((28, 28, 1)), layers.Flatten(), layers.Dense(10, activation="softmax")])
small.compile(keras.optimizers.SGD({}), loss="sparse_categorical_crossentropy")
history = small.fit(x_train[:1024], y_train[:1024], batch_size=64, epochs=1, verbose=0)"""
_SCALED = "def scaled(rate, ranks, rule):\n    return {}"
_TRAIN = "%%distributed --auto --batch global\ntried = train({})"
_PIPELINE = "%%distributed\ndef pipeline(numbers, slow):\n    {}"
_SPELLED = 'today = """\nfrom tensorflow import keras\nmodel.compile({}, "mse")\n{}\n"""'
_COUNTS = """%%distributed
right, count = 0, 0
with torch.no_grad():
    for x, y in loader:
        right += (model(x.to(device)).argmax(1).cpu() == y).sum().item()
        count += len(y)
counts = torch.tensor([right, count], device=device)
{}"""
_APART = """%%distributed{}
keras.utils.set_random_seed(rank)
apart = make_model()
history = apart.fit(*samples(), batch_size=32, epochs=2, verbose=0)"""
_PROFILE = '''mine = """
[course]
launcher = "slurm"

[course.defaults]
partition = "teaching"
nodes = 2
ntasks_per_node = 1
{}
"""'''
_ON_ONE_RANK = """%%distributed
hvd.init()
all_ranks = float(hvd.allreduce(tf.constant(float(rank))))
del mean
if rank == 0:
    mean = all_ranks"""
_DIVIDED = """%%distributed --auto --memory accumulate=2
divided = make_model()
history = divided.fit(x[:32], y[:32], batch_size=8, verbose=0)"""
_PLACES = """answers = {
    "JupyterLab runs within an allocation of two nodes": "start -H",
    "three workstations of the group, no queue": "start -H",
    "JupyterLab on a login node; I want to try things out on 8 GPUs": "submit",
    "the notebook is done; it should run tonight": "export",
}"""

WRONG: dict[str, dict[int, tuple[str, ...]]] = {
    "01": {
        1: (
            _SHARD.format("images[rank::world_size]"),
            _SHARD.format("images[: len(images) // world_size]"),
            _SHARD.format("images[rank * 25 : (rank + 1) * 25]"),
            _SHARD.format("images[rank::world_size][: len(images) / world_size]"),
            _SHARD.format("np.arange(rank, len(images), world_size)[: len(images) // world_size]"),
        ),
        2: (
            _LONELY.format("7", ""),
            _LONELY.format("rank", "hvd.broadcast_variables(lonely.variables, root_rank=hvd.size() - 1)"),
        ),
        3: ("efficiency = 9_000 / 3_000", "efficiency = 75", 'efficiency = "75 %"'),
    },
    "02": {
        1: (
            "batch, images, rate = 32, 2000, 0.4",
            "batch, images, rate = 128, 8000, 0.4",
            "batch, images, rate = 128, 2000, 0.2",
            "batch, images, rate = 128, 2000",
        ),
        2: (
            _SMALL.format("", "0.05"),
            _SMALL.format(" --auto", "0.05"),
            _SMALL.format(" --independent", "0.05"),
            _SMALL.format(" --auto --batch global", "0.1"),
        ),
    },
    "03": {
        1: (_SCALED.format("rate * ranks"), _SCALED.format('rate * ranks if rule == "linear" else ranks**0.5')),
        2: (_TRAIN.format("32, 0.05"), _TRAIN.format("128, 50.0")),
    },
    "04": {
        1: (
            _PIPELINE.format("numbers.shard(hvd.size(), hvd.rank()).map(slow)"),
            _PIPELINE.format("return numbers.shard(hvd.size(), hvd.rank())"),
            _PIPELINE.format("return numbers.map(slow)"),
        ),
        2: (
            'order = ["shard", "decode", "cache", "shuffle", "augment"]',
            'order = ["shard", "decode", "cache", "shuffle", "augment", "bach"]',
            'order = ["shard", "decode", "augment", "cache", "shuffle", "batch"]',
        ),
    },
    "05": {
        1: (
            "%%distributed\nopt = hvd.DistributedOptimizer(SGD(learning_rate=0.01))",
            "%%distributed\nopt = SGD(learning_rate=0.01 * hvd.size())",
        ),
        2: (
            _SPELLED.format("keras.optimizers.Adam(lr=1e-3)", "model.fit(batches, epochs=3)"),
            _SPELLED.format("keras.optimizers.Adam(learning_rate=0.001)", "model.fit(batches, epochs=3"),
            _SPELLED.format("keras.optimizers.Adam(learning_rate=0.001)", "model.fit(batches)"),
        ),
    },
    "06": {
        1: (
            "%%distributed\nhvd.init()\nmean = float(hvd.allreduce(tf.constant(float(rank)), op=hvd.Sum))",
            _ON_ONE_RANK,
        ),
        2: ("scale = 255.0", "%%distributed --setup\nscale = 1 / 255"),
        3: (_APART.format(""), _APART.format(" --on-drift warn")),
    },
    "07": {
        1: (
            'updates = {"asynchronous": 1, "synchronous": 8}',
            "updates = 8, 1",
        ),
        2: ("late_rank = -1", 'late_rank = "rank 1"'),
        3: ("factor = 10 / 40", "factor = 40 / 10", 'factor = "1.33"'),
    },
    "08": {
        1: (
            'options = "--slurm -n 8 --sweep rate=0.1,0.03,0.01"',
            'options = "--slurm -n 8 --sweep rate=0.1,0.03,0.01 --sweep batches=32,64"',
            'options = "--slurm -n 8 --sweep rate=0.1,0.03,0.01,batch=32,64"',
        ),
        2: (_PROFILE.format('time = "0:15"'), _PROFILE.format("time = 0:15\n[course.limits]\nnodes = 2")),
        3: (_PLACES, "answers = {}"),
    },
    "09": {
        1: (
            _COUNTS.format("counts *= world_size"),
            _COUNTS.format("counts[1:] *= world_size"),
            _COUNTS.format("dist.all_reduce(counts, dist.ReduceOp.MAX)"),
            _COUNTS.format("dist.reduce(counts, 0)"),
            _COUNTS.format("dist.broadcast(counts, 0)"),
        ),
        2: ("%%distributed\ndef average(parameters):\n    for one in parameters:\n        dist.all_reduce(one.grad)",),
        3: ("%%distributed\ncentred = own - own.mean(axis=0)", "%%distributed\ncentred = None"),
        4: ("%%distributed\nrows = np.full((4, 3), float(rank))",),
    },
    "10": {
        1: (_DIVIDED,),
        2: ("with jupyter_ddl.parallel_backend():\n    parts = [part(seed) for seed in range(4)]", "parts = []"),
    },
}
