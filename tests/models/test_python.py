"""Models written in Python: training, checks, and what goes wrong in them."""

import warnings

import numpy as np
import pytest
from reference import optimum_of
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

from sksstruct import SSVMClassifier
from sksstruct.models import StructuredModel, check_model
from sksstruct.models.python import python
from sksstruct.solvers import BCFW, BMRM, SSG, Casimir, CuttingPlane, FrankWolfe


class Ranking(StructuredModel):
    """Orders of three items; the score of an order is that of items by their place."""

    def __init__(self, form="dense", scale=1.0):
        self.form = form
        self.scale = scale

    ORDERS = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))

    def joint_feature(self, x, y):
        phi = np.array([-1.0, 0.0, 1.0]) @ x[list(y)]
        return phi if self.form == "dense" else sparse.csr_matrix(phi)

    def loss(self, y, y_hat):
        return self.scale * np.mean([a != b for a, b in zip(y, y_hat, strict=True)])

    def _best(self, values):
        return self.ORDERS[int(np.argmax(values))]

    def _scores(self, x, w):
        return np.array(
            [np.array([-1.0, 0.0, 1.0]) @ x[list(y)] @ w for y in self.ORDERS]
        )

    def decode(self, x, w):
        return self._best(self._scores(x, w))

    def loss_augmented_decode(self, x, y, w):
        losses = [self.loss(y, z) for z in self.ORDERS]
        return self._best(self._scores(x, w) + losses)

    def labelings(self, x):
        return self.ORDERS

    def loss_augmented_topk(self, x, y, w, k):
        losses = [self.loss(y, z) for z in self.ORDERS]
        return [self.ORDERS[j] for j in np.argsort(-self._scores(x, w) - losses)[:k]]

    def decode_topk(self, x, w, k):
        return [self.ORDERS[j] for j in np.argsort(-self._scores(x, w))[:k]]


def rankings(n=12, seed=0):
    rng = np.random.RandomState(seed)
    X = [rng.normal(size=(3, 4)) for _ in range(n)]
    w = rng.normal(size=4)
    y = [tuple(np.argsort(x @ w + 0.3 * rng.normal(size=3)).tolist()) for x in X]
    return X, y


def fit(model, X, y, **parameters):
    parameters = {"alpha": 0.1, "tol": 1e-5, "max_iter": 20_000, **parameters}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return SSVMClassifier(model, random_state=0, **parameters).fit(X, y)


def margins(X, y, model):
    features, losses = [], []
    for x, y_true in zip(X, y, strict=True):
        outputs = [y_true, *model.labelings(x)]
        phi = [np.asarray(Ranking().joint_feature(x, z)) for z in outputs]
        features.append(np.array(phi))
        losses.append(np.array([model.loss(y_true, z) for z in outputs]))
    return features, losses


@pytest.mark.slow
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize(
    "solver",
    [
        "auto",
        BCFW(tol=1e-4, max_iter=20_000),
        BCFW.as_published(
            step="away", cache=True, sampling="uniform", tol=1e-4, max_iter=20_000
        ),
        FrankWolfe(5000, 1e-2),
        SSG(2000, 1e-2),
        BMRM(2000, 1e-6),
        CuttingPlane(500, 1e-6),
        Casimir(1000, 1e-2, smoothing="l2", k=6),
    ],
    ids=lambda s: s if isinstance(s, str) else type(s).__name__,
)
def test_optimum(form, solver):
    X, y = rankings()
    model = Ranking(form)
    classifier = fit(model, X, y, solver=solver)
    features, losses = margins(X, y, model)
    best = optimum_of(features, losses, np.full(len(X), 1 / len(X)), 0.1)
    assert -1e-7 < classifier.objective_ - best <= classifier.dual_gap_ + 1e-7
    w = classifier.weights_
    risk = [(b + (a - a[0]) @ w).max() for a, b in zip(features, losses, strict=True)]
    assert classifier.objective_ == pytest.approx(0.05 * w @ w + np.mean(risk))


