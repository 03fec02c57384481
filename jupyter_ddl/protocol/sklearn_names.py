"""Names what stands for scikit-learn: its accelerators today, and the H2O4GPU and pai4sk of older programs.

A rank that imports one of these says what is written today, and `jupyter ddl modernise` writes it.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from jupyter_ddl.errors import InvalidInput

NONE, INTELEX, CUML = "none", "intelex", "cuml"
CHOICES = (INTELEX, CUML, NONE)

# The accelerator: its module, and the command that installs it.
_MODULES = {INTELEX: ("sklearnex", "pip install 'jupyter_ddl[intelex]'"), CUML: ("cuml", "pip install cuml-cu12")}

# Of H2O4GPU's own classes: the module of scikit-learn that has the name.
# Source: h2o4gpu, src/interface_py/h2o4gpu/solvers/__init__.py
H2O4GPU_CLASSES = {
    **dict.fromkeys(("ElasticNet", "Lasso", "LinearRegression", "LogisticRegression", "Ridge"), "linear_model"),
    "KMeans": "cluster",
    **dict.fromkeys(("PCA", "TruncatedSVD"), "decomposition"),
    **dict.fromkeys(
        (
            "GradientBoostingClassifier",
            "GradientBoostingRegressor",
            "RandomForestClassifier",
            "RandomForestRegressor",
        ),
        "ensemble",
    ),
}
H2O4GPU_ARGUMENTS = ("n_gpus", "gpu_id", "backend", "do_checks", "glm_stop_early", "glm_stop_early_error_fraction")
"""What these classes take and scikit-learn's do not."""

# Of Snap ML's own classes: those that have the same name in snapml.
# Source: ibmsoe.github.io/snap-ml-doc, v1.6.0, and snapml 1.17.2.
PAI4SK_CLASSES = (
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "LinearRegression",
    "LogisticRegression",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "SupportVectorMachine",
)
PAI4SK_ARGUMENTS = {"num_threads": "n_jobs", "return_training_history": "generate_training_history"}
"""What these classes took -> the same argument of snapml's."""

H2O4GPU_TODAY = (
    "H2O4GPU is not installed on this rank. Its classes are written as scikit-learn's today: from sklearn.cluster "
    "import KMeans, and for `import h2o4gpu as sklearn`: import sklearn. What accelerates them is chosen where the "
    "ranks start: %ddl start --sklearn cuml on GPUs, --sklearn intelex on cores. `jupyter ddl modernise` rewrites a "
    "program so."
)
H2O4GPU_LEFT = (
    "scikit-learn has no such name of H2O4GPU's own: use the class of scikit-learn, which %ddl start --sklearn "
    "accelerates, or XGBoost's own with device='cuda'."
)
PAI4SK_TODAY = (
    "WML CE's Snap ML is not installed on this rank under its old name. It is written `import snapml` today: "
    "pip install snapml. `jupyter ddl modernise` rewrites a program so."
)
PAI4SK_LEFT = (
    "pai4sk's classes are snapml's today: BoostingMachine is BoostingMachineClassifier or BoostingMachineRegressor. "
    "The rest of it is scikit-learn's."
)


def checked_sklearn(choice: str) -> str:
    """Return a choice of accelerator, which is installed in this Python.

    Raises:
        InvalidInput: there is none of that name, or it is not installed.
    """
    if choice not in CHOICES:
        raise InvalidInput(
            "scikit-learn is accelerated by one of these, or by none.", choice, f"Pass {', '.join(CHOICES)}."
        )
    if choice != NONE:
        module, command = _MODULES[choice]
        if find_spec(module) is None:
            raise InvalidInput(
                f"--sklearn {choice} takes the module {module}.",
                f"{sys.executable} without it",
                f"Install it: {command}",
            )
    return choice
