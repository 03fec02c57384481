"""What only new ranks show: all that these tests look at is of one cluster, from its first cell on.

Run the file whole: its first tests hold the import of TensorFlow back and let it go, for which the later ones wait.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from ranks.sizes import OF_ANY

import jupyter_ddl
from jupyter_ddl import paths
from jupyter_ddl.errors import RankError
from jupyter_ddl.protocol.cell_options import AutoOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

IMPORTS = "import horovod.tensorflow as hvd, tensorflow as tf\n"
SUMS = f"""{IMPORTS}
hvd.init()
def total():
    hvd.init()
    return float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum))
"""
# Start-up comes to TensorFlow once the first cell lets it.
LATE_TENSORFLOW = """
import builtins, pathlib, threading, time
stock = builtins.__import__
def late(name, *arguments, **options):
    while name == "tensorflow" and threading.current_thread() is not threading.main_thread():
        if pathlib.Path({cell!r}).exists():
            break
        time.sleep(0.01)
    return stock(name, *arguments, **options)
builtins.__import__ = late
"""


@pytest.fixture(scope="module", params=OF_ANY)
def fresh(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Give ranks whose first cell is the first test's: it comes while TensorFlow is imported."""
    folder = tmp_path_factory.mktemp("fresh")
    (folder / "imports.py").write_text(IMPORTS)
    (folder / "sums.py").write_text(SUMS)
    (folder / "sitecustomize.py").write_text(LATE_TENSORFLOW.format(cell=str(folder / "a cell runs")))
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    # Bound, whatever other ranks on this machine keep to.
    env = {"KERAS_HOME": str(folder), "MINE": "a b", "PYTHONPATH": path, paths.BIND_VARIABLE: "1"}
    with jupyter_ddl.start(n=request.param, name="fresh", env=env) as session:
        session.run(f"import os; folder = {str(folder)!r}")
        yield session


def test_a_module_that_imports_tensorflow_waits_for_the_ranks_own_import(fresh: Session) -> None:
    # No name in the cell's text tells of it, and two threads must not import TensorFlow at once.
    fresh.run("open(os.path.join(folder, 'a cell runs'), 'a').close()\nimport imports")
    result = fresh.run("float(imports.tf.constant(2.0)), imports.hvd.Sum is not None")
    assert {of.value for of in result.ranks.values()} == {"(2.0, True)"}
    # That a cell ran meanwhile has not told TensorFlow to print as in a notebook, on standard output alone.
    told = fresh.run("import sys\nimports.tf.print('out', output_stream=sys.stdout)\nimports.tf.print('err')")
    assert {(of.stdout, of.stderr) for of in told.ranks.values()} == {("out\n", "err\n")}


def test_a_module_that_initialises_horovod_after_a_cell_on_some_ranks(fresh: Session) -> None:
    n = fresh.world_size
    # Its text names Horovod, so Horovod runs on all ranks; but no rank has used it.
    fresh.run("import horovod.tensorflow", ranks=[0])
    if n > 1:
        with pytest.raises(RankError, match="Horovod is initialised by all ranks together"):
            fresh.run("import sums", ranks=[n - 1])
    result = fresh.run("import sums\nsums.total()")
    assert {of.value for of in result.ranks.values()} == {f"{n}.0"}


def test_env_is_there_before_tensorflow_is_imported(fresh: Session) -> None:
    result = fresh.run(
        "import os, keras\nos.environ['MINE'], os.environ['KERAS_HOME'] in sys.path, keras.config.backend()"
    )
    assert result.ranks[0].value == "('a b', True, 'tensorflow')"


