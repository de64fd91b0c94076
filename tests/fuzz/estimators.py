"""Estimators on odd data: finite results, or an error before any work."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.exceptions import NotFittedError

from sksstruct import ChainCRF, LinearSSVC, MultilabelPairwise, SSVMClassifier

SOLVERS = {
    "hinge": ["auto", "bcfw", "fw", "ssg", "bmrm", "cutting-plane", "svrg", "casimir",
              "sgd", "pragam", "gdmm"],
    "log": ["auto", "sdca", "lbfgs", "svrg", "sgd", "casimir"],
}  # fmt: skip
NUMBERS = st.one_of(
    st.floats(-3, 3, width=16),
    st.sampled_from([0.0, 0.0, 1.0, 1e-300, 1e8, -1e12, 1e154, 1e300]),
)
ODD = st.one_of(NUMBERS, st.sampled_from([np.nan, np.inf, -np.inf]))


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


@st.composite
def cases(draw):
    """A kind of estimator, its parameters, and rows with labels."""
    kind = draw(st.sampled_from(["chain", "classes", "binary", "sets"]))
    loss = draw(st.sampled_from(["hinge", "log"]))
    parameters = {
        "alpha": draw(st.sampled_from([1.0, 0.1, 1e-3, 1e-8, 1e6, 5e-324])),
        "max_iter": draw(st.integers(1, 30)),
        "tol": draw(st.sampled_from([1e-3, 1e-1, 1e-9])),
    }
    if kind in ("chain", "classes"):
        parameters["solver"] = draw(st.sampled_from(SOLVERS[loss]))
        parameters["loss"] = loss
    elif kind == "sets":
        parameters["loss"] = draw(
            st.sampled_from(["hinge", "squared_hinge", "log", "structured_hinge"])
        )
    n, d = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    elements = draw(st.sampled_from([NUMBERS, NUMBERS, ODD]))
    rows = draw(hnp.arrays(np.float64, (n, d), elements=elements))
    labels = draw(hnp.arrays(np.int64, (n, 3), elements=st.integers(0, 2)))
    form = draw(
        st.sampled_from(["dense", "sparse", "pointer", "column", "negative", "wide"])
    )
    weight = draw(st.one_of(st.none(), st.lists(NUMBERS, min_size=n, max_size=n)))
    return kind, parameters, rows, labels, form, weight


cases = cases()
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
    except ALLOWED:
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
    estimator.predict(X)
