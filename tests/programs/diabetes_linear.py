"""No neural network: scikit-learn fits a line to each process's share of the patients, and the lines are averaged."""

import horovod.tensorflow as hvd
import numpy as np
from sklearn import datasets, linear_model
from sklearn.metrics import mean_squared_error, r2_score

hvd.init()

x, y = datasets.load_diabetes(return_X_y=True)
x_train, y_train, x_test, y_test = x[:-60], y[:-60], x[-60:], y[-60:]
x_train = x_train[hvd.rank() :: hvd.size()]
y_train = y_train[hvd.rank() :: hvd.size()]

line = linear_model.LinearRegression()
line.fit(x_train, y_train)
line.coef_ = hvd.allreduce(line.coef_, name="coefficients").numpy()
line.intercept_ = float(hvd.allreduce(np.float64(line.intercept_), name="intercept"))

predicted = line.predict(x_test)
if hvd.rank() == 0:
    print("Mean squared error: %.1f" % mean_squared_error(y_test, predicted))
    print("Explained variance: %.2f" % r2_score(y_test, predicted))
