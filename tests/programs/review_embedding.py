"""Is a review kind? Words become numbers, numbers become vectors, and the vectors of a review are averaged."""

import random

import horovod.tensorflow.keras as hvd
import numpy as np
from tensorflow.keras.layers import Dense, Embedding, GlobalAveragePooling1D
from tensorflow.keras.models import Sequential
from tensorflow.keras.optimizers import Adam
from tensorflow.keras.preprocessing.sequence import pad_sequences
from tensorflow.keras.preprocessing.text import Tokenizer

hvd.init()

max_words = 200
max_length = 12
things = "film plot cast music ending camera dialogue pace".split()
kind = "lovely great moving clever superb fine".split()
unkind = "dull poor clumsy tired awful weak".split()
filler = "the a was and felt really quite to me in my view".split()

# Every process makes reviews of its own, and all of them read with the same vocabulary.
random.seed(100 + hvd.rank())


def review(is_kind):
    words = random.choices(filler, k=6) + [random.choice(things), random.choice(kind if is_kind else unkind)]
    random.shuffle(words)
    return " ".join(words)


labels = np.array([i % 2 for i in range(1024)])
texts = [review(label) for label in labels]

tokenizer = Tokenizer(num_words=max_words, oov_token="<other>")
tokenizer.fit_on_texts([" ".join(things + kind + unkind + filler)])
x = pad_sequences(tokenizer.texts_to_sequences(texts), maxlen=max_length, padding="post")

model = Sequential()
model.add(Embedding(max_words, 16, input_length=max_length))
model.add(GlobalAveragePooling1D())
model.add(Dense(1, activation="sigmoid"))

# The gradient of an embedding has rows for the words of the batch only; dense is simpler to exchange.
opt = hvd.DistributedOptimizer(Adam(lr=0.02), sparse_as_dense=True)
model.compile(loss="binary_crossentropy", optimizer=opt, metrics=["acc"])

history = model.fit(
    x,
    labels,
    batch_size=32,
    epochs=3,
    validation_split=0.1,
    verbose=1 if hvd.rank() == 0 else 0,
    callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()],
)
if hvd.rank() == 0:
    print("A new one:", model.predict(pad_sequences(tokenizer.texts_to_sequences(["a superb film"]), maxlen=12)))
