"""Nonlinear scores: derivatives, and the loss that is built on them."""

from functools import cache

import numpy as np
import pytest
from problems import LinearScore
from scipy import sparse
from sklearn.base import clone

from sksstruct import ChainCRF
from sksstruct.datasets import make_chain
from sksstruct.losses import SmoothedHinge
from sksstruct.models import ELUScore, ScoreFunction
from sksstruct.models.chain.chain import ChainModel
from sksstruct.models.roles import nonlinear_loss
from sksstruct.solvers import SGD, ProxLinear
from sksstruct.utils.packed import PackedSequences


def data(seed=0, form=np.asarray):
    rng = np.random.RandomState(seed)
    sizes = [2, 1, 4, 3]
    X = rng.normal(size=(10, 3))
    labels = rng.randint(3, size=10).astype(np.int32)
    return PackedSequences.from_lengths(form(X), sizes), labels


def scored(loss, nonsmooth=False, form=np.asarray, score=None, **kwargs):
    """A bound chain of four sequences, and weights to look at it from."""
    packed, labels = data(form=form)
    rng = np.random.RandomState(4)
    y = np.split(labels, packed.offsets[1:-1])
    model = ChainModel(
        loss="hinge" if nonsmooth else SmoothedHinge(*loss),
        loss_normalization="sequence",
        score_function=ELUScore(5) if score is None else score,
        **kwargs,
    )
    model.check()
    p = rng.uniform(size=4)
    problem = model._bind(model._read(packed, y, p, None))
    problem = nonlinear_loss(problem, loss[0], loss[2])
    if nonsmooth:
        problem.set_smoothing(loss[1])
    w = problem.initial_weights(rng)
    return problem, w + 0.3 * rng.normal(size=w.shape) * exists(problem, w)


def exists(problem, w):
    """1 for weights that exist, 0 for padding and for weights of the ends."""
    problem.linearize(w)
    at = w + np.random.RandomState(0).normal(size=w.shape)
    return (problem.value_and_gradient(at)[1] != 0).astype(float)


@pytest.fixture(params=[1, 3], ids=["one part", "three parts"])
def parts(request, monkeypatch):
    """Number of the parts that examples are dealt to."""
    least = 100, 100, request.param
    monkeypatch.setattr("sksstruct.models.scores.scored.FINE", least)
    return request.param


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n_cells", [1, 2, 6])
def test_products_with_the_jacobian(form, n_cells):
    rng = np.random.RandomState(0)
    score = ELUScore(4, n_cells=n_cells)
    X = rng.normal(size=(6, 6)) * (rng.uniform(size=(6, 6)) < 0.7)
    w = score.initialize(6, 2, rng)
    assert w.size == 6 // n_cells * 4 + 4 + n_cells * 4 * 2 + 2
    w += 0.1 * rng.normal(size=w.shape)
    given = form(X)
    direction, cotangent = rng.normal(size=w.shape), rng.normal(size=(6, 2))
    h = 1e-6
    change = score.value(w + h * direction, given, 2)
    change = (change - score.value(w - h * direction, given, 2)) / (2 * h)
    product = score.jvp(w, given, 2, direction)
    np.testing.assert_allclose(product, change, atol=1e-8)
    gradient = score.vjp(w, given, 2, cotangent)
    assert gradient @ direction == pytest.approx((cotangent * product).sum())


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_cells_share_the_first_layer(form):
    """Section 7.1.2: <elu(map * w1), w2>, * being a convolution of size 1."""
    rng = np.random.RandomState(0)
    height, width, channels, h, k = 3, 2, 4, 5, 2
    maps = rng.normal(size=(7, height, width, channels))
    score = ELUScore(h, n_cells=height * width)
    X = form(maps.reshape(7, -1))
    w = score.initialize(X.shape[1], k, rng)
    first, second = w[: channels * h].reshape(channels, h), w[channels * h + h : -k]
    a = np.einsum("nijc,ch->nijh", maps, first)
    units = np.where(a >= 0, a, np.expm1(a))
    second = second.reshape(height, width, h, k)
    expected = np.einsum("nijh,ijhk->nk", units, second)
    np.testing.assert_allclose(score.value(w, X, k), expected, atol=1e-12)
    assert score.value(w, X[:0], k).shape == (0, k)


