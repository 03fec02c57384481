"""Images from folders, a residual network, a learning rate in stages, and checkpoints to go on from: an ImageNet job
in small. Run it again after it was killed, and it resumes where rank 0 finds the last checkpoint.

It reads train/CLASS/*.png and validation/CLASS/*.png.
"""

import os

import horovod.tensorflow.keras as hvd
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras.preprocessing import image

train_dir = "train"
validation_dir = "validation"
checkpoint_format = "./checkpoint-{epoch}.h5"
batch_size = 16
epochs = 3
base_lr = 0.05
warmup_epochs = 1
weight_decay = 0.00005

hvd.init()

gpus = tf.config.experimental.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")

# Only rank 0 is sure to see the checkpoints, so it tells the others where to go on.
resume_from_epoch = 0
for try_epoch in range(epochs, 0, -1):
    if os.path.exists(checkpoint_format.format(epoch=try_epoch)):
        resume_from_epoch = try_epoch
        break
resume_from_epoch = hvd.broadcast(resume_from_epoch, 0, name="resume_from_epoch")

verbose = 1 if hvd.rank() == 0 else 0

train_generator = image.ImageDataGenerator(rescale=1.0 / 255, width_shift_range=0.1, height_shift_range=0.1)
train_iter = train_generator.flow_from_directory(
    train_dir, batch_size=batch_size, target_size=(28, 28), color_mode="grayscale"
)
test_generator = image.ImageDataGenerator(rescale=1.0 / 255)
test_iter = test_generator.flow_from_directory(
    validation_dir, batch_size=batch_size, target_size=(28, 28), color_mode="grayscale"
)


def residual_network(classes):
    images = keras.layers.Input(shape=(28, 28, 1))
    x = keras.layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(images)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Activation("relu")(x)
    for _ in range(2):
        shortcut = x
        x = keras.layers.Conv2D(8, 3, padding="same", use_bias=False)(x)
        x = keras.layers.BatchNormalization()(x)
        x = keras.layers.add([x, shortcut])
        x = keras.layers.Activation("relu")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.models.Model(images, keras.layers.Dense(classes, activation="softmax")(x))


compression = hvd.Compression.fp16
initial_lr = base_lr * hvd.size()

if resume_from_epoch > 0 and hvd.rank() == 0:
    # The optimizer comes with the model, and is a distributed one again. The others get both by broadcast.
    model = hvd.load_model(checkpoint_format.format(epoch=resume_from_epoch), compression=compression)
else:
    model = residual_network(train_iter.num_classes)
    # The usual settings for training from scratch differ from the layers' defaults.
    config = model.get_config()
    for layer, layer_config in zip(model.layers, config["layers"]):
        if hasattr(layer, "kernel_regularizer"):
            regularizer = keras.regularizers.l2(weight_decay)
            layer_config["config"]["kernel_regularizer"] = {
                "class_name": regularizer.__class__.__name__,
                "config": regularizer.get_config(),
            }
        if type(layer) == keras.layers.BatchNormalization:
            layer_config["config"]["momentum"] = 0.9
            layer_config["config"]["epsilon"] = 1e-5
    model = keras.models.Model.from_config(config)

    opt = keras.optimizers.SGD(lr=initial_lr, momentum=0.9)
    opt = hvd.DistributedOptimizer(opt, compression=compression)
    model.compile(
        loss=keras.losses.categorical_crossentropy,
        optimizer=opt,
        metrics=["accuracy", "top_k_categorical_accuracy"],
        experimental_run_tf_function=False,
    )

callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=initial_lr, warmup_epochs=warmup_epochs, verbose=verbose),
    hvd.callbacks.LearningRateScheduleCallback(
        initial_lr=initial_lr, multiplier=1.0, start_epoch=warmup_epochs, end_epoch=2
    ),
    hvd.callbacks.LearningRateScheduleCallback(initial_lr=initial_lr, multiplier=1e-1, start_epoch=2),
]
if hvd.rank() == 0:
    callbacks.append(keras.callbacks.ModelCheckpoint(checkpoint_format))
    callbacks.append(keras.callbacks.TensorBoard("./logs"))

history = model.fit(
    train_iter,
    steps_per_epoch=len(train_iter) // hvd.size(),
    callbacks=callbacks,
    epochs=epochs,
    verbose=verbose,
    workers=4,
    initial_epoch=resume_from_epoch,
    validation_data=test_iter,
    validation_steps=3 * len(test_iter) // hvd.size(),
)

score = hvd.allreduce(model.evaluate(test_iter, workers=4))
if verbose:
    print("Test loss:", score[0].numpy())
    print("Test accuracy:", score[1].numpy())