def test_each_rank_keeps_to_its_cores_with_all_its_threads(fresh: Session) -> None:
    begin = "import horovod.tensorflow as hvd, os, tensorflow as tf\nhvd.init()\nhvd.allreduce(tf.ones(1))\n"
    result = fresh.run(f"{begin}sorted({{tuple(os.sched_getaffinity(int(t))) for t in os.listdir('/proc/self/task')}})")
    kept = [eval(of.value) for of in result.ranks.values()]
    assert all(len(of) == 1 for of in kept), kept
    cores = [set(of[0]) for of in kept]
    usable = os.sched_getaffinity(0)
    assert set().union(*cores) == usable
    if len(usable) >= fresh.world_size:
        assert sum(map(len, cores)) == len(usable)


# --- the table of patches against a real rank: its register, and all of its modules ---------------------------------

TRAINING = """
import keras, numpy as np, tensorflow as tf
x, y = np.random.rand(60, 4).astype('float32'), np.arange(60) % 3
model = keras.Sequential([keras.layers.Dense(3, input_shape=(4,))])
model.compile(keras.optimizers.Adam(lr=0.01), 'sparse_categorical_crossentropy', metrics=['accuracy'])
import horovod.tensorflow.keras, keras.optimizers.legacy, keras.backend
history = model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(8), epochs=1, verbose=0)
"""

# Compares by the objects themselves: a class has several public names.
COMPARISON = """
import importlib
import sys
from types import ModuleType
from jupyter_ddl.host import import_hooks, patching
from jupyter_ddl.legacy import names
from jupyter_ddl.protocol.patch_table import PATCHES

def owners(text):
    if text == 'keras.**':
        return [module for name, module in list(sys.modules.items()) if names.is_interface(name)]
    parts = text.removesuffix('.*').split('.')
    owner = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], 2):
        owner = getattr(owner, part) if hasattr(owner, part) else importlib.import_module('.'.join(parts[:i]))
    return [one for one in vars(owner).values() if isinstance(one, type)] if text.endswith('.*') else [owner]

def text_of(owner):
    return f'{owner.__module__}.{owner.__qualname__}' if isinstance(owner, type) else owner.__name__

# Of an object its class stands in the table.
def is_declared(patch, row):
    kind = patch.owner if isinstance(patch.owner, (type, ModuleType)) else None
    return (
        (patch.name in row.names or row.names == ('*',)) and patch.layer is row.layer
        and any(patch.owner is one or (kind is None and isinstance(patch.owner, one)) for one in owners(row.owner))
    )

made = patching.patches()
def is_imported(row):
    backend = '.'.join(row.owner.split('.')[:4])
    is_there = row.library == 'python' or row.library in sys.modules
    return is_there and (backend in sys.modules or not backend.startswith('keras.src.backend.'))

# Of a library, or a backend of Keras, that the rank has not imported nothing is patched yet.
ROWS = [row for row in PATCHES if is_imported(row)]
modules = import_hooks.replaced()
undeclared = [repr(one) for one in made if not any(is_declared(one, row) for row in ROWS)]
missing = [
    (row.owner, name, row.layer.name)
    for row in ROWS for name in row.names
    if row.layer is not patching.Layer.KERNEL and any(hasattr(owner, name) for owner in owners(row.owner))
    and f'{row.owner}.{name}' not in modules
    and not any(one.name == name and is_declared(one, row) for one in made)
    is not row.is_passing
]
declared = {f'{row.owner}.{name}' for row in PATCHES for name in row.names}
# Of a module that is replaced, what lies in it is replaced with it.
undeclared += [name for name in modules if not {name, name.rpartition('.')[0]} & declared]
"""