def test_cells_must_fit():
    X, y = xor(5, 0)
    with pytest.raises(ValueError, match=r"n_cells=3 cells .* do not make 2 features"):
        ChainCRF(score_function=ELUScore(2, n_cells=3)).fit(X, y)
    model = ChainCRF(
        1e-3, score_function=ELUScore(12, n_cells=2), random_state=0, tol=0.1
    ).fit(X, y)
    assert model.objective_ < 0.8 * model.history_["primal"][0]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("loss", [("entropy", 0.7, 1), ("l2", 0.7, 81)])
@pytest.mark.parametrize("boundary", [True, False])
def test_gradients(form, loss, boundary, parts):
    problem, w = scored(loss, form=form, boundary=boundary)
    assert problem.n_parts == parts
    assert problem.shares.sum() == pytest.approx(1.0)
    problem.linearize(w)
    rng = np.random.RandomState(5)
    at = w + 0.1 * rng.normal(size=w.shape) * exists(problem, w)
    problem.linearize(w)
    anchor = problem.value_and_gradient(w)[1]
    # before the anchor moves: parts sum up to what changed since then
    change = sum(
        share * problem.part_gradient(b, at) for b, share in enumerate(problem.shares)
    )
    value, gradient = problem.value_and_gradient(at)
    np.testing.assert_allclose(anchor + change, gradient, atol=1e-12)
    total = sum(
        share * problem.part_gradient(b, at, anchored=False)
        for b, share in enumerate(problem.shares)
    )
    np.testing.assert_allclose(total, gradient, atol=1e-12)
    h = 1e-5
    for _ in range(4):
        direction = rng.normal(size=w.shape) * (anchor != 0)
        up = problem.value_and_gradient(at + h * direction)[0]
        down = problem.value_and_gradient(at - h * direction)[0]
        assert gradient @ direction == pytest.approx((up - down) / (2 * h), abs=1e-7)
    # where it is linearized the model touches the loss, and h is convex: Lemma 34's
    # bound is a small multiple of the squared distance
    assert problem.value_and_gradient(w)[0] == pytest.approx(problem.value(w))
    assert abs(problem.value(at) - value) <= 20 * (at - w) @ (at - w)
    # the loss itself
    looks = [problem.true_gradient(b, at) for b in range(problem.n_parts)]
    gradient = sum(s * g for s, (_, g) in zip(problem.shares, looks, strict=True))
    value = sum(s * v for s, (v, _) in zip(problem.shares, looks, strict=True))
    assert value == pytest.approx(problem.value(at))
    up, down = problem.value(at + h * direction), problem.value(at - h * direction)
    assert gradient @ direction == pytest.approx((up - down) / (2 * h), abs=1e-6)


def test_hinge_is_the_limit_of_its_smoothing():
    problem, w = scored(("l2", 1e-9, 81), nonsmooth=True)
    problem.linearize(w)
    assert problem.value_and_gradient(w)[0] == pytest.approx(problem.value(w), abs=1e-7)


@cache
def optimum_of_xor(loss):
    """Data, a model, and the objective that it reaches by default."""
    X, y = xor(15, 0)
    model = ChainCRF(0.03, loss=loss, score_function=ELUScore(6), random_state=0)
    return X, y, model, clone(model).fit(X, y).objective_


