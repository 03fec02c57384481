"""Lists every method and function of a library that we replace: whose, in which versions, and why.

`host/patching.py` replaces them; `jupyter ddl doctor --patches` prints this table, which takes no TensorFlow. A test
compares it with the register of a real rank (tests/ranks/cluster/test_cluster_fresh.py).

What is no patch, and why, says `host/patching.py`. The table stands in one module, however long: it is all that is
replaced in a program's libraries.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

# What each library's patches are tested with. A patch whose target a version lacks is left out there.
VERSIONS = {
    "python": ">=3.10,<3.14",
    "ipyparallel": ">=9.1",
    "ipykernel": ">=6.29",
    "tensorflow": ">=2.16",
    "keras": ">=3,<4",
    "horovod": "0.28.1",
    "torch": ">=2.7",
    "accelerate": ">=1.0",
    "deepspeed": ">=0.19",
    "jax": ">=0.10",
    "jaxlib": ">=0.10",
    "snapml": ">=1.16",
}


class Layer(IntEnum):
    """Which of several patches of one method is called first: the highest.

    Attributes:
        RANK: makes a process a rank: no terminal, Horovod's life between cells.
        NAMES: what Keras's public modules hold, and what they answer for, in programs of Keras 1 and 2.
        DATA: data sets and pipelines.
        FIT: training with Horovod.
        AUTO: what `--auto` divides among the ranks, which FIT then trains on.
        DDL: what `import ddl` has AUTO divide, or only exchange.
        MEMORY: what `--memory` changes of a model, before its optimizer is distributed.
        LEGACY: translates old arguments, before any other layer sees them.
        KERNEL: is replaced in the notebook's process, and not on ranks.
    """

    RANK = 0
    NAMES = 1
    DATA = 2
    FIT = 3
    AUTO = 4
    DDL = 5
    MEMORY = 6
    LEGACY = 7
    KERNEL = 8


@dataclass(frozen=True)
class Declared:
    """Some patches of one owner.

    Attributes:
        owner: dotted name of the class or module; "module.*" stands for each class of a module, and "keras.**" for each
            public module of Keras, in `keras` and in `tf.keras`.
        names: of its attributes; "*" stands for each function.
        layer: of the patches.
        reason: one clause.
        is_passing: whether they are undone when the rank's start-up ends.
    """

    owner: str
    names: tuple[str, ...]
    layer: Layer
    reason: str
    is_passing: bool = False

    @property
    def library(self) -> str:
        """The library that the owner belongs to."""
        root = self.owner.partition(".")[0]
        return root if root in VERSIONS else "python"

    @property
    def versions(self) -> str:
        """The versions of the library for which the patches are made."""
        return VERSIONS[self.library]


# The methods of tf.data.Dataset that make a dataset. Those of them that a TensorFlow lacks stay out.
_DATASET_METHODS = (
    *("batch", "bucket_by_sequence_length", "cache", "choose_from_datasets", "concatenate", "counter"),
    *("enumerate", "filter", "flat_map", "from_generator", "from_tensor_slices", "from_tensors"),
    *("group_by_window", "ignore_errors", "interleave", "list_files", "load", "map", "padded_batch", "prefetch"),
    *("ragged_batch", "random", "range", "rebatch", "rejection_resample", "repeat", "sample_from_datasets", "scan"),
    *("shard", "shuffle", "skip", "snapshot", "sparse_batch", "take", "take_while", "unbatch", "unique", "window"),
    *("with_options", "zip"),
)
_DATASETS = (
    *("boston_housing", "california_housing", "cifar10", "cifar100"),
    *("fashion_mnist", "imdb", "mnist", "reuters"),
)
_RECIPE = "a pipeline remembers how it was made, so that it can be made again for a rank's shard"
_OLD_ARGUMENTS = "takes the arguments of Keras 1 and 2"
_OLD_METHODS = "is there again for programs of Keras 1 and 2"
_CALLED = "may be called, as in Keras 2"
_OLD_FILES = "takes the file names and arguments of Keras 2"
_OWN_GPU = "gpus[local_rank] is a rank's one GPU"
_SEEDS = "within a training step each rank draws other random numbers"
_BEFORE_CHANGES = "gradients are exchanged before the program clips or scales them"
_OWN_KERAS = "is jupyter_ddl.keras, for each import of it, which trains with Keras 3"
_COMPUTATIONS = "computations of JAX that exchange are counted: a rank that does not come is named"
_EARLIER = "an array, a mesh or a function of JAX's processes that have ended is refused in one sentence"
_STARTS = "a cell that needs Horovod, and began without, starts it"
_BY_DDL = "averages gradients over the ranks where the program has imported ddl"
_SAVES_BY_DDL = "saves on rank 0 where the program has imported ddl, and does not know its rank"
_ON_RANK_0 = "saves on rank 0 where --auto distributes the cell"

PATCHES = (
    # --- what makes a process a rank
    Declared("builtins", ("input",), Layer.RANK, "refuses: no user can answer on a rank"),
    Declared("getpass", ("getpass",), Layer.RANK, "refuses: no user can answer on a rank"),
    Declared("builtins", ("__import__",), Layer.RANK, "waits for the imports that start-up began", is_passing=True),
    Declared(
        "tensorflow.python.pywrap_tfe",
        ("TFE_Py_EnableInteractivePythonLogging",),
        Layer.RANK,
        "tf.print keeps to the stream that it names",
        is_passing=True,
    ),
    Declared("sys", ("unraisablehook",), Layer.RANK, "a release that Python dropped in a __del__ is tried again"),
    Declared("ipyparallel.engine.app", ("Kernel",), Layer.RANK, "the kernel class with the rank's shell"),
    Declared(
        "horovod.common.basics.HorovodBasics",
        ("init", "shutdown"),
        Layer.RANK,
        "Horovod rests between cells, and starts again as the program asked",
    ),
    Declared(
        "horovod.common.basics.HorovodBasics",
        (
            *("is_initialized", "rank", "size", "local_rank", "local_size", "cross_rank", "cross_size"),
            *("is_homogeneous", "mpi_threads_supported", "start_timeline", "stop_timeline"),
            *("_add_process_set_impl", "_remove_process_set_impl", "_process_set_rank", "_process_set_size"),
            *("_get_process_set_ids_and_ranks", "_comm_process_set_id"),
        ),
        Layer.RANK,
        _STARTS,
    ),
    Declared("horovod.tensorflow.mpi_ops", ("MPI_LIB",), Layer.RANK, _STARTS),
    Declared(
        "horovod.tensorflow.mpi_ops",
        ("MPI_LIB",),
        Layer.FIT,
        "marks operations, which TensorFlow would run while it optimises a graph, where ranks wait for each other",
    ),
    Declared("tensorflow.python.eager.context.Context", ("call_function",), Layer.RANK, _STARTS),
    Declared("tensorflow.python.client.session.BaseSession", ("run",), Layer.RANK, _STARTS),
    Declared(
        "tensorflow.python.profiler.internal._pywrap_profiler.ProfilerSession",
        ("start", "export_to_tb"),
        Layer.RANK,
        "keeps what it records in the run's folder too, with --timeline",
    ),
    Declared(
        "horovod.common.process_sets",
        ("add_process_set", "remove_process_set"),
        Layer.RANK,
        "process sets are there again after Horovod's rest",
    ),
    Declared(
        "torch.distributed.distributed_c10d",
        ("init_process_group", "new_group"),
        Layer.RANK,
        "ranks find each other at our store, and a blocked collective can be released",
    ),
    *(
        Declared(
            owner,
            ("initialize", "shutdown"),
            Layer.RANK,
            "ranks find each other, and one that leaves ends no other",
        )
        for owner in ("jax.distributed", "jax._src.distributed")
    ),
    Declared("jax._src.xla_bridge", ("backends",), Layer.RANK, "JAX's processes come back after a release"),
    Declared(
        "jaxlib._jax",
        ("make_gloo_tcp_collectives",),
        Layer.RANK,
        "gloo keeps to the ranks' network, and its connections are known",
    ),
    Declared("jaxlib._jax", ("pjit",), Layer.RANK, _COMPUTATIONS),
    Declared("jax._src.interpreters.pxla.ExecuteReplicated", ("__call__",), Layer.RANK, _COMPUTATIONS),
    Declared("jax._src.interpreters.pxla", ("_get_and_check_device_assignment",), Layer.RANK, _EARLIER),
    Declared("jax._src.interpreters.pxla.MeshExecutable", ("call",), Layer.RANK, _EARLIER),
    Declared(
        "torch.utils.data.dataloader._BaseDataLoaderIter",
        ("__next__",),
        Layer.RANK,
        "a loop's batches are counted, and the wait for them",
    ),
    Declared("torch.autograd", ("backward",), Layer.RANK, "the wait for other ranks' gradients is timed"),
    Declared("torch._C._distributed_c10d.Work", ("wait",), Layer.RANK, "the wait in a collective is timed"),
    Declared("torch.autograd.profiler", ("_disable_profiler",), Layer.RANK, "gloo's threads write into what it frees"),
    Declared(
        "torch.nn.parallel.distributed.DistributedDataParallel",
        ("__init__",),
        Layer.RANK,
        "notes whose parameters are to be the same on all ranks",
    ),
    Declared(
        "snapml.utils", ("_is_mpi_enabled",), Layer.RANK, "trains in one process where its MPI library is missing"
    ),
    Declared("accelerate.accelerator.Accelerator", ("log",), Layer.RANK, "what it logs is shown"),
    Declared("deepspeed", ("initialize",), Layer.RANK, "notes whose optimizer has a part of the weights alone"),
    Declared(
        "torch.utils.data.dataloader.DataLoader",
        ("__iter__", "__len__"),
        Layer.AUTO,
        "gives a loop that trains this rank's part of each batch",
    ),
    Declared(
        "torch.optim.optimizer.Optimizer",
        ("add_param_group",),
        Layer.AUTO,
        "the gradients of an optimizer's parameters are averaged over the ranks",
    ),
    Declared(
        "torch.nn.modules.batchnorm._NormBase", ("__init__",), Layer.AUTO, "notes that it takes a rank's own rows"
    ),
    Declared("torch", ("save",), Layer.AUTO, "a file that every rank saves is whole"),
    Declared(
        "torch.nn.modules.module.Module",
        ("__call__",),
        Layer.MEMORY,
        "a loop's model is sharded before it is first called, undone then; or computes in less memory in this cell",
    ),
    Declared("torch.autograd", ("backward",), Layer.MEMORY, "a sharded model's gradients count by this rank's rows"),
    Declared(
        "torch.distributed.distributed_c10d",
        ("isend", "irecv", "recv"),
        Layer.RANK,
        "a group that sends and receives is not counted: its ranks' numbers differ",
    ),
    Declared(
        "tensorflow.python.eager.polymorphic_function.polymorphic_function.Function",
        ("_initialize",),
        Layer.RANK,
        "a tf.function whose first trace was interrupted is traced again",
    ),
    # --- names of Keras 1 and 2, and of TensorFlow 1
    Declared("keras.**", ("__getattr__",), Layer.NAMES, "answers for names that Keras 3 dropped (docs/legacy.md)"),
    Declared("keras.**", ("Input",), Layer.NAMES, "takes a whole number for its shape"),
    Declared("keras.**", ("clear_session",), Layer.NAMES, "forgets the session and the learning phase, too"),
    Declared("keras.**", ("to_categorical",), Layer.NAMES, _OLD_ARGUMENTS),
    Declared("keras.**", ("save_model", "load_model", "save_weights", "load_weights"), Layer.NAMES, _OLD_FILES),
    Declared(
        "keras.**",
        ("Adagrad", "Adam", "Ftrl", "Optimizer", "RMSprop", "SGD"),
        Layer.NAMES,
        "optimizers.legacy has today's optimizers",
    ),
    Declared("keras._tf_keras.keras.backend", ("*",), Layer.NAMES, "takes Keras 3's tensors and variables"),
    Declared("tensorflow.python", ("keras",), Layer.NAMES, "is tf.keras, and not TensorFlow's own Keras of 2021"),
    Declared("tensorflow", ("__getattr__",), Layer.NAMES, "answers for names of TensorFlow 1 (docs/legacy.md)"),
    # --- data
    Declared("tensorflow.data.Dataset", _DATASET_METHODS, Layer.DATA, _RECIPE),
    Declared("tensorflow.data.TFRecordDataset", ("__init__",), Layer.DATA, _RECIPE),
    Declared("tensorflow.data.TextLineDataset", ("__init__",), Layer.DATA, _RECIPE),
    Declared("tensorflow.data.FixedLengthRecordDataset", ("__init__",), Layer.DATA, _RECIPE),
    Declared("tensorflow.data.experimental", ("assert_cardinality",), Layer.DATA, _RECIPE),
    *(
        Declared(f"keras.src.datasets.{name}", ("get_file",), Layer.DATA, "local copies, and one download per host")
        for name in _DATASETS
    ),
    Declared(
        "tensorflow.python.data.ops.iterator_ops.OwnedIterator",
        ("__del__",),
        Layer.DATA,
        "an iterator ends in a thread of its own, and no cell waits for it",
    ),
    # --- training with Horovod
    Declared(
        "keras.Model", ("fit", "train_on_batch"), Layer.FIT, "callbacks, and checks that the ranks train the same model"
    ),
    Declared(
        "keras.Model",
        ("make_train_function", "make_test_function"),
        Layer.FIT,
        "the step weighs and times its samples, without XLA, which has no kernel for Horovod's operations",
    ),
    Declared(
        "keras.optimizers.LossScaleOptimizer",
        ("__init__",),
        Layer.FIT,
        "gradients are exchanged before the check for overflow",
    ),
    Declared(
        "keras.src.trainers.compile_utils.CompileLoss", ("build",), Layer.FIT, "a loss of a part of a batch is weighed"
    ),
    Declared("keras.metrics.Mean", ("update_state",), Layer.FIT, "a part of a batch counts as that part of one"),
    Declared(
        "keras.src.trainers.epoch_iterator.EpochIterator",
        ("__init__",),
        Layer.FIT,
        "--checkpoint finds the training data's position",
    ),
    Declared(
        "tensorflow.GradientTape",
        ("gradient",),
        Layer.FIT,
        _BEFORE_CHANGES,
    ),
    Declared("torch.Tensor", ("backward",), Layer.FIT, _BEFORE_CHANGES),
    Declared("torch.autograd", ("backward", "grad"), Layer.FIT, _BEFORE_CHANGES),
    Declared("jax", ("grad", "value_and_grad"), Layer.FIT, _BEFORE_CHANGES),
    Declared("horovod", ("keras",), Layer.FIT, _OWN_KERAS),
    Declared("horovod.tensorflow", ("keras",), Layer.FIT, _OWN_KERAS),
    Declared(
        "horovod.tensorflow",
        ("DistributedGradientTape", "PartialDistributedGradientTape", "broadcast_variables"),
        Layer.FIT,
        "takes the variables of Keras 3",
    ),
    Declared("horovod.tensorflow.SyncBatchNormalization", ("__init__",), Layer.FIT, "is a layer for Keras 2: refused"),
    Declared(
        "horovod.tensorflow.elastic",
        ("TensorFlowKerasState", "broadcast_variables", "run"),
        Layer.FIT,
        "takes the variables of Keras 3, and tries again on the ranks of an MPI job",
    ),
    # --- Keras on JAX
    Declared(
        "keras.src.backend.jax.trainer.JAXTrainer",
        ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch"),
        Layer.FIT,
        "all ranks run one program on JAX, or the call is refused",
    ),
    Declared(
        "keras.src.backend.jax.trainer.JAXTrainer",
        ("make_predict_function",),
        Layer.FIT,
        "predictions of all ranks on JAX are put together",
    ),
    Declared(
        "keras.src.backend.jax.trainer.JAXEpochIterator",
        ("_get_distributed_iterator",),
        Layer.DATA,
        "a batch is spread over JAX's processes, also where its rows do not divide evenly",
    ),
    Declared("keras.src.backend.jax.trainer", ("_distribute_data",), Layer.DATA, "likewise for one batch"),
    Declared(
        "keras.src.backend.jax.distribution_lib",
        ("distribute_tensor",),
        Layer.DATA,
        "a variable becomes an array of all of JAX's processes, which device_put refuses",
    ),
    Declared(
        "keras.src.backend.jax.core.JaxVariable",
        ("__array__",),
        Layer.DATA,
        "a variable of which each rank has its part is read whole",
    ),
    # --- --auto
    Declared(
        "keras.Model",
        ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch"),
        Layer.AUTO,
        "divides the data among the ranks where --auto distributes the cell",
    ),
    Declared("keras.Model", ("save", "save_weights", "export"), Layer.AUTO, _ON_RANK_0),
    Declared("keras.saving", ("save_model", "save_weights"), Layer.AUTO, _ON_RANK_0),
    Declared("keras.models", ("save_model",), Layer.AUTO, _ON_RANK_0),
    Declared(
        "keras.Model",
        ("fit", "train_on_batch", "evaluate", "predict", "test_on_batch", "save", "save_weights", "export"),
        Layer.DDL,
        "is distributed where the program has imported ddl",
    ),
    Declared("keras.saving", ("save_model", "save_weights"), Layer.DDL, _SAVES_BY_DDL),
    Declared("keras.models", ("save_model",), Layer.DDL, _SAVES_BY_DDL),
    Declared("keras.optimizers.Optimizer", ("apply",), Layer.DDL, _BY_DDL),
    Declared(
        "tensorflow.compat.v1.train.Optimizer",
        ("compute_gradients",),
        Layer.DDL,
        _BY_DDL,
    ),
    Declared(
        "tensorflow.compat.v1",
        ("global_variables_initializer", "initialize_all_variables"),
        Layer.DDL,
        "gives all ranks rank 0's variables where the program has imported ddl",
    ),
    Declared("keras.optimizers.Optimizer", ("apply",), Layer.AUTO, "refuses updates whose data no rank divides"),
    Declared(
        "tensorflow.GradientTape", ("gradient",), Layer.AUTO, "notes a training loop that --auto does not distribute"
    ),
    Declared("tensorflow.python.framework.random_seed", ("get_seed",), Layer.AUTO, _SEEDS),
    Declared("tensorflow.random.Generator", ("_prepare_key_counter",), Layer.AUTO, _SEEDS),
    Declared("keras.random.SeedGenerator", ("next",), Layer.AUTO, _SEEDS),
    # --- --memory
    Declared(
        "keras.Model", ("fit", "train_on_batch"), Layer.MEMORY, "trains in less memory where --memory asks for it"
    ),
    # --- old spellings; docs/legacy.md says which
    Declared(
        "keras.Model",
        ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "save_weights"),
        Layer.LEGACY,
        _OLD_ARGUMENTS,
    ),
    Declared("keras.src.trainers.trainer.Trainer", ("compile",), Layer.LEGACY, _OLD_ARGUMENTS),
    Declared(
        "keras.Model",
        ("fit_generator", "evaluate_generator", "predict_generator", "reset_states"),
        Layer.LEGACY,
        _OLD_METHODS,
    ),
    Declared("keras.Model", ("metrics_names",), Layer.LEGACY, "names each metric that was compiled"),
    Declared("keras.Sequential", ("predict_classes", "predict_proba"), Layer.LEGACY, _OLD_METHODS),
    Declared("keras.Sequential", ("input", "output"), Layer.LEGACY, "is there before the model is called"),
    Declared("keras.Sequential", ("add",), Layer.LEGACY, "takes a first layer's batch_input_shape"),
    Declared("keras.layers.Layer", ("__init__",), Layer.LEGACY, _OLD_ARGUMENTS),
    Declared("keras.layers.InputLayer", ("__init__",), Layer.LEGACY, _OLD_ARGUMENTS),
    Declared("keras.layers.Embedding", ("__init__",), Layer.LEGACY, _OLD_ARGUMENTS),
    Declared("keras.layers.LeakyReLU", ("__init__",), Layer.LEGACY, _OLD_ARGUMENTS),
    Declared("keras.layers.Lambda", ("from_config",), Layer.LEGACY, "finds the program's functions that a file names"),
    Declared(
        "keras.utils.PyDataset", ("_warn_if_super_not_called",), Layer.LEGACY, "super().__init__() may be left out"
    ),
    Declared("keras.KerasTensor", ("get_shape",), Layer.LEGACY, _OLD_METHODS),
    Declared("keras.KerasTensor", ("shape",), Layer.LEGACY, "has as_list() and ndims, as TensorFlow's shapes"),
    Declared("keras.Variable", ("ref",), Layer.LEGACY, _OLD_METHODS),
    Declared("keras.metrics.Metric", ("reset_states",), Layer.LEGACY, _OLD_METHODS),
    Declared(
        "keras.src.optimizers.base_optimizer.BaseOptimizer",
        ("__init__", "apply_gradients", "get_config"),
        Layer.LEGACY,
        "takes lr and decay",
    ),
    Declared(
        "keras.src.optimizers.base_optimizer.BaseOptimizer",
        ("_get_current_learning_rate", "_backend_apply_gradients"),
        Layer.LEGACY,
        "decay lowers the learning rate at each step",
    ),
    Declared(
        "keras.src.optimizers.base_optimizer.BaseOptimizer",
        ("decay", "lr", "weights", "get_weights", "minimize"),
        Layer.LEGACY,
        _OLD_METHODS,
    ),
    Declared("keras.src.optimizers.base_optimizer.BaseOptimizer", ("variables",), Layer.LEGACY, _CALLED),
    Declared("keras.optimizers.*", ("__init__",), Layer.LEGACY, "takes epsilon=None and whole numbers"),
    Declared("keras.optimizers.*", ("variables",), Layer.LEGACY, _CALLED),
    Declared(
        "keras.callbacks.ModelCheckpoint",
        ("__init__", "_get_file_path", "_save_model"),
        Layer.LEGACY,
        _OLD_FILES,
    ),
    Declared("keras.callbacks.Callback", ("model",), Layer.LEGACY, "may be set by a program's callback"),
    Declared("keras.callbacks.TensorBoard", ("__init__",), Layer.LEGACY, _OLD_ARGUMENTS),
    Declared("keras.callbacks.ReduceLROnPlateau", ("__init__",), Layer.LEGACY, _OLD_ARGUMENTS),
    Declared("keras.callbacks.History", ("__init__",), Layer.LEGACY, "logs answer to acc and lr"),
    Declared("keras.src.utils.python_utils", ("pythonify_logs",), Layer.LEGACY, "logs answer to acc and lr"),
    Declared("keras.src.backend.tensorflow.trainer", ("pythonify_logs",), Layer.LEGACY, "logs answer to acc and lr"),
    Declared(
        "keras.src.callbacks.monitor_callback.MonitorCallback",
        ("_set_monitor_op",),
        Layer.LEGACY,
        "monitors acc and val_acc",
    ),
    Declared(
        "keras.src.saving.saving_api",
        ("save_model", "load_model", "save_weights", "load_weights"),
        Layer.LEGACY,
        _OLD_FILES,
    ),
    Declared("keras.src.legacy.saving.legacy_h5_format", ("load_model_from_hdf5",), Layer.LEGACY, _OLD_FILES),
    Declared(
        "tensorflow.compat.v1",
        ("Session", "InteractiveSession", "enable_eager_execution"),
        Layer.LEGACY,
        "a session begins when it computes; start-up has chosen the GPU",
    ),
    Declared(
        "tensorflow.python.client.session.BaseSession", ("__init__",), Layer.LEGACY, "a rank's one GPU has number 0"
    ),
    Declared("tensorflow.config", ("list_physical_devices",), Layer.LEGACY, _OWN_GPU),
    Declared("tensorflow.config.experimental", ("list_physical_devices",), Layer.LEGACY, _OWN_GPU),
    Declared(
        "tensorflow.config.experimental", ("set_memory_growth",), Layer.LEGACY, "may come late: start-up has set it"
    ),
    Declared("tensorflow.random", ("set_random_seed",), Layer.LEGACY, "is there again for programs of TensorFlow 1"),
    Declared(
        "horovod.tensorflow",
        ("BroadcastGlobalVariablesHook",),
        Layer.LEGACY,
        "is there again for programs of TensorFlow 1",
    ),
    # --- the notebook's process
    Declared(
        "ipykernel.ipkernel.IPythonKernel", ("do_inspect",), Layer.KERNEL, "asks rank 0 about names in a cell for ranks"
    ),
)
