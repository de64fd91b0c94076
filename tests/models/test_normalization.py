"""What losses are divided by where outputs differ in size."""

import numpy as np
import pytest

from sksstruct import SSVMClassifier
from sksstruct.models import (
    GraphModel,
    MatchingModel,
    RelaxedGraphModel,
    check_model,
)

# sizes of the outputs, and the number of wrong parts of the labeling of each
GRAPHS = {
    "X": [
        (np.array([[1.0], [0.5]]), [(0, 1)]),
        (np.array([[0.2], [-1.0], [0.3], [1.0]]), [(0, 1), (1, 2), (2, 3)]),
    ],
    "y": [["a", "b"], ["a", "b", "b", "a"]],
    "other": [["b", "b"], ["b", "a", "b", "a"]],
    "sizes": [2, 4],
    "wrong": [1, 2],
}
MATCHINGS = {
    "X": [np.ones((2, 2, 1)) * np.eye(2)[..., None], np.ones((4, 5, 1))],
    "y": [[0, 1], [0, 1, -1, 4]],
    "other": [[1, 0], [0, 2, -1, -1]],
    "sizes": [2, 3],
    # a false and a missed link count one half each
    "wrong": [2, 1.5],
}
CASES = [
    (GraphModel, GRAPHS),
    (RelaxedGraphModel, GRAPHS),
    (MatchingModel, MATCHINGS),
]


@pytest.mark.parametrize(("model", "case"), CASES, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize("normalization", ["mean", "example", None])
def test_loss(model, case, normalization):
    X, y, sizes = case["X"], case["y"], case["sizes"]
    spec = model(loss_normalization=normalization)
    fitted = SSVMClassifier(spec, alpha=0.1, random_state=0, tol=0.05).fit(X, y)
    by = {"mean": [np.mean(sizes)] * 2, "example": sizes, None: [1.0, 1.0]}
    # a model of its own that has seen the data: the estimator's is not changed
    spec._read(X, y, None, SSVMClassifier()) if hasattr(spec, "_learn") else (
        spec.prepare(X, y)
    )
    for truth, other, wrong, size in zip(
        y, case["other"], case["wrong"], by[normalization], strict=True
    ):
        assert spec.loss(truth, other) == pytest.approx(wrong / size)
        assert spec.loss(truth, truth) == 0.0
    assert np.isfinite(fitted.objective_)


@pytest.mark.parametrize("normalization", ["mean", "example", None])
def test_oracles_agree_with_the_loss(normalization):
    for model, case in CASES[::2]:
        check_model(model(loss_normalization=normalization), case["X"], case["y"])


@pytest.mark.parametrize("model", [model for model, _ in CASES])
def test_bad_value(model):
    with pytest.raises(ValueError, match="loss_normalization"):
        SSVMClassifier(model(loss_normalization="sequence")).fit(
            GRAPHS["X"], GRAPHS["y"]
        )
