"""Refuses names of Keras 2.15 that are not served: reading one is an error that says what to write instead.

With what the other modules serve, this is every public name of Keras 2.15 that Keras 3 lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.legacy import names

if TYPE_CHECKING:
    from types import ModuleType

_KERAS_2 = "Install tf_keras and set TF_USE_LEGACY_KERAS=1 for the whole program."
_RESNET = "Use ResNet50V2 or EfficientNetV2 of keras.applications."
_LOADING = "Pass workers= and use_multiprocessing= to a keras.utils.PyDataset."
_EVALUATOR = "Evaluate the checkpoints in a program of its own, with keras.models.load_model."
_LINEAR = "Write the model with keras.layers.Dense and keras.layers.Add."
_COLUMNS = "Use keras.utils.FeatureSpace or the preprocessing layers."
_DTENSOR = "Use %%distributed with Horovod; keras.distribution of Keras 3 needs the JAX backend."

_REGNET_SIZES = (2, 4, 6, 8, 16, 32, 40, 64, 80, 120, 160, 320)

# Module: its names, separated by spaces, and the sentence for them.
_GONE: dict[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("dtensor", _DTENSOR),
        ("estimator", "Train with model.fit."),
        ("__internal__", "Its names were never public: use those of keras itself."),
    ),
    "applications": (
        (
            "regnet " + " ".join(f"RegNet{kind}{size:03}" for kind in "XY" for size in _REGNET_SIZES),
            "Use EfficientNetV2 or ConvNeXt of keras.applications.",
        ),
        ("resnet_rs " + " ".join(f"ResNetRS{size}" for size in (50, 101, 152, 200, 270, 350, 420)), _RESNET),
    ),
    "backend": (
        ("experimental", "Keras 3 draws with keras.random and keras.random.SeedGenerator."),
        ("local_conv1d local_conv2d", _KERAS_2),
    ),
    "callbacks": (("SidecarEvaluatorModelExport", _EVALUATOR),),
    "constraints": (
        ("RadialConstraint radial_constraint", "Write a keras.constraints.Constraint with __call__(self, w)."),
    ),
    "experimental": (
        ("LinearModel WideDeepModel", _LINEAR),
        ("SequenceFeatures", _COLUMNS),
        ("SidecarEvaluator", _EVALUATOR),
    ),
    "layers": (
        ("DenseFeatures", _COLUMNS),
        ("LocallyConnected1D LocallyConnected2D", "Use Conv1D or Conv2D. " + _KERAS_2),
    ),
    "layers.experimental": (
        ("RandomFourierFeatures", "Write it as a layer: cos(x @ w + b) with random weights that are not trained."),
        (
            "SyncBatchNormalization",
            "Use keras.layers.BatchNormalization, which normalises by the rank's own part of a batch.",
        ),
    ),
    "layers.experimental.preprocessing": (("PreprocessingLayer", "Subclass keras.layers.Layer."),),
    "metrics": (
        ("MeanRelativeError MeanTensor", "Write a keras.metrics.Metric, or use keras.metrics.Mean."),
        ("experimental", "PyMetric: write a keras.metrics.Metric, or compute in a callback."),
    ),
    "models": (
        ("model_from_yaml", "Use model.to_json() and keras.models.model_from_json: reading YAML could run code."),
        ("experimental", "SharpnessAwareMinimization: write it as a train_step."),
        ("LinearModel WideDeepModel", _LINEAR),
    ),
    "utils": (
        ("GeneratorEnqueuer OrderedEnqueuer SequenceEnqueuer", _LOADING),
        ("SidecarEvaluator", _EVALUATOR),
        ("StepsPerExecutionTuner", "Pass steps_per_execution='auto' to compile."),
        ("TimedThread", "Use threading.Timer, or a callback."),
        ("experimental", "DatasetCreator: pass the tf.data.Dataset itself."),
        ("warmstart_embedding_matrix", "Copy the rows with layer.get_weights() and layer.set_weights()."),
        ("DeterministicRandomTestTool", "Call keras.utils.set_random_seed."),
        ("get_or_create_layer track_tf1_style_variables", "Write a keras.layers.Layer that holds the variables."),
    ),
}


def refuse_gone(_keras: ModuleType) -> None:
    """Have Keras's public modules say of each name that is gone what to write instead."""
    for module, groups in _GONE.items():
        for together, sentence in groups:
            for name in together.split():
                names.refuse(module, name, sentence)
