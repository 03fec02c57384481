"""Lists every old spelling that works.

A row's sentence is reported once, when a program first uses the spelling. docs/legacy.md is rendered from this table,
which stands in one module, however long: a spelling is looked for in one place.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """An old spelling.

    Attributes:
        name: how the code refers to it.
        written: what programs write.
        today: the sentence that says what is written today.
        installed_by: the function that makes it work, as "module.function" of `jupyter_ddl.legacy`.
        root: the import that the function waits for, and whose module it is given: "keras" or "tensorflow".
    """

    name: str
    written: str
    today: str
    installed_by: str
    root: str = "keras"


ROWS = (
    # --- compile and fit
    Row(
        "experimental_run_tf_function",
        "model.compile(experimental_run_tf_function=False)",
        "model.compile has no experimental_run_tf_function any more: leave it out, gradients are exchanged without it.",
        "compile_and_fit.patch_compile",
    ),
    Row(
        "experimental_steps_per_execution",
        "model.compile(experimental_steps_per_execution=10)",
        "model.compile(experimental_steps_per_execution=n) is written model.compile(steps_per_execution=n).",
        "compile_and_fit.patch_compile",
    ),
    Row(
        "compile's other arguments",
        "model.compile(sample_weight_mode=None, target_tensors=None)",
        "model.compile has no sample_weight_mode, target_tensors, distribute or cloning any more: leave them out.",
        "compile_and_fit.patch_compile",
    ),
    Row(
        "metrics as third argument",
        "model.compile('sgd', 'mse', ['accuracy'])",
        "The third argument of model.compile is loss_weights now: write model.compile(..., metrics=[...]).",
        "compile_and_fit.patch_compile",
    ),
    Row(
        "metrics='accuracy'",
        "model.compile(metrics='accuracy')",
        "One metric is written as a list too: model.compile(metrics=['accuracy']).",
        "compile_and_fit.patch_compile",
    ),
    Row(
        "workers",
        "model.fit(sequence, workers=4, use_multiprocessing=True, max_queue_size=20)",
        "workers and max_queue_size are arguments of the Sequence (keras.utils.PyDataset) and not of fit; it loads in "
        "threads here, also with use_multiprocessing.",
        "compile_and_fit.patch_compile",
    ),
    Row(
        "fractional steps",
        "model.fit(steps_per_epoch=60000 / 128)",
        "Numbers of steps are whole: steps_per_epoch=math.ceil(samples / batch_size).",
        "compile_and_fit.patch_compile",
    ),
    Row(
        "more steps than batches",
        "model.fit(iterator, steps_per_epoch=10 * len(iterator))",
        "A Sequence ends after its last batch in Keras 3, whatever steps_per_epoch says: make its __len__ longer; here "
        "it starts again.",
        "compile_and_fit.patch_compile",
    ),
    Row(
        "nb_epoch",
        "model.fit(nb_epoch=3)",
        "nb_epoch is written epochs.",
        "compile_and_fit.patch_compile",
    ),
    Row(
        "reset_metrics",
        "model.train_on_batch(x, y, reset_metrics=True)",
        "train_on_batch and test_on_batch have no reset_metrics any more: leave it out, they always reset them.",
        "compile_and_fit.patch_compile",
    ),
    Row(
        "fit_generator",
        "model.fit_generator(generator, steps_per_epoch=100)",
        "model.fit_generator(...) is written model.fit(...).",
        "compile_and_fit.add_generators",
    ),
    Row(
        "evaluate_generator",
        "model.evaluate_generator(generator, steps=10)",
        "model.evaluate_generator(...) is written model.evaluate(...).",
        "compile_and_fit.add_generators",
    ),
    Row(
        "predict_generator",
        "model.predict_generator(generator, steps=10)",
        "model.predict_generator(...) is written model.predict(...).",
        "compile_and_fit.add_generators",
    ),
    Row(
        "samples_per_epoch",
        "model.fit_generator(iterator, samples_per_epoch=60000, nb_epoch=3)",
        "samples_per_epoch and nb_val_samples are written steps_per_epoch and validation_steps, in batches.",
        "compile_and_fit.add_generators",
    ),
    Row(
        "predict_classes",
        "model.predict_classes(x)",
        "model.predict_classes(x) is written model.predict(x).argmax(axis=-1), with one output model.predict(x) > 0.5.",
        "compile_and_fit.add_predict_classes",
    ),
    # --- optimizers
    Row(
        "lr",
        "keras.optimizers.Adam(lr=0.001)",
        "lr is written learning_rate in optimizers.",
        "optimizers.patch_arguments",
    ),
    Row(
        "decay",
        "keras.optimizers.SGD(0.01, decay=1e-6)",
        "decay=d in optimizers is written learning_rate=keras.optimizers.schedules.InverseTimeDecay(rate, "
        "decay_steps=1, decay_rate=d).",
        "optimizers.patch_arguments",
    ),
    Row(
        "whole numbers",
        "keras.optimizers.SGD(1 * hvd.size(), momentum=0)",
        "Optimizers take floats: learning_rate=1.0, momentum=0.0.",
        "optimizers.patch_arguments",
    ),
    Row(
        "epsilon=None",
        "keras.optimizers.Adam(epsilon=None)",
        "epsilon=None is written epsilon=1e-7 in optimizers, or left out.",
        "optimizers.patch_arguments",
    ),
    Row(
        "jit_compile",
        "keras.optimizers.Adam(jit_compile=False)",
        "Optimizers have no jit_compile any more: leave it out.",
        "optimizers.patch_arguments",
    ),
    Row(
        "optimizer.lr",
        "optimizer.lr",
        "optimizer.lr is written optimizer.learning_rate.",
        "optimizers.patch_attributes",
    ),
    Row(
        "optimizer.variables()",
        "optimizer.variables()",
        "optimizer.variables() is written optimizer.variables.",
        "optimizers.patch_attributes",
    ),
    Row(
        "optimizer.get_weights",
        "optimizer.get_weights(), optimizer.weights",
        "optimizer.get_weights() is written [v.numpy() for v in optimizer.variables].",
        "optimizers.patch_attributes",
    ),
    Row(
        "optimizer.minimize",
        "optimizer.minimize(loss, variables)",
        "optimizer.minimize(...) is written with a tf.GradientTape and optimizer.apply_gradients(...).",
        "optimizers.patch_attributes",
    ),
    Row(
        "apply_gradients(name=...)",
        "optimizer.apply_gradients(pairs, experimental_aggregate_gradients=False)",
        "optimizer.apply_gradients takes the pairs alone: leave name and experimental_aggregate_gradients out.",
        "optimizers.patch_attributes",
    ),
    Row(
        "legacy optimizers",
        "keras.optimizers.legacy.SGD(0.01)",
        "keras.optimizers.legacy.SGD is written keras.optimizers.SGD, and so are the others.",
        "optimizers.serve_old_names",
    ),
    Row(
        "lower-case optimizers",
        "keras.optimizers.sgd(0.01)",
        "keras.optimizers.sgd is written keras.optimizers.SGD, and so are the others.",
        "optimizers.serve_old_names",
    ),
    Row(
        "experimental optimizers",
        "keras.optimizers.experimental.SGD(0.01)",
        "keras.optimizers.experimental is keras.optimizers now.",
        "optimizers.serve_old_names",
    ),
    Row(
        "tensorflow.python.keras",
        "from tensorflow.python import keras",
        "tensorflow.python.keras is TensorFlow's own: write from tensorflow import keras.",
        "private_keras.serve",
        "tensorflow",
    ),
    # --- sessions and devices
    Row(
        "ConfigProto",
        "config = tf.ConfigProto(); config.gpu_options.allow_growth = True",
        "tf.ConfigProto is not needed: each rank sees its own GPU and takes memory as it needs it.",
        "sessions.patch_configuration",
        "tensorflow",
    ),
    Row(
        "Session",
        "tf.Session(config=config)",
        "tf.Session is not needed: TensorFlow 2 computes at once.",
        "sessions.patch_sessions",
        "tensorflow",
    ),
    Row(
        "enable_eager_execution",
        "tf.enable_eager_execution(config=config)",
        "tf.enable_eager_execution() is not needed: TensorFlow 2 computes eagerly.",
        "sessions.patch_eager_execution",
        "tensorflow",
    ),
    Row(
        "TensorFlow 1 names",
        "tf.set_random_seed(1), tf.logging.set_verbosity(tf.logging.ERROR)",
        "TensorFlow 1's names are written tf.compat.v1.set_random_seed and so on, or by TensorFlow 2's own name, "
        "tf.random.set_seed.",
        "sessions.patch_configuration",
        "tensorflow",
    ),
    Row(
        "set_session",
        "K.set_session(tf.Session(config=config))",
        "K.set_session is not needed: Keras 3 has no session, and each rank sees its own GPU.",
        "sessions.serve_backend",
    ),
    Row(
        "tensorflow_backend",
        "from keras.backend.tensorflow_backend import set_session",
        "keras.backend.tensorflow_backend is keras.backend now.",
        "sessions.serve_backend",
    ),
    Row(
        "gpus[hvd.local_rank()]",
        "tf.config.set_visible_devices(gpus[hvd.local_rank()], 'GPU')",
        "No need to choose gpus[hvd.local_rank()]: each rank sees its own GPU alone, as gpus[0].",
        "devices.patch_devices",
        "tensorflow",
    ),
    Row(
        "set_memory_growth",
        "tf.config.experimental.set_memory_growth(gpu, True)",
        "tf.config.experimental.set_memory_growth is not needed: ranks start with it.",
        "devices.patch_devices",
        "tensorflow",
    ),
    # --- names in logs
    Row(
        "acc",
        "history.history['val_acc'], EarlyStopping(monitor='val_acc'), 'ckpt-{val_acc:.2f}.h5'",
        "The metric 'accuracy' is logged as accuracy and val_accuracy, no more as acc and val_acc.",
        "metric_names.patch_logs",
    ),
    Row(
        "lr in logs",
        "history.history['lr'], logs['lr']",
        "The learning rate is logged as learning_rate, no more as lr.",
        "metric_names.patch_logs",
    ),
    Row(
        "acc in monitors",
        "EarlyStopping(monitor='val_acc')",
        "monitor='val_acc' is written monitor='val_accuracy'.",
        "metric_names.patch_monitors",
    ),
    Row(
        "mode='auto'",
        "EarlyStopping(monitor='val_my_metric')",
        "Of a metric of your own write mode='max' or mode='min': here max is taken for names that end in acc, accuracy "
        "or auc, else min.",
        "metric_names.patch_monitors",
    ),
    Row(
        "acc in file names",
        "ModelCheckpoint('{epoch}-{val_acc:.2f}.h5')",
        "{val_acc} in a file name is written {val_accuracy}.",
        "metric_names.patch_file_names",
    ),
    Row(
        "metrics_names",
        "model.metrics_names[1]",
        "model.metrics_names says compile_metrics in Keras 3: the names are the keys of model.evaluate(..., "
        "return_dict=True).",
        "metric_names.patch_metrics_names",
    ),
    Row(
        "reset_states",
        "metric.reset_states(), model.reset_states()",
        "metric.reset_states() is written metric.reset_state(); a model's recurrent layers each have reset_state().",
        "metric_names.patch_metrics",
    ),
    # --- callbacks
    Row(
        "period",
        "ModelCheckpoint('x.h5', period=5)",
        "ModelCheckpoint(period=n) is written save_freq='epoch' and a callback of your own, or save_freq=n * steps in "
        "batches.",
        "checkpoints.patch_checkpoint_period",
    ),
    Row(
        "ModelCheckpoint's other arguments",
        "ModelCheckpoint('x.h5', load_weights_on_restart=False)",
        "ModelCheckpoint has no load_weights_on_restart or options any more: leave them out.",
        "checkpoints.patch_checkpoint_period",
    ),
    Row(
        "TensorBoard's other arguments",
        "TensorBoard(write_grads=True, batch_size=32)",
        "TensorBoard has no write_grads, batch_size or embeddings_data any more: leave them out.",
        "checkpoints.patch_tensorboard",
    ),
    Row(
        "epsilon",
        "ReduceLROnPlateau(epsilon=1e-4)",
        "ReduceLROnPlateau(epsilon=x) is written min_delta=x.",
        "checkpoints.patch_epsilon",
    ),
    Row(
        "callback.model",
        "self.model = model, in a callback",
        "A callback's model is set with callback.set_model(model).",
        "checkpoints.patch_callback_model",
    ),
    # --- files
    Row(
        ".h5 files",
        "model.save('model.h5')",
        "model.save('model.h5') is written model.save('model.keras'); both work.",
        "model_files.patch_saving",
    ),
    Row(
        "model file name",
        "model.save('my_model'), ModelCheckpoint('model.{epoch:02d}.hdf5')",
        "A model's file name ends in .keras: one with no ending that Keras 3 knows gets .keras at its end.",
        "model_files.patch_saving",
    ),
    Row(
        "model.save(save_format=...)",
        "model.save('model.h5', save_format='h5')",
        "The file name says the format: model.save('model.keras') has no save_format.",
        "model_files.patch_saving",
    ),
    Row(
        "optimizer state of Keras 2",
        "keras.models.load_model('of_keras_2.h5')",
        "The optimizer's state in this .h5 file is another Keras's: the model is loaded, its optimizer is reset.",
        "model_files.patch_saving",
    ),
    Row(
        "functions of a Lambda",
        "keras.models.load_model('siamese.h5'), with a Lambda(distance) in it",
        "A Lambda's function is passed when its model is loaded: load_model(path, custom_objects={'distance': "
        "distance}).",
        "lambdas.patch_loading",
    ),
    Row(
        "weights file name",
        "model.save_weights('weights.h5'), ModelCheckpoint('weights.hdf5', save_weights_only=True)",
        "A weights file is written model.save_weights('name.weights.h5'); under another name it is written as Keras 2 "
        "did.",
        "model_files.patch_weights",
    ),
    # --- backend
    Row(
        "backend functions",
        "K.mean(K.square(y_true - y_pred))",
        "keras.backend functions such as K.mean are keras.ops functions now, such as keras.ops.mean.",
        "backend.serve_functions",
    ),
    Row(
        "K.set_value",
        "K.set_value(optimizer.lr, 0.1), K.get_value(optimizer.lr)",
        "K.set_value(variable, x) is written variable.assign(x), K.get_value(variable) is variable.numpy().",
        "backend.patch_values",
    ),
    Row(
        "learning_phase",
        "K.set_learning_phase(1)",
        "K.set_learning_phase is not needed: fit trains, evaluate and predict do not.",
        "backend.serve_gone",
    ),
    Row(
        "image_dim_ordering",
        "K.image_dim_ordering() == 'tf'",
        "K.image_dim_ordering() is written keras.config.image_data_format(), 'tf' is 'channels_last'.",
        "backend.serve_gone",
    ),
    Row(
        "K.function",
        "K.function([model.input], [layer.output])",
        "K.function(inputs, outputs) is written keras.Model(inputs, outputs).",
        "backend.serve_gone",
    ),
    Row(
        "variable.ref",
        "{variable.ref(): gradient}",
        "Keras's variables are in sets and dicts by id(variable) or variable.path.",
        "restored.patch_variables",
    ),
    Row(
        "in_train_phase",
        "K.in_train_phase(noisy, x), K.in_test_phase(x, noisy)",
        "K.in_train_phase(a, b) is written `a if training else b` in a layer's call(self, x, training=False).",
        "restored.serve_phases",
    ),
    Row(
        "private backend functions",
        "K.tensorflow_backend._to_tensor(x, 'float32'), K.tensorflow_backend._get_available_gpus()",
        "keras.backend's private functions are TensorFlow's own: tf.convert_to_tensor, tf.config.list_logical_devices.",
        "restored.serve_backend",
    ),
    # --- data
    Row(
        "keras.preprocessing",
        "from keras.preprocessing.image import ImageDataGenerator",
        "ImageDataGenerator and other old preprocessing are written keras.utils.image_dataset_from_directory and "
        "keras.layers.RandomFlip and so on; tf.keras.preprocessing still has them.",
        "modules.serve_preprocessing",
    ),
    Row(
        "layers of tf.keras",
        "keras.layers.ThresholdedReLU, keras.losses.Reduction",
        "Some old layers and losses are in tf.keras alone.",
        "modules.serve_preprocessing",
    ),
    Row(
        "losses of keras",
        "tf.keras.losses.mean_squared_error, tf.keras.metrics.log_cosh",
        "Some losses as functions are in keras.losses alone: keras.losses.mean_squared_error.",
        "restored.serve_losses",
    ),
    Row(
        "other names of Keras 2",
        "keras.callbacks.BaseLogger(), keras.models.model_from_config(config), keras.utils.to_ordinal(y)",
        "BaseLogger is not needed, AbstractRNNCell is keras.layers.Layer, model_from_config is "
        "keras.saving.deserialize_keras_object, "
        "to_ordinal is a line of NumPy, the initializers normal and uniform are RandomNormal and RandomUniform.",
        "restored.serve_others",
    ),
    Row(
        "to_categorical(dtype=...)",
        "keras.utils.to_categorical(y, nb_classes=10, dtype='float32')",
        "to_categorical(y, nb_classes=n, dtype=t) is written to_categorical(y, n).astype(t).",
        "modules.patch_to_categorical",
    ),
    Row(
        "Sequence without super().__init__",
        "a keras.utils.Sequence whose __init__ does not call its parent's",
        "A Sequence (keras.utils.PyDataset) calls super().__init__() in its __init__.",
        "layers.patch_sequences",
    ),
    # --- layers and modules
    Row(
        "input_shape",
        "keras.layers.Dense(10, input_shape=(784,))",
        "input_shape in a first layer is written as a layer of its own: keras.Input((784,)).",
        "layers.patch_arguments",
    ),
    Row(
        "Sequential.input",
        "keras.Model(sequential.input, sequential.layers[-2].output)",
        "A Sequential model's input is written model.inputs[0], its output model.outputs[0].",
        "layers.patch_sequential",
    ),
    Row(
        "batch_input_shape",
        "keras.layers.LSTM(10, batch_input_shape=(32, 5, 1))",
        "batch_input_shape=s in a first layer is written as a layer of its own: keras.Input(batch_shape=s).",
        "layers.patch_arguments",
    ),
    Row(
        "how layers compute",
        "BatchNormalization(fused=True), LSTM(10, implementation=2)",
        "Layers have no fused, virtual_batch_size, time_major or implementation any more: leave them out.",
        "layers.patch_arguments",
    ),
    Row(
        "InputLayer(input_shape=...)",
        "keras.layers.InputLayer(input_shape=(784,))",
        "InputLayer(input_shape=s) is written keras.Input(s).",
        "layers.patch_names_of_arguments",
    ),
    Row(
        "Input(5)",
        "keras.Input((5)), keras.Input(5), keras.layers.Dense(10, input_shape=5)",
        "A shape is a tuple: keras.Input((5,)).",
        "layers.patch_shapes",
    ),
    Row(
        "TensorFlow functions between layers",
        "x = tf.concat([a, b], -1), of the outputs of two layers",
        "Between layers write Keras's own functions: keras.ops.concatenate([a, b], -1). A model that is saved with "
        "TensorFlow's is loaded after import jupyter_ddl.keras.",
        "symbolic.patch_functions",
    ),
    Row(
        "get_shape",
        "layer.output.get_shape().as_list()",
        "A Keras tensor's shape is a tuple: tensor.shape.",
        "symbolic.patch_tensors",
    ),
    Row(
        "input_length",
        "keras.layers.Embedding(100, 8, input_length=20)",
        "Embedding has no input_length any more: leave it out.",
        "layers.patch_names_of_arguments",
    ),
    Row(
        "LeakyReLU(alpha=...)",
        "keras.layers.LeakyReLU(alpha=0.1)",
        "LeakyReLU(alpha=a) is written LeakyReLU(negative_slope=a).",
        "layers.patch_names_of_arguments",
    ),
    Row(
        "CuDNNLSTM",
        "keras.layers.CuDNNLSTM(10)",
        "CuDNNLSTM and CuDNNGRU are written LSTM and GRU, which use cuDNN on a GPU.",
        "layers.serve_recurrent",
    ),
    Row(
        "keras.layers.core",
        "from keras.layers.normalization import BatchNormalization",
        "Layers are imported from keras.layers itself: from keras.layers import BatchNormalization.",
        "modules.serve_layers",
    ),
    Row(
        "keras.engine",
        "from keras.engine.topology import Layer",
        "keras.engine is keras.layers now, for models keras.models.",
        "modules.serve_layers",
    ),
    Row(
        "keras.utils.np_utils",
        "from keras.utils import np_utils",
        "keras.utils.np_utils and its like are keras.utils now: keras.utils.to_categorical.",
        "modules.serve_utils",
    ),
    Row(
        "other modules",
        "keras.callbacks.callbacks, tf.keras.experimental",
        "keras.callbacks.callbacks is keras.callbacks, and tf.keras.experimental is keras.optimizers.schedules.",
        "modules.serve_others",
    ),
    Row(
        "mixed_precision.experimental",
        "tf.keras.mixed_precision.experimental.set_policy('mixed_float16')",
        "mixed_precision.experimental.set_policy is written keras.mixed_precision.set_global_policy, and "
        "LossScaleOptimizer is in keras.mixed_precision.",
        "modules.serve_mixed_precision",
    ),
)