# Looks in every module for what is ours, and not for what is registered.
SEARCH = """
from functools import partial
from types import FunctionType, MethodType

def inner(value):
    'Yield the functions that an attribute is made of.'
    if isinstance(value, property):
        for one in (value.fget, value.fset, value.fdel):
            yield from inner(one)
    elif isinstance(value, (staticmethod, classmethod, MethodType)):
        yield from inner(value.__func__)
    elif isinstance(value, partial):
        yield from inner(value.func)
    else:
        yield value

def is_ours(value):
    where = value.__globals__.get('__name__') if isinstance(value, FunctionType) else type(value).__module__
    return str(where).startswith('jupyter_ddl')

# What stands at a patch's place, and copies of it: a library has bound or copied a patched function for itself.
placed = {id(one) for patch in made for one in inner(vars(patch.owner).get(patch.name))}
SINGLE = '_instance'  # IPython's one shell, kernel and application are of our classes
ALLOWED = {
    ('sys', 'stdout'), ('sys', 'stderr'), ('sys', 'displayhook'),  # a process's streams; the shell's own hook
    ('logging.config.BaseConfigurator', 'importer'),  # copied __import__ while start-up held it
}

def held():
    'Yield the attributes of all modules and classes that are not ours.'
    seen = set()
    for module in list(sys.modules.values()):
        if not isinstance(module, ModuleType) or module.__name__.split('.')[0] in ('jupyter_ddl', '__main__'):
            continue
        for name, value in list(vars(module).items()):
            yield module.__name__, name, value
            if isinstance(value, type) and value not in seen and not str(value.__module__).startswith('jupyter_ddl'):
                seen.add(value)
                for inner_name, attribute in list(vars(value).items()):
                    yield f'{value.__module__}.{value.__qualname__}', inner_name, attribute

found = [
    (owner, name) for owner, name, value in held()
    if name != SINGLE and (owner, name) not in ALLOWED
    and not (isinstance(value, ModuleType) and f'{owner}.{name}' in modules)
    and any(is_ours(one) and id(one) not in placed for one in inner(value))
]
"""

# A patch that went past the register would be found like this one.
PAST_THE_REGISTER = """
from jupyter_ddl.host.patching import around
stock = keras.Model.summary
keras.Model.summary = around(stock, lambda stock, *given, **options: stock(*given, **options))
"""

UNDO = """
wrapped = {(one.layer.name, one.name) for one in made if one.owner is keras.Model}
stays = [repr(one) for one in patching.undo_all()]
still = [name for name in modules if name in sys.modules]
stock = [
    'fit' not in vars(keras.Model),
    keras.Model.fit.__qualname__,
    hasattr(keras.Model.fit, '__wrapped__') and keras.Model.fit.__wrapped__.__module__.split('.')[0],
    hasattr(keras.Model, 'fit_generator'),
    tf.data.Dataset.map.__module__.split('.')[0],
    'jupyter_ddl' in str(tf.data.Dataset.map.__code__.co_filename),
]
"""


def test_the_table_is_what_a_rank_has_and_all_of_it_can_be_undone(fresh: Session, tmp_path: Path) -> None:
    # The last test: no other finds patches on these ranks.
    nothing: dict[int, list[str]] = {rank: [] for rank in range(fresh.world_size)}
    fresh.run(TRAINING, auto=AutoOptions(), checkpoint=tmp_path)
    fresh.run(COMPARISON)
    assert fresh.pull("undeclared") == nothing
    assert fresh.pull("missing") == nothing
    fresh.run(SEARCH)
    assert fresh.pull("found") == nothing
    fresh.run(PAST_THE_REGISTER + SEARCH + "keras.Model.summary = stock")
    assert fresh.pull("found")[0] == [("keras.src.models.model.Model", "summary")]
    fresh.run(UNDO)
    assert {("FIT", "fit"), ("AUTO", "fit"), ("LEGACY", "fit")} <= fresh.pull("wrapped")[0]
    assert fresh.pull("stays") == nothing
    assert fresh.pull("still") == nothing
    assert fresh.pull("stock")[0] == [True, "TensorFlowTrainer.fit", "keras", False, "tensorflow", False]
    # Keras trains as it is; the rank lives on.
    fresh.run("plain = keras.Sequential([keras.layers.Dense(3)])\nplain.compile('sgd', 'mse')\nplain.fit(x, x[:, :3])")
