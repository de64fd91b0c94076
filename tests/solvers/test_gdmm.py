"""GDMM and Soft-BCFW: the optimum, the certificate and what the papers say of them."""

import warnings
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog, minimize
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF, MultilabelPairwise, SSVMClassifier
from sksstruct.estimators._train import prepare
from sksstruct.models.chain._factors import ChainFactors
from sksstruct.models.roles import factor_model
from sksstruct.solvers import GDMM, SoftBCFW
from sksstruct.solvers.dual_decomposition._away_state import AwayGDMMState
from sksstruct.solvers.dual_decomposition._feasible import expected_loss
from sksstruct.solvers.dual_decomposition._pair_step import solve_pair
from sksstruct.solvers.dual_decomposition._state import GDMMState
from sksstruct.utils.packed import PackedSequences

UPDATES = ["bcfw", "afw", "bgcd"]


structured = partial(
    MultilabelPairwise, loss="structured_hinge", interaction_scaling=1.0
)


def chains(seed=0, lengths=(3, 1, 4, 2, 3), n_labels=4):
    rng = np.random.RandomState(seed)
    X = [rng.standard_normal((t, 3)) for t in lengths]
    y = [rng.randint(n_labels, size=t) for t in lengths]
    y[0][: min(n_labels, lengths[0])] = np.arange(min(n_labels, lengths[0]))
    return X, y


def label_sets(seed=0, n=8, n_labels=3):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 3))
    scores = X @ rng.standard_normal((3, n_labels))
    return X, (scores + rng.standard_normal((n, n_labels)) > 0.5).astype(int)


def relaxed_margin(unary, pairs, pairwise):
    """The most that half-integral points score, by a linear program."""
    n, m = len(unary), len(pairs)
    rows = np.zeros((3 * m, n + m))
    limits = np.zeros(3 * m)
    for e, (j, k) in enumerate(pairs):
        rows[3 * e, [n + e, j]] = 1, -1
        rows[3 * e + 1, [n + e, k]] = 1, -1
        rows[3 * e + 2, [j, k, n + e]] = 1, 1, -1
        limits[3 * e + 2] = 1
    result = linprog(-np.append(unary, pairwise), rows, limits, bounds=(0, 1))
    return -result.fun


def written_out(classifier, X, Y, scaling=1.0):
    """The relaxed objective of a fitted classifier, written out."""
    pairs = classifier.label_pairs_
    v = classifier.interactions_[pairs[:, 0], pairs[:, 1]]
    weights = [classifier.coef_, classifier.intercept_, v / scaling]
    value = classifier.alpha / 2 * sum((w**2).sum() for w in weights)
    for x, y in zip(X, Y, strict=True):
        unary = classifier.coef_ @ x + classifier.intercept_
        y_true = unary @ y + v @ (y[pairs[:, 0]] * y[pairs[:, 1]])
        loss = np.where(y, -1.0, 1.0)
        best = relaxed_margin(unary + loss, pairs, v) + y.sum()
        value += (best - y_true) / len(X)
    return value


@pytest.fixture(scope="module")
def chain_optimum():
    X, y = chains()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        tagger = ChainCRF(0.1, tol=1e-8, max_iter=20000, random_state=0).fit(X, y)
    assert tagger.dual_gap_ < 1e-6
    return tagger.objective_