def test_casimir_needs_the_k_best():
    class Plain(Ranking):
        loss_augmented_topk = StructuredModel.loss_augmented_topk

    X, y = rankings()
    with pytest.raises(ValueError, match="needs the oracle"):
        fit(Plain(), X, y, solver="casimir")
    with pytest.raises(ValueError, match="smoothing='l2'"):
        fit(Ranking(), X, y, solver=Casimir(smoothing="entropy"))
    for outputs in ([], [(0, 1, 2)] * 2):
        Plain.loss_augmented_topk = lambda self, x, y, w, k, z=outputs: z
        with pytest.raises(ValueError, match="outputs of example 0"):
            fit(Plain(), X, y, solver="casimir")


@pytest.mark.slow
def test_bounds():
    """Bounds that the model asks for hold, at the optimum of the bounded problem."""

    class Bounded(Ranking):
        def bounds(self):
            return {"coef": (0.0, [0.2, np.inf, 0.1, np.inf])}

    X, y = rankings()
    classifier = fit(
        Bounded(), X, y, solver=BCFW.as_published(step="pairwise", tol=1e-4)
    )
    assert (classifier.coef_ >= 0).all()
    assert (classifier.coef_ <= [0.2, np.inf, 0.1, np.inf]).all()
    features, losses = margins(X, y, Bounded())
    lower, upper = np.zeros(4), np.array([0.2, 1e9, 0.1, 1e9])
    p = np.full(len(X), 1 / len(X))
    best = optimum_of(features, losses, p, 0.1, (lower, upper))
    assert -1e-7 < classifier.objective_ - best <= classifier.dual_gap_ + 1e-7
    assert classifier.dual_gap_ < 0.01
    check_model(Bounded(), X[:3], y[:3], random_state=0)
    cut = fit(Bounded(), X, y, solver=BMRM(tol=1e-4))
    assert (cut.coef_ >= 0).all()
    assert (cut.coef_ <= [0.2, np.inf, 0.1, np.inf]).all()
    assert -1e-7 < cut.objective_ - best <= cut.dual_gap_ + 1e-7
    assert cut.dual_gap_ < 0.01
    for bad in ({"edge": (0, 1)}, {"coef": (1, 0)}, {"coef": 3}):
        Bounded.bounds = lambda self, bad=bad: bad
        with pytest.raises(ValueError, match="bounds"):
            fit(Bounded(), X, y)


@pytest.mark.slow
def test_estimator():
    X, y = rankings(30)
    classifier = fit(Ranking(), X, y)
    assert classifier.predict(X) == [Ranking().decode(x, classifier.coef_) for x in X]
    losses = [Ranking().loss(a, b) for a, b in zip(y, classifier.predict(X))]  # noqa: B905
    assert classifier.score(X, y) == pytest.approx(1 - np.mean(losses))
    outputs, scores = classifier.predict_topk(X, 2)
    assert all(len(set(found)) == 2 for found in outputs)
    assert all((np.diff(values) <= 0).all() for values in scores)
    np.testing.assert_allclose(
        classifier.decision_function(X), [values[0] for values in scores]
    )
    threads = fit(Ranking(), X, y, n_jobs=2)
    np.testing.assert_array_equal(threads.coef_, classifier.coef_)
    search = GridSearchCV(
        SSVMClassifier(Ranking(), random_state=0),
        {"alpha": [0.01, 0.1], "model__form": ["dense", "sparse"]},
        cv=3,
    ).fit(X, y)
    assert search.best_score_ > 0.5
    assert len(cross_val_score(search.best_estimator_, X, y, cv=3)) == 3


def test_memory_is_bounded(monkeypatch):
    """Joint features that do not fit are formed again, at the same result."""
    X, y = rankings()
    kept = fit(Ranking("sparse"), X, y)
    monkeypatch.setattr(python, "KEPT", 2000, raising=False)
    assert fit(Ranking("sparse"), X, y).objective_ == kept.objective_


