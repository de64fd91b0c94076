"""Every model against enumeration, its definition in NumPy, and a general solver."""

import itertools
import warnings
from functools import cache

import numpy as np
import pytest
from problems import PROBLEMS, SEGMENTS, TYPED, WEIGHTED
from reference import optimum_of
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sksstruct import SSVMClassifier
from sksstruct.losses import SmoothedHinge
from sksstruct.models import (
    CandidatesModel,
    GraphModel,
    MatchingModel,
    MulticlassModel,
    PartsModel,
    check_model,
)
from sksstruct.models.protocols._topk_hinge import TopKHinge
from sksstruct.models.python.python import BoundPython
from sksstruct.projections import project_simplex
from sksstruct.solvers import BCFW, SSG, Casimir

ALPHA = 0.3
EVERY = {**PROBLEMS, **WEIGHTED, **TYPED, **SEGMENTS}


def fit(model, X, y, sample_weight=None, **parameters):
    parameters = {"alpha": ALPHA, "tol": 1e-5, "max_iter": 20_000, **parameters}
    classifier = SSVMClassifier(model, random_state=0, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return classifier.fit(X, y, sample_weight)


@pytest.mark.parametrize("name", EVERY)
def test_oracles(name):
    """Decoding and loss-augmented decoding are as good as the best of all outputs."""
    model, X, y, _ = EVERY[name]
    check_model(model, X, y, enumerate_outputs=True, n_weights=6, random_state=0)


@pytest.mark.parametrize("name", EVERY)
def test_scores_are_what_attributes_say(name):
    """<w, phi> of the definition with the fitted attributes is the score."""
    model, X, y, feature = EVERY[name]
    classifier = fit(model, X, y, alpha=0.05, tol=0.1)
    rng = np.random.RandomState(0)
    fitted = classifier.model_
    weights = rng.normal(size=len(classifier.weights_))
    blocks = fitted._attributes(weights)
    for x, y_true in zip(X, y, strict=True):
        for output in [y_true, *fitted.labelings(x)][:20]:
            phi = feature(fitted, x, output)
            score = sum((np.asarray(blocks[k]) * v).sum() for k, v in phi.items())
            got = fitted.joint_feature(x, output) @ weights
            assert got == pytest.approx(score, abs=1e-12)


@cache
def prepared(name):
    """A fitted model, and joint features and losses of all outputs of each example."""
    model, X, y, _ = EVERY[name]
    fitted = fit(model, X, y, solver="bmrm", tol=1.0).model_
    features, losses = [], []
    for x, y_true in zip(X, y, strict=True):
        outputs = [y_true, *fitted.labelings(x)]
        features.append(np.array([fitted.joint_feature(x, z) for z in outputs]))
        losses.append(np.array([fitted._loss_at(x, y_true, z) for z in outputs]))
    return fitted, features, losses


@cache
def margins_and_optimum(name, bounded):
    """What all solvers of a problem are compared with."""
    model, X, y, _ = EVERY[name]
    classifier = SSVMClassifier(model, alpha=ALPHA, solver="bmrm")
    fitted, features, losses = prepared(name)
    bounds = None
    if bounded:
        bounds = fitted._bind(fitted._read(X, y, None, classifier)).box(None)
    p = np.full(len(features), 1 / len(features))
    return features, losses, bounds, optimum_of(features, losses, p, ALPHA, bounds)


SOLVED = [
    *itertools.product(EVERY, ["auto", "bcfw", "bmrm", "cutting_plane"]),
    # it takes thousands of passes
    *itertools.product([*EVERY][::4], ["fw"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "solver"), SOLVED)
def test_optimum(name, solver):
    """Solvers end at the optimum of a general solver, and their gap certifies it."""
    model, X, y, _ = EVERY[name]
    bounded = model.bounds() is not None and not name.startswith("potts")
    tol = {"bcfw": 1e-4, "fw": 1e-3}.get(solver, 1e-6)
    if bounded and solver != "bmrm":  # safe steps, not the best ones
        tol = 1e-2 if solver == "fw" else 1e-3
    classifier = fit(model, X, y, solver=solver, tol=tol, max_iter=100_000)
    features, losses, bounds, best = margins_and_optimum(name, bounded)
    p = np.full(len(features), 1 / len(features))
    w = classifier.weights_
    margins = [
        (loss + (phi - phi[0]) @ w).max()
        for phi, loss in zip(features, losses, strict=True)
    ]
    primal = ALPHA / 2 * (w @ w) + p @ margins
    assert classifier.objective_ == pytest.approx(primal, rel=1e-9)
    assert -1e-7 < primal - best <= classifier.dual_gap_ + 1e-7
    if bounds is not None:
        assert (w >= bounds[0]).all() and (w <= bounds[1]).all()


SMOOTHED = [n for n in EVERY if EVERY[n][0].bounds() is None]


@pytest.mark.parametrize("name", [*PROBLEMS, *SEGMENTS])
@pytest.mark.parametrize("k", [2, 10_000])
def test_smoothed_by_the_k_best(name, k):
    """Value and gradient: by enumeration, and by finite differences."""
    model, X, y, _ = EVERY[name]
    fitted, features, losses = prepared(name)
    bound = fitted._bind(fitted._read(X, y, None, SSVMClassifier(model)))
    loss = TopKHinge(bound, SmoothedHinge("l2", 0.4, k))
    rng = np.random.RandomState(0)
    w = 0.3 * rng.normal(size=bound.n_weights)
    if (box := bound.box()) is not None:
        # with room for differences: outside the box there is no oracle
        w = np.clip(w, box[0] + 0.05, box[1] - 0.05)

    def at(w):
        gradient = np.empty_like(w)
        return loss.value_and_gradient(w, gradient), gradient

    value, gradient = at(w)
    expected = 0.0
    for phi, cost in zip(features, losses, strict=True):
        h = np.sort((cost + phi @ w)[1:])[::-1][:k]
        u = project_simplex(h / 0.4)
        expected += (u @ h + 0.2 * (1 - u @ u) - phi[0] @ w) / len(features)
    assert value == pytest.approx(expected, abs=1e-10)
    if k > 2:
        assert loss.exact.all()
        for _ in range(3):
            d = rng.normal(size=len(w))
            numeric = (at(w + 1e-6 * d)[0] - at(w - 1e-6 * d)[0]) / 2e-6
            assert numeric == pytest.approx(gradient @ d, abs=1e-5)


@pytest.mark.parametrize("name", SMOOTHED)
def test_casimir(name):
    """The smoothed way leads to the same optimum, with a certificate."""
    model, X, y, _ = EVERY[name]
    solver = Casimir(500, 0.01, smoothing="l2", k=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier = SSVMClassifier(model, alpha=ALPHA, solver=solver, random_state=0)
        classifier.fit(X, y)
    best = fit(model, X, y).objective_
    assert classifier.objective_ - best <= classifier.dual_gap_ + 1e-6
    # a loss by segments is larger, and so is what smoothing adds
    assert classifier.objective_ <= (1.05 if name in SEGMENTS else 1.03) * best


class Interpreted:
    """Binds a compiled model as if it were written in Python."""

    def _bind(self, examples):
        return BoundPython(self, *self.given, examples[2])


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in EVERY if EVERY[n][0].bounds() is None])
@pytest.mark.parametrize(
    "solver",
    [
        BCFW.as_published(
            step="away", cache=True, cached_passes=2, tol=1e-3, max_iter=5000
        ),
        BCFW.as_published(sampling="uniform", averaging=False, check_every=1, tol=0.05),
        SSG(2000, 0.05),
    ],
    ids=["away", "fw", "ssg"],
)
def test_compiled_and_interpreted_agree(name, solver):
    """The same optimum, whether a model is compiled or called through Python.

    With steps that no rounding can turn also the same weights.
    """
    model, X, y, _ = EVERY[name]
    cls = type(model)
    python = type(cls.__name__, (Interpreted, cls), {"__init__": cls.__init__})
    python.given = X, list(y)
    one = fit(model, X, y, solver=solver)
    other = fit(python(**model.get_params()), X, y, solver=solver)
    w = other.weights_
    _, features, losses = prepared(name)
    risk = np.mean(
        [(b + (a - a[0]) @ w).max() for a, b in zip(features, losses, strict=True)]
    )
    assert other.objective_ == pytest.approx(ALPHA / 2 * w @ w + risk, rel=1e-9)
    gap = max(one.dual_gap_, other.dual_gap_)
    assert abs(one.objective_ - other.objective_) <= gap + 1e-9
    if isinstance(solver, BCFW) and solver.step == "fw":
        assert one.n_iter_ == other.n_iter_
        np.testing.assert_allclose(one.weights_, w, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.filterwarnings("ignore:all predicted matchings are empty")
def test_estimator(name):
    """Weights of examples, threads, top K, scores, pickles."""
    import pickle

    model, X, y, _ = EVERY[name]
    classifier = fit(model, X, y)
    predicted, scores = classifier.predict(X), classifier.decision_function(X)
    loss = classifier.model_._loss_at
    losses = [loss(*each) for each in zip(X, y, predicted, strict=True)]
    if name != "multiclass":
        assert classifier.score(X, y) == pytest.approx(1 - np.mean(losses))
        for x, output, score in zip(X, predicted, scores, strict=True):
            if name in TYPED:
                best = classifier.model_.decode(x, classifier.weights_)
                np.testing.assert_array_equal(best[0], output)
                output = best
            phi = classifier.model_.joint_feature(x, output)
            assert score == pytest.approx(phi @ classifier.weights_, abs=1e-9)
    again = fit(model, X, y, n_jobs=2)
    np.testing.assert_array_equal(again.weights_, classifier.weights_)
    copy = pickle.loads(pickle.dumps(classifier))
    assert repr(list(copy.predict(X))) == repr(list(predicted))
    # an example twice counts double, one of weight zero not at all
    if name == "multiclass":
        return
    double = fit(model, [*X, X[0]], [*y, y[0]], tol=1e-8)
    weight = np.ones(len(X) + 1)
    weight[0], weight[-1] = 2, 0
    weighted = fit(model, [*X, X[1]], [*y, y[1]], weight, tol=1e-8)
    np.testing.assert_allclose(double.weights_, weighted.weights_, atol=1e-3)
    if "parts" in name:
        np.testing.assert_allclose(double.model_.offsets_, weighted.model_.offsets_)


@pytest.mark.parametrize("name", EVERY)
def test_topk(name):
    """The k best outputs are those of an enumeration."""
    model, X, y, _ = EVERY[name]
    classifier = fit(model, X, y, alpha=0.05, tol=0.01)
    w = classifier.weights_ + 1e-3 * np.random.RandomState(0).uniform(
        size=len(classifier.weights_)
    )
    classifier.weights_ = w
    outputs, scores = classifier.predict_topk(X, 4)
    for x, found, values in zip(X, outputs, scores, strict=True):
        every = {}
        for z in classifier.model_.labelings(x):
            value = classifier.model_.joint_feature(x, z) @ w
            # positions with their best types
            key = repr(z[0] if name in TYPED else z)
            every[key] = max(every.get(key, -np.inf), value)
        every = sorted(every.values())[::-1]
        assert len({repr(z) for z in found}) == len(found) == min(4, len(every))
        np.testing.assert_allclose(values, every[: len(values)], atol=1e-9)
        if name in TYPED:
            pairs = classifier.model_.decode_topk(x, w, 4)
            assert [repr(z) for z, _ in pairs] == [repr(z) for z in found]
            found = pairs
        for z, value in zip(found, values, strict=True):
            phi = classifier.model_.joint_feature(x, z)
            assert phi @ w == pytest.approx(value, abs=1e-9)


def test_balanced_costs_and_weights():
    """Labels are counted with the weights of their graphs."""
    _, X, y, _ = PROBLEMS["full tree, edge features: True"]
    model = GraphModel(class_weight="balanced")
    repeated = fit(model, [*X, X[0], X[0]], [*y, y[0], y[0]])
    weighted = fit(model, X, y, [3.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(repeated.model_.costs_, weighted.model_.costs_)
    labels, counts = np.unique(np.concatenate([*y, y[0], y[0]]), return_counts=True)
    np.testing.assert_allclose(
        weighted.model_.costs_, counts.sum() / (len(labels) * counts)
    )
    # labels of graphs without weight are not learned
    alone = fit(model, X, y, [0.0, 1.0, 1.0, 1.0])
    assert set(alone.classes_) == set(np.concatenate(y[1:]))


def test_sparse_features_and_shared_tables():
    """CSR in place of arrays; a constant edge feature in place of none."""
    from scipy import sparse

    model, X, y, _ = PROBLEMS["full tree, edge features: True"]
    dense = fit(model, X, y)
    given = [(sparse.coo_array(n), e, sparse.csr_matrix(f)) for n, e, f in X]
    given[0] = X[0]
    csr = fit(model, given, y)
    np.testing.assert_allclose(csr.weights_, dense.weights_, atol=1e-6)
    assert csr.predict(given)[1].tolist() == dense.predict(X)[1].tolist()
    without = [(n, e) for n, e, _ in X]
    ones = [(n, e, np.ones((len(e), 1))) for n, e, _ in X]
    # sums in another order, up to the tolerance of both
    first, second = (fit(model, given, y, tol=1e-8) for given in (without, ones))
    np.testing.assert_allclose(first.edge_coef_, second.edge_coef_, atol=1e-6)


def test_mean_number_of_links_counts_examples_by_weight():
    X, y = [np.ones((1, 2, 1)), np.ones((5, 5, 1))], [[1], [4, 3, 2, 1, 0]]
    classifier = SSVMClassifier("matching", max_iter=50, tol=1.0)
    classifier.fit(X, y, sample_weight=[1.0, 3.0])
    assert classifier.model_.mean_size_ == pytest.approx(4.0)


def test_matching_links():
    """Observed links that are free cost nothing; a largest matching is the target."""
    links = np.array([[1, 1, 0], [1, 0, -1]])
    model = MatchingModel(false_cost=1.0, miss_cost=3.0)
    assert model.loss(links, [1, 0]) == 0
    assert model.loss(links, [1, -1]) == 1.5
    assert model.loss(links, [1, 2]) == 1.5
    assert model.loss(links, [2, -1]) == 3.5
    X = [np.random.RandomState(0).normal(size=(2, 3, 4))]
    classifier = fit(model, X, [links], alpha=0.01)
    assert classifier.predict(X)[0].tolist() == [1, 0]
    check_model(model, X, [links], enumerate_outputs=True, random_state=0)


def test_matchings_by_distance():
    """The bias is what a pair gains over staying unmatched, at any scale."""
    rng = np.random.RandomState(0)
    X, y = [], []
    for _ in range(30):
        # two rows near different columns, and one far from all
        left, right = rng.uniform(0, 9, size=(3, 2)), rng.uniform(0, 9, size=(4, 2))
        columns = rng.permutation(4)[:2]
        left[:2] = right[columns] + 0.1 * rng.normal(size=(2, 2))
        left[2] += 20
        X.append(-np.abs(left[:, None] - right))
        y.append([*columns, -1])
    for scale in (0.1, 10.0):
        inputs = [scale * x for x in X]
        classifier = SSVMClassifier("matching", tol=0.02, random_state=0)
        assert classifier.fit(inputs, y).score(inputs, y) > 0.95
    without = SSVMClassifier(MatchingModel(fit_intercept=False), tol=0.02).fit(X, y)
    with pytest.warns(UserWarning, match="all predicted matchings are empty") as caught:
        assert without.score(X, y) == pytest.approx(0.5)
    assert caught[0].filename == __file__
    without.predict(X[:1])  # one input may have no links, without a warning
    assert without.intercept_.tolist() == [0.0]


def test_boxes():
    model = CandidatesModel("iou")
    assert model.loss((0, 0, 2, 2), (0, 0, 2, 2)) == 0
    assert model.loss((0, 0, 2, 2), (0, 1, 2, 3)) == pytest.approx(1 - 2 / 6)
    assert model.loss(((0, 0, 2, 2), "a"), ((0, 0, 2, 2), "b")) == 1
    # an observed box that is no candidate stands for the one that overlaps most
    x = (np.eye(2), np.array([[0.0, 0, 2, 2], [5, 5, 9, 9]]))
    classifier = fit(model, [x], [(5, 5, 8, 9)], alpha=0.1)
    assert classifier.predict([x]) == [(5.0, 5.0, 9.0, 9.0)]
    assert classifier.score([x], [(5, 5, 8, 9)]) == pytest.approx(0.75)


def test_parts_learn_displacements():
    X = [np.zeros((6, 6, 2)) for _ in range(3)]
    y = [[[1, 1], [3, 2]], [[0, 2], [2, 3]], [[2, 0], [5, 1]]]
    for x, (a, b) in zip(X, y, strict=True):
        x[(*a, 0)] = x[(*b, 1)] = 1.0
    model = PartsModel([(0, 1)], unit=2.0)
    classifier = fit(model, X, y, alpha=0.01)
    np.testing.assert_allclose(classifier.model_.offsets_, [[7 / 3, 1.0]])
    assert classifier.score(X, y) == 1.0
    assert (classifier.quadratic_ >= 0).all()


def test_bounds_of_the_user_and_the_model():
    """A solver's bounds are met with those the oracle needs."""
    model, X, y, _ = PROBLEMS["cut, edge features: True"]
    solver = BCFW.as_published(
        step="pairwise", bounds={"edge_coef": (-1.0, 0.05)}, tol=0.02
    )
    classifier = fit(model, X, y, alpha=0.1, solver=solver)
    assert (classifier.edge_coef_ >= 0).all()
    assert (classifier.edge_coef_ <= 0.05).all()
    free = fit(model, X, y, alpha=0.1, solver=clone(solver).set_params(bounds=None))
    assert free.edge_coef_.max() > 0.05
    solver = BCFW(bounds={"edge_coef": (-2.0, -1.0)})
    with pytest.raises(ValueError, match="bounds leave no weights"):
        fit(model, X, y, solver=solver)
    with pytest.raises(ValueError, match="no block 'edges'"):
        fit(model, X, y, solver=BCFW(bounds={"edges": (0, 1)}))


NODES = np.ones((2, 1))
BAD = {
    "must be a tuple": (GraphModel(), [NODES], [[0, 1]]),
    "joins two different": (GraphModel(), [(NODES, [(0, 2)])], [[0, 1]]),
    "closes a cycle": (
        GraphModel(inference="tree"),
        [(np.ones((3, 1)), [(0, 1), (1, 2), (2, 0)])],
        [[0, 1, 0]],
    ),
    r"X\[0\] has a cycle: minimum cuts need two labels.*pass GraphModel\('potts'\)": (
        GraphModel(),
        [(np.ones((3, 1)), [(0, 1), (1, 2), (2, 0)])],
        [[0, 1, 0]],
    ),
    "negative edge feature": (
        GraphModel("potts", inference="cut"),
        [(NODES, [(0, 1)], [[-1.0]])],
        [[0, 1]],
    ),
    "1 rows of edge|2 rows of edge": (
        GraphModel(),
        [(NODES, [(0, 1)], np.ones((2, 1)))],
        [[0, 1]],
    ),
    r"\[1, 2\] node features": (
        GraphModel(),
        [(NODES, []), (np.ones((1, 2)), [])],
        [[0, 1], [0]],
    ),
    "edge features": (
        GraphModel(),
        [(NODES, [(0, 1)]), (NODES, [(0, 1)], [[1.0]])],
        [[0, 1], [0, 1]],
    ),
    r"y\[0\]": (GraphModel(), [(NODES, [])], [[0]]),
    "1 label": (GraphModel(), [(NODES, [])], [[0, 0]]),
    "needs pairwise='potts'": (GraphModel(inference="cut"), [(NODES, [])], [[0, 1]]),
    "NaN": (GraphModel(), [(np.full((2, 1), np.nan), [])], [[0, 1]]),
    r"class_weight\[0\] must be finite .*, got -1\.0": (
        GraphModel(class_weight={0: -1.0}),
        [(NODES, [])],
        [[0, 1]],
    ),
    r"X\[0\] must be 3-D, got 2-D: .* \(n_rows, .*pass \[x\]": (
        MatchingModel(),
        [NODES],
        [[0, 1]],
    ),
    "a different column": (MatchingModel(), [np.ones((2, 2, 1))], [[0, 0]]),
    "entries 1, 0 and -1": (
        MatchingModel(),
        [np.ones((2, 2, 1))],
        [[[0, 3], [1, 0]]],
    ),
    "needs a column for each": (
        MatchingModel(complete=True),
        [np.ones((2, 1, 1))],
        [[0, -1]],
    ),
    "link every row": (MatchingModel(complete=True), [np.ones((1, 2, 1))], [[-1]]),
    "one of 2 candidates": (CandidatesModel(), [NODES], [2]),
    "has no label": (CandidatesModel(), [NODES, NODES], [(0, "a"), 1]),
    "tuple .features, boxes.": (CandidatesModel("iou"), [NODES], [0]),
    "bottom and right must be beyond": (
        CandidatesModel("iou"),
        [(NODES, np.array([[0, 0, 0, 1], [0, 0, 1, 1]]))],
        [(0, 0, 1, 1)],
    ),
    "outside the image": (PartsModel(), [np.ones((2, 2, 1))], [[[0, 2]]]),
    r"two parts of .* at different positions, got both at": (
        PartsModel(unit=(0, 1)),
        [np.ones((2, 2, 1))],
        [[[0, 1], [0, 1]]],
    ),
    r"shape \(1, 2\)": (
        PartsModel(),
        [np.ones((2, 2, 1))] * 2,
        [[[0, 1]], [[0, 1], [1, 1]]],
    ),
    "each of the 1 examples of X, got 2": (CandidatesModel(), [NODES], [0, 1]),
    "X has no examples": (CandidatesModel(), [], []),
    "must be a list": (CandidatesModel(), 3, [0]),
    "costs has shape": (MulticlassModel([[0, 1], [1, 0]]), np.eye(3), [0, 1, 2]),
    "zero on the diagonal": (MulticlassModel([[0, 1], [1, 2]]), np.eye(2), [0, 1]),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message):
    model, X, y = BAD[message]
    with pytest.raises((ValueError, TypeError), match=message):
        SSVMClassifier(model).fit(X, y)


def test_prediction_checks_its_input():
    model, X, y, _ = PROBLEMS["full tree, edge features: True"]
    classifier = fit(model, X, y)
    with pytest.raises(ValueError, match=r"X\[0\]: node_features has 3 features, 2"):
        classifier.predict([(np.ones((2, 3)), [(0, 1)], np.ones((1, 2)))])
    with pytest.raises(ValueError, match="must have 2 edge features, got none"):
        classifier.predict([(np.ones((2, 2)), [(0, 1)])])
    with pytest.raises(ValueError, match=r"X\[0\].*closes a cycle"):
        edges = [(0, 1), (1, 0)]
        classifier.predict([(np.ones((2, 2)), edges, np.ones((2, 2)))])