@pytest.fixture(scope="module")
def pairs_optimum():
    X, Y = label_sets()
    classifier = structured(
        0.05, solver="cutting_plane", inference="lp", tol=1e-7, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(X, Y)
    assert classifier.dual_gap_ < 1e-4 * classifier.objective_
    return classifier.objective_


@pytest.mark.parametrize("oracle", ["sublinear", "scan"])
@pytest.mark.parametrize("update", UPDATES)
def test_optimum_of_chains(update, oracle, chain_optimum):
    passes, tol = (40000, 1e-3) if update == "afw" else (5000, 1e-5)
    solver = GDMM(passes, tol / 4, update=update, oracle=oracle, check_every=50)
    X, y = chains()
    tagger = ChainCRF(0.1, solver=solver, random_state=0).fit(X, y)
    assert tagger.objective_ == pytest.approx(chain_optimum, rel=1e-4 + tol)
    # weak duality
    assert tagger.objective_ >= chain_optimum * (1 - 1e-6)
    assert tagger.objective_ - tagger.dual_gap_ <= chain_optimum * (1 + 1e-6)
    assert (np.diff(tagger.history_["elements"]) > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("oracle", ["sublinear", "scan"])
@pytest.mark.parametrize("update", UPDATES)
def test_optimum_of_label_pairs(update, oracle, pairs_optimum):
    passes, tol = (20000, 3e-4) if update == "afw" else (5000, 1e-5)
    solver = GDMM(passes, tol / 10, update=update, oracle=oracle, check_every=50)
    X, Y = label_sets()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier = structured(0.05, solver=solver, random_state=0).fit(X, Y)
    assert classifier.objective_ == pytest.approx(pairs_optimum, rel=1e-4 + tol)
    assert classifier.objective_ - classifier.dual_gap_ <= pairs_optimum * (1 + 1e-6)
    assert written_out(classifier, X, Y) == pytest.approx(classifier.objective_)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_away_steps_converge_by_default(seed):
    """With whole steps of the multipliers they end 2 to 6 percent above the optimum."""
    rng = np.random.RandomState(seed)
    X, Y = label_sets(seed, n=[8, 25, 20, 60, 12][seed], n_labels=[3, 4, 6, 5, 5][seed])
    weight = rng.randint(4, size=len(X)) if seed % 2 else None
    fitted = []
    for solver in (GDMM(update="afw"), GDMM(tol=1e-5, max_iter=10_000)):
        classifier = structured(0.05, solver=solver, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            fitted.append(classifier.fit(X, Y, weight))
    away, best = fitted
    # the objective at w = 0 is that of every label being wrong
    assert away.dual_gap_ <= 3e-3 * Y.shape[1]
    assert away.objective_ <= best.objective_ + 3e-3 * Y.shape[1]
    assert away.objective_ - away.dual_gap_ <= best.objective_ * (1 + 1e-6)
    assert away.objective_ >= (best.objective_ - best.dual_gap_) * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_label_pairs_of_many_kinds(seed):
    """Lists that grow and shrink do not change the problem."""
    rng = np.random.RandomState(seed)
    X, Y = label_sets(seed, 25, 6)
    weight = rng.randint(3, size=25) if seed % 2 else None
    scaling = [0.5, 1.0, 2.0][seed % 3]
    data = sparse.csr_array(X) if seed > 2 else X
    common = {
        "alpha": 0.02,
        "interaction_scaling": scaling,
        "inference": "lp",
        "fit_intercept": seed != 4,
        "pairs": "cooccurring" if seed == 5 else "all",
        "random_state": seed,
    }
    parts = 2 if seed == 3 else "auto"
    solver = GDMM(8000, 1e-6, update="bgcd", partitions=parts, check_every=50)
    first = structured(solver=solver, **common).fit(data, Y, weight)
    second = structured(solver="bcfw", tol=3e-4, max_iter=9000, **common)
    second.fit(data, Y, weight)
    assert first.dual_gap_ <= 1e-5
    bound = second.objective_ - second.dual_gap_
    assert bound - 1e-6 <= first.objective_ <= second.objective_ + 1e-5
    if weight is None:
        expected = written_out(first, X, Y, scaling)
        assert first.objective_ == pytest.approx(expected)


def test_convergence_is_linear():
    """The gap falls by the same factor over and over, though none is proved."""
    X, y = chains()
    solver = GDMM(4000, 1e-8, check_every=10)
    history = ChainCRF(0.1, solver=solver, random_state=0).fit(X, y).history_
    gaps = history["primal"] - history["dual"]
    first = np.flatnonzero(gaps < 1e-3)[0]
    last = np.flatnonzero(gaps < 1e-7)[0]
    passes = history["pass"]
    middle = np.flatnonzero(gaps < 1e-5)[0]
    # two powers of ten take about as long as the next two
    assert passes[last] - passes[middle] < 3 * (passes[middle] - passes[first]) + 100


def lagrangians(update, n_passes, seed=0, lengths=(3, 1, 4, 2, 3), alpha=0.1, rho=0.7):
    """The augmented Lagrangian after each pass; multipliers stay at zero."""
    X, y = chains(seed, lengths, n_labels=3)
    packed = PackedSequences.from_lengths(np.vstack(X), lengths)
    model = ChainFactors(packed, 3, np.concatenate(y).astype(np.int32))
    state = (AwayGDMMState if update == "afw" else GDMMState)(model, alpha, rho)
    everything = -np.ones(model.n_variables)
    values = []
    for _ in range(n_passes):
        if update == "afw":
            state.away_step(everything, False)
        else:
            state.visit(np.arange(len(X)), everything, False, update == "bgcd")
        w = model.weights()
        # with multipliers zero the infeasibility is all there is beside the dual value
        penalty = squares(state, model)
        values.append(
            alpha / 2 * (w @ w) - expected_loss(state) + rho / 2 * penalty / len(X)
        )
    return np.array(values)


@pytest.mark.parametrize("update", UPDATES)
def test_the_augmented_lagrangian_falls(update):
    """Every visit minimizes over its block, multipliers fixed."""
    values = lagrangians(update, 12)
    assert (np.diff(values) <= 1e-12).all()
    assert values[-1] < values[0]


@pytest.mark.parametrize("update", ["afw", "bgcd"])
def test_a_pass_closes_a_share_of_the_distance(update):
    """Lemmas 5 and 6: the distance to the least Lagrangian falls geometrically."""
    values = lagrangians(update, 2000, 1, (2, 1, 2), alpha=1.0, rho=0.2)
    distance = values - values[-1]
    marks = [np.argmax(distance <= distance[0] * s) for s in (1e-3, 1e-5, 1e-7)]
    assert 0 < marks[0] < marks[1] < marks[2] < 1500
    # a hundred times as long at a rate of 1 / t, ten times as long at 1 / t^2
    assert marks[2] - marks[1] < 6 * (marks[1] - marks[0])


def squares(state, model):
    """sum |M q_f - q_v|^2, from the residual that an update without a step reports."""
    state.update(0.0)
    return state.residual_square


@pytest.mark.parametrize("seed", range(30))
def test_the_step_of_a_pair_is_the_minimum_of_its_block(seed):
    rng = np.random.RandomState(seed)
    score, curvature, rho = rng.normal(0, 2), rng.exponential(), rng.exponential()
    centers = rng.uniform(-0.5, 1.5, size=2)
    first, second = rng.uniform(size=2)
    both = rng.uniform(max(first + second - 1, 0), min(first, second))

    def block(x):
        change = x[2] - both
        quadratic = curvature / 2 * change**2 + rho * ((x[:2] - centers) ** 2).sum()
        return quadratic - score * change

    found, gain = solve_pair(score, curvature, *centers, rho, first, second, both)
    a, b, s = found
    assert min(s, a - s, b - s, 1 + s - a - b) >= -1e-12
    limits = ([1, 0, -1], 0), ([0, 1, -1], 0), ([-1, -1, 1], -1)
    constraints = [
        {"type": "ineq", "fun": lambda x, row=row, low=low: np.dot(row, x) - low}
        for row, low in limits
    ]
    expected = minimize(
        block, [first, second, both], bounds=[(0, 1)] * 3, constraints=constraints
    )
    assert block(np.array(found)) <= expected.fun + 1e-7
    # convexity: no more can be won than the gradient promises
    assert block(np.array([first, second, both])) - expected.fun <= gain + 1e-7


def test_sublinear_oracles_look_at_less():
    rng = np.random.RandomState(0)
    X = [rng.standard_normal((6, 5)) for _ in range(30)]
    y = [rng.randint(150, size=6) for _ in range(30)]
    looked = {}
    for oracle in ("sublinear", "scan"):
        solver = GDMM(10, 1e-9, oracle=oracle)
        with pytest.warns(ConvergenceWarning, match="duality gap"):
            tagger = ChainCRF(0.01, solver=solver, random_state=0).fit(X, y)
        looked[oracle] = tagger.history_["elements"][-1]
    n_labels = len(tagger.classes_)
    assert looked["scan"] >= 10 * 30 * 5 * n_labels**2
    assert looked["sublinear"] < looked["scan"] / 30


@pytest.mark.slow
def test_soft_bcfw_comes_closer_with_rho(chain_optimum):
    X, y = chains()
    gaps = []
    for rho in (1.0, 10.0, 100.0):
        solver = SoftBCFW(20000, 1e-5, rho=rho, check_every=100)
        tagger = ChainCRF(0.1, solver=solver, random_state=0)
        with pytest.warns(ConvergenceWarning, match="increase rho"):
            tagger.fit(X, y)
        gaps.append(tagger.objective_ - chain_optimum)
    assert gaps[0] > 3 * gaps[1] > 9 * gaps[2] > 0
    X, Y = label_sets()
    classifier = structured(0.05, solver="soft_bcfw", random_state=0)
    classifier.fit(X, Y)
    # it did get somewhere: at w = 0 the objective is the number of labels
    assert classifier.objective_ < 0.5 * Y.shape[1]


def test_parameters():
    X, y = chains()
    with pytest.raises(ValueError, match="'update' parameter of GDMM"):
        ChainCRF(solver=GDMM(update="all")).fit(X, y)
    with pytest.raises(ValueError, match="'rho' parameter of GDMM"):
        ChainCRF(solver=GDMM(rho=0.0)).fit(X, y)
    with pytest.raises(ValueError, match="needs the oracle factors"):
        SSVMClassifier(solver="gdmm").fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    with pytest.raises(ValueError, match="needs the oracle factors") as error:
        unknown = [[None, *y[0][1:]], *y[1:]]
        ChainCRF(solver="gdmm", transition_features=[0]).fit(X, unknown)
    assert "without transition_features" in error.value.__notes__[0]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_repeatable(n_jobs):
    X, y = chains()
    first = ChainCRF(0.1, solver=GDMM(7, 0.0), random_state=3, n_jobs=n_jobs)
    second = ChainCRF(0.1, solver=GDMM(7, 0.0), random_state=3)
    with pytest.warns(ConvergenceWarning):
        first.fit(X, y)
    with pytest.warns(ConvergenceWarning):
        second.fit(X, y)
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert (first.transitions_ != second.transitions_).nnz == 0


@pytest.mark.parametrize(
    ("n_labels", "asked", "parts"),
    [(10, 2, 2), (16, 2, 2), (10, 5, 2), (17, 3, 3), (4, 9, 1)],
)
def test_parts_hold_all_labels(n_labels, asked, parts):
    """Also where the last part is not full."""
    X, y = [np.zeros((n_labels, 1))], [np.arange(n_labels)]
    factors = factor_model(prepare(ChainCRF(alpha=0.1), X, y).model)
    assert factors.set_partition(asked) == parts
    assert factors.width * parts >= n_labels


@pytest.mark.filterwarnings("ignore:training did not converge")
@pytest.mark.parametrize("rho", [0.001, 0.01])
def test_labels_whose_weight_an_away_step_took_lack_nothing(rho):
    # rounding errors of them are negative, and were more changes than there is room for
    digits = load_digits()
    rng = np.random.RandomState(0)
    words = rng.randint(len(digits.data), size=(20, 6))
    X, y = digits.data[words] / 16, digits.target[words]
    solver = GDMM(200, 1e-7, update="afw", rho=rho, check_every=10)
    tagger = ChainCRF(
        0.1, loss_normalization="sequence", solver=solver, random_state=0
    ).fit(list(X), list(y))
    other = clone(tagger).set_params(solver="auto", tol=1e-3).fit(list(X), list(y))
    # the bound of the one is below the objective of the other
    assert tagger.objective_ - tagger.dual_gap_ <= other.objective_
    assert other.objective_ - other.dual_gap_ <= tagger.objective_