def test_arrays_of_the_model_may_be_used_again():
    """What a model returns is copied where it is kept."""

    class Reusing(Ranking):
        def joint_feature(self, x, y):
            phi = super().joint_feature(x, y)
            BUFFER[:] = np.argsort(-np.abs(phi))
            row = sparse.csr_matrix((phi[BUFFER], BUFFER, [0, 4]), shape=(1, 4))
            row.indices = BUFFER
            return row

        def _best(self, values):
            OUTPUT[:] = super()._best(values)
            return OUTPUT

    BUFFER, OUTPUT = np.zeros(4, dtype=np.int32), np.zeros(3, dtype=int)
    X, y = rankings()
    y = [np.array(order) for order in y]
    assert fit(Reusing(), X, y).objective_ == pytest.approx(
        fit(Ranking(), X, rankings()[1]).objective_, abs=1e-4
    )


def test_warm_start_is_refused():
    X, y = rankings()
    classifier = SSVMClassifier(Ranking(), warm_start=True, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="training starts from zero"):
        classifier.fit(X, y)


@pytest.mark.parametrize("solver", ["auto", "bcfw", "ssg", "bmrm", "fw"])
def test_oracles_that_are_not_exact_are_found_out(solver):
    class Arbitrary(Ranking):
        def loss_augmented_decode(self, x, y, w):
            return self.ORDERS[int(abs(w.sum()) * 1e6) % 6]

    X, y = rankings(40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.raises(ValueError, match="check_model"):
            SSVMClassifier(Arbitrary(), alpha=0.01, solver=solver, max_iter=50).fit(
                X, y
            )


def test_interrupts_keep_the_work():
    """Whenever an oracle is interrupted, the fit sets its attributes first."""

    class Interrupted(Ranking):
        def loss_augmented_decode(self, x, y, w):
            CALLS[0] -= 1
            if CALLS[0] == 0:
                raise KeyboardInterrupt
            return super().loss_augmented_decode(x, y, w)

    X, y = rankings()
    CALLS = [-1]
    for solver in (BCFW(max_iter=2, check_every=2), BMRM(3), SSG(3)):
        for k in range(14, 60, 5):
            CALLS[0] = k
            classifier = SSVMClassifier(Interrupted(), solver=solver, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                try:
                    classifier.fit(X, y)
                except KeyboardInterrupt:
                    pass
            assert np.isfinite(classifier.weights_).all()
            assert len(classifier.predict(X)) == len(X)


def break_model(**methods):
    return type("Broken", (Ranking,), methods)()


BROKEN = {
    "must cost nothing": {"loss": lambda self, y, z: 1.0 + (y != z)},
    "finite and not negative": {"loss": lambda self, y, z: -1.0 * (y != z)},
    "decode of example .* is worth": {"decode": lambda self, x, w: (0, 1, 2)},
    "loss_augmented_decode of example": {
        "loss_augmented_decode": lambda self, x, y, w: self.decode(x, w)
    },
    "differs from one call to the next": {
        "joint_feature": lambda self, x, y: np.random.normal(size=4)
    },
    "different lengths": {"joint_feature": lambda self, x, y: x[0][: y[0] + 1]},
    "is not finite": {"joint_feature": lambda self, x, y: np.full(4, np.nan)},
    "shape": {"joint_feature": lambda self, x, y: np.zeros((2, 4))},
    "changes the weights": {"decode": lambda self, x, w: w.fill(0) or (0, 1, 2)},
    "changes X": {
        "decode": lambda self, x, w: Ranking.decode(self, x.__imul__(1.1), w)
    },
    "different outputs for the same": {
        "decode": lambda self, x, w: self.ORDERS[np.random.randint(6)]
    },
}


@pytest.mark.parametrize("message", BROKEN)
def test_check_model_explains(message):
    X, y = rankings(6)
    y[:6] = [Ranking.ORDERS[5 - k] for k in range(6)]
    model = break_model(**BROKEN[message])
    with pytest.raises(ValueError, match=message):
        check_model(model, X, y, enumerate_outputs=True, random_state=0)


def test_check_model_is_content():
    X, y = rankings(5)
    check_model(Ranking(), X, y, enumerate_outputs=True, random_state=0)
    check_model(Ranking("sparse"), X, y, random_state=0)
    with pytest.raises(TypeError, match="StructuredModel"):
        check_model(3, X, y)


@pytest.mark.slow
@pytest.mark.parametrize(
    "message, methods",
    [
        (
            "must be finite, and has NaN or infinity",
            {"joint_feature": lambda self, x, y: np.full(4, np.inf)},
        ),
        ("a vector", {"joint_feature": lambda self, x, y: np.zeros((2, 4))}),
        ("a vector", {"joint_feature": lambda self, x, y: 3.0}),
        ("expected a vector", {"joint_feature": lambda self, x, y: np.zeros(0)}),
        (
            "has 5 entries, that of the first had 4",
            {"joint_feature": lambda self, x, y: np.zeros(4 + (y[0] == 1))},
        ),
        ("returned None", {"loss_augmented_decode": lambda self, x, y, w: None}),
        ("not negative", {"loss": lambda self, y, z: -1.0}),
        ("must define decode", {"decode": StructuredModel.decode}),
    ],
)
def test_errors_name_the_example(message, methods):
    X, y = rankings(6)
    y[:3] = (2, 1, 0), (0, 1, 2), (1, 0, 2)
    classifier = SSVMClassifier(break_model(**methods), tol=0.1)
    with pytest.raises((ValueError, NotImplementedError), match=message):
        classifier.fit(X, y).predict(X)


def test_outputs_of_any_kind():
    """Strings, dicts, sets and objects serve as outputs."""

    class Kind(StructuredModel):
        def joint_feature(self, x, y):
            return [x * (repr(y) == repr(OUTPUTS[1]))]

        def loss(self, y, y_hat):
            return float(y != y_hat)

        def decode(self, x, w):
            return OUTPUTS[int(w[0] * x > 0)]

        def loss_augmented_decode(self, x, y, w):
            values = [k * w[0] * x + (z != y) for k, z in enumerate(OUTPUTS)]
            return OUTPUTS[int(np.argmax(values))]

    X = [-2.0, 1.0, -1.0, 3.0]
    for OUTPUTS in (
        ["a", "b"],
        [{"a": 1}, {"b": [2]}],
        [frozenset({1}), frozenset({2})],
        [{1, 2}, {3}],
        [[1, [2]], [1, [3]]],
        [1, 2.5],
        [b"x", (1, "y")],
    ):
        y = [OUTPUTS[int(x > 0)] for x in X]
        assert fit(Kind(), X, y, alpha=0.1).predict(X) == y


class Numbers(StructuredModel):
    """Outputs are numbers of NumPy, or tuples of them; the oracles are wrong."""

    def __init__(self, in_tuples=False):
        self.in_tuples = in_tuples

    def _output(self, k):
        k = np.int64(k)
        return (k, k) if self.in_tuples else k

    def joint_feature(self, x, y):
        return [x * np.sum(y)]

    def loss(self, y, y_hat):
        return -float(y != y_hat)

    def labelings(self, x):
        return [self._output(k) for k in (2, 3)]

    def decode(self, x, w):
        return self._output(2)

    def loss_augmented_decode(self, x, y, w):
        return self._output(3)


@pytest.mark.parametrize(
    ("in_tuples", "shown"), [(False, "3"), (True, r"\(3, 3\)")], ids=["one", "two"]
)
def test_complaints_show_plain_numbers(in_tuples, shown):
    model = Numbers(in_tuples)
    y = [model._output(2)]
    with pytest.raises(ValueError, match=f"{shown}.* is -1") as error:
        check_model(model, [1.0], y, enumerate_outputs=True, random_state=0)
    assert "decode of example 0 gives" in str(error.value)
    assert "np.int" not in str(error.value)
