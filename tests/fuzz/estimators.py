"""Estimators on odd data: finite results, or an error before any work."""

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError

from sksstruct import (
    ChainCRF,
    LinearSSVC,
    MultilabelPairwise,
    SSVMClassifier,
    solvers,
)
from tests.fuzz._draws import decoded, table_of

# Names of the solvers for the oracles of chains and classes, by loss
ORACLES = "max", "topk", "exp", "projection", "factors"
SOLVERS = {
    loss: ["auto", *solvers.SOLVERS.names(*ORACLES, losses=(kind,))]
    for loss, kind in (("hinge", "hinge"), ("log", "smooth"))
}
SPECIAL = [0.0, 0.0, 1.0, 1e-300, 1e8, -1e12, 1e154, 1e300]
ORDINARY = table_of([0.0, 1.0, -1.0], -3, 3, 0.2)
NUMBERS = table_of(SPECIAL, -3, 3)
ODD = table_of([*SPECIAL, *[np.nan, np.inf, -np.inf] * 2], -3, 3)
FORMS = ["dense", "sparse", "pointer", "column", "negative", "wide"]


def _broken(matrix, how):
    """A sparse matrix whose arrays do not fit together."""
    matrix = matrix.copy()
    if how == "pointer" and matrix.shape[0]:
        matrix.indptr[1:-1] = 10**7
    elif how == "column" and matrix.nnz:
        matrix.indices[0] = 10**8
    elif how == "negative" and matrix.nnz:
        matrix.indices[-1] = -3
    elif how == "wide" and matrix.nnz:
        matrix.indices = matrix.indices.astype(np.int64)
        matrix.indptr = matrix.indptr.astype(np.int64)
        matrix.indices[0] = 2**32 + 1
    return matrix


def _case(draws):
    """A kind of estimator, its parameters, and rows with labels."""
    kind = draws.choice(["chain", "classes", "binary", "sets"])
    loss = draws.choice(["hinge", "log"])
    parameters = {
        "alpha": draws.choice([1.0, 0.1, 1e-3, 1e-8, 1e6, 5e-324]),
        "max_iter": draws.integer(1, 30),
        "tol": draws.choice([1e-3, 1e-1, 1e-9]),
    }
    if kind in ("chain", "classes"):
        parameters["solver"] = draws.choice(SOLVERS[loss])
        parameters["loss"] = loss
    elif kind == "sets":
        losses = ["hinge", "squared_hinge", "log", "structured_hinge"]
        parameters["loss"] = draws.choice(losses)
    n, d = draws.integer(1, 8), draws.integer(1, 4)
    # all huge, and nothing is trained: most rows are ordinary
    numbers = draws.choice([ORDINARY, ORDINARY, NUMBERS, ODD])
    rows = draws.array((n, d), numbers)
    unit = draws.choice([1.0, 1.0, 1e-15, 1e8, 1e15, 1e30])
    if unit != 1.0 and numbers is ORDINARY:
        # an ordinary problem in other units
        rows, parameters["alpha"] = rows * unit, parameters["alpha"] * unit**2
    labels = draws.array((n, 3), np.arange(3))
    form = draws.choice(FORMS)
    weight = draws.array(n, draws.choice([NUMBERS, ORDINARY])) if draws.flag() else None
    return kind, parameters, rows, labels, form, weight


cases = decoded(170, _case)
ALLOWED = (ValueError, TypeError, NotFittedError)


def _estimator(kind, parameters):
    if kind == "chain":
        return ChainCRF(random_state=0, **parameters)
    if kind == "classes":
        return SSVMClassifier("multiclass", random_state=0, **parameters)
    cls = LinearSSVC if kind == "binary" else MultilabelPairwise
    return cls(random_state=0, **parameters)


def check(case):
    """Weights, objective and scores are finite, and no bad input is accepted."""
    kind, parameters, rows, labels, form, weight = case
    X = rows if form == "dense" else _broken(sparse.csr_array(rows), form)
    y = {"binary": labels[:, 0] > 0, "sets": labels > 0}.get(kind, labels[:, 0])
    if kind == "chain":
        parts = [0, len(rows) // 2, len(rows)]
        X = [X[:] if form != "dense" else X] if form in ("pointer", "wide") else [
            X[a:b] for a, b in zip(parts[:-1], parts[1:], strict=True)
        ]  # fmt: skip
        y = [y] if len(X) == 1 else [y[a:b] for a, b in zip(parts, parts[1:])]  # noqa: B905
        weight = None if weight is None else weight[: len(X)]
    estimator = _estimator(kind, parameters)
    try:
        estimator.fit(X, y, sample_weight=weight)
    except ALLOWED as error:
        # nothing is wrong with the oracles of these models
        assert "check_model" not in str(error), error
        fitted = [name for name in vars(estimator) if name.endswith("_")]
        allowed = {"n_features_in_", "feature_names_in_"}
        assert set(fitted) <= allowed, f"half-fitted: {fitted}"
        return
    # SciPy drops entries outside of the matrix where it cuts rows
    if form in ("dense", "sparse"):
        assert np.isfinite(rows).all(), "NaN or infinity was accepted"
    assert np.isfinite(estimator.objective_), estimator.objective_
    coef = estimator.coef_
    assert np.isfinite(coef.data if sparse.issparse(coef) else coef).all(), "weights"
    try:
        estimator.predict(X)
    except ValueError as error:
        # a refusal that says why
        assert "too large" in str(error), error