def xor(n, seed):
    rng = np.random.RandomState(seed)
    X = [rng.normal(size=(rng.randint(2, 6), 2)) for _ in range(n)]
    return X, [np.where(x[:, 0] * x[:, 1] > 0, "same", "other") for x in X]


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_learns_what_no_linear_score_can(loss):
    X, y = xor(30, 0)
    X_test, y_test = xor(100, 1)
    linear = ChainCRF(1e-3, loss=loss).fit(X, y)
    assert linear.score(X_test, y_test) < 0.7
    model = ChainCRF(
        1e-3, loss=loss, score_function=ELUScore(12), random_state=0, tol=0.1
    ).fit(X, y)
    assert isinstance(model.solver_, ProxLinear)
    assert model.score(X_test, y_test) > 0.8
    # the objective never rises (Theorem 35), and is what is reported
    assert (np.diff(model.history_["primal"]) <= 1e-12).all()
    assert model.dual_gap_ == np.inf
    again = ChainCRF(
        1e-3, loss=loss, score_function=ELUScore(12), random_state=0, tol=0.1
    ).fit(X, y)
    np.testing.assert_array_equal(again.score_parameters_, model.score_parameters_)
    if loss == "log":
        means = model.predict_proba(X_test)
        np.testing.assert_allclose(means[0].sum(axis=1), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "log"])
@pytest.mark.parametrize(
    "solver",
    [
        ProxLinear(60, schedule="constant", mu=0.02),
        ProxLinear(60, smoothing="l2"),
        ProxLinear(25, inner="casimir", inner_iter=10),
        ProxLinear(25, inner="casimir", inner_iter=10, start="extrapolation"),
        ProxLinear(25, inner="casimir", inner_iter=10, start="previous"),
        SGD(200),
        SGD(200, averaging=False),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:training did not converge")
def test_solvers_reach_the_same_objective(loss, solver):
    X, y, model, best = optimum_of_xor(loss)
    model = clone(model).set_params(solver=solver).fit(X, y)
    assert (np.diff(model.history_["primal"]) <= 1e-12).all()
    # of a problem that is not convex, from the same start
    assert model.objective_ < 1.2 * best


@pytest.mark.parametrize("loss", ["hinge", "log"])
@pytest.mark.parametrize("solver", [ProxLinear(20), SGD(20)], ids=str)
@pytest.mark.filterwarnings("ignore:training did not converge")
def test_without_regularization(loss, solver):
    X, y = xor(30, 0)
    model = ChainCRF(
        0.0, loss=loss, score_function=ELUScore(12), solver=solver, random_state=0
    ).fit(X, y)
    values = model.history_["primal"]
    assert (np.diff(values) <= 1e-12).all() and values[-1] < 0.5 * values[0]


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "log", SmoothedHinge("l2", 0.5, 10)])
@pytest.mark.parametrize("inner", ["lbfgs", "casimir"])
@pytest.mark.filterwarnings("ignore:training did not converge")
def test_linear_scores_reach_the_optimum(loss, inner):
    data = make_chain(10, n_classes=3, random_state=0)
    linear = ChainCRF(0.1, loss=loss, fit_intercept=False, tol=1e-5, random_state=0)
    linear.fit(data.X, data.y)
    solver = ProxLinear(100, 1e-5, inner=inner)
    model = clone(linear).set_params(score_function=LinearScore(), solver=solver)
    model.fit(data.X, data.y)
    # no lower than what the optimum is known to be, and not far above
    assert model.objective_ >= linear.objective_ - linear.dual_gap_ - 1e-9
    assert model.objective_ <= linear.objective_ + 3e-3


def test_objective_of_a_fitted_score():
    X, y = xor(8, 2)
    model = ChainCRF(
        0.01,
        loss_normalization="sequence",
        score_function=ELUScore(6),
        random_state=0,
        tol=0.2,
    ).fit(X, y)
    total = 0.0
    classes = model.classes_.tolist()
    for x, labels in zip(X, y, strict=True):
        unary = model.score_function_.value(model.score_parameters_, x, 2)
        unary[0] += model.start_
        unary[-1] += model.end_
        y_true = np.array([classes.index(label) for label in labels])
        scores = {}
        from itertools import product

        for z in product(range(2), repeat=len(x)):
            z = np.array(z)
            value = unary[np.arange(len(x)), z].sum()
            value += model.transitions_[z[:-1], z[1:]].sum() + (z != y_true).mean()
            scores[tuple(z)] = value
        total += max(scores.values()) - scores[tuple(y_true)]
    w = np.concatenate(
        [
            model.score_parameters_,
            model.start_,
            model.end_,
            model.transitions_.ravel(),
        ]
    )
    assert model.objective_ == pytest.approx(total / 8 + 0.005 * w @ w, rel=1e-9)


def test_warm_start_and_pickle():
    import pickle

    X, y = xor(8, 3)
    model = ChainCRF(
        0.01, score_function=ELUScore(4), warm_start=True, random_state=0, tol=0.5
    )
    first = model.fit(X, y).objective_
    assert model.fit(X, y).objective_ <= first
    other = pickle.loads(pickle.dumps(model))
    for a, b in zip(other.predict(X), model.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)


class NoScore(ScoreFunction):
    pass


class Broken(ELUScore):
    def value(self, w, X, n_labels):
        return super().value(w, X, n_labels)[:, :1]


def test_what_a_score_function_returns_is_checked():
    X, y = xor(5, 0)
    with pytest.raises(
        ValueError, match=r"value of the score function .* got \(\d+, 1"
    ):
        ChainCRF(score_function=Broken()).fit(X, y)
    model = ChainCRF(score_function=ELUScore(2), tol=1.0, random_state=0).fit(X, y)
    assert not hasattr(model, "state_features_")
    assert len(model.transition_features_) == 4


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"score_function": "elu"}, "score_function"),
        ({"score_function": ELUScore(0)}, "n_hidden"),
        ({"score_function": ELUScore(), "solver": "bcfw"}, "linear in the weights"),
        ({"solver": "prox_linear"}, "it needs a score function"),
        (
            {
                "score_function": ELUScore(),
                "loss": "log",
                "all_possible_states": False,
            },
            "all possible states",
        ),
    ],
)
def test_what_does_not_fit_is_refused(parameters, match):
    X, y = xor(5, 0)
    with pytest.raises(ValueError, match=match):
        ChainCRF(**parameters).fit(X, y)


def test_unknown_labels_and_streams_are_refused():
    X, y = xor(5, 0)
    model = ChainCRF(score_function=ELUScore(2), tol=1.0, random_state=0)
    partial = [list(row) for row in y]
    partial[2][0] = None
    with pytest.raises(ValueError, match="every label of y to be known"):
        model.fit(X, partial)
    with pytest.raises(ValueError, match="mini-batches"):
        model.partial_fit(X, y, classes=["same", "other"])
    with pytest.raises(NotImplementedError):
        ChainCRF(score_function=NoScore()).fit(X, y)


class WrongProducts(ScoreFunction):
    """Products that NumPy would stretch, or that have an entry too many."""

    wrong = "jvp"

    def initialize(self, n_features, n_labels, random_state):
        return ELUScore(2).initialize(n_features, n_labels, random_state)

    def value(self, w, X, n_labels):
        return ELUScore(2).value(w, X, n_labels)

    def jvp(self, w, X, n_labels, direction):
        found = ELUScore(2).jvp(w, X, n_labels, direction)
        return found[0] if self.wrong == "jvp" else found

    def vjp(self, w, X, n_labels, cotangent):
        found = ELUScore(2).vjp(w, X, n_labels, cotangent)
        return np.append(found, 0.0) if self.wrong == "vjp" else found


@pytest.mark.parametrize("name", ["jvp", "vjp"])
def test_shapes_of_products_are_checked(name):
    score = type("Wrong", (WrongProducts,), {"wrong": name})()
    X, y = [np.zeros((3, 2)), np.ones((2, 2))], [[0, 1, 0], [1, 0]]
    tagger = ChainCRF(1e-2, score_function=score, random_state=0)
    with pytest.raises(ValueError, match=f"{name} of the score function"):
        tagger.fit(X, y)
