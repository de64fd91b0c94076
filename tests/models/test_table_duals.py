"""The duals of multiclass models and forests as one vector, and Pragam on them."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF, SSVMClassifier
from sksstruct.datasets import make_chain
from sksstruct.models import GraphModel, MulticlassModel
from sksstruct.models.roles import dual_space
from sksstruct.projections import project_simplex
from sksstruct.projections._probabilities import project_rows
from sksstruct.solvers import BCFW, CuttingPlane, Pragam


def multiclass(seed=0, costs=False, csr=False, **parameters):
    rng = np.random.RandomState(seed)
    X, y = rng.normal(size=(12, 3)), np.arange(12) % 3
    cost = np.array([[0, 1, 4], [1, 0, 1], [4, 2, 0.0]]) if costs else None
    return MulticlassModel(cost, **parameters), sparse.csr_array(X) if csr else X, y


def forests(seed=0, edge_features=False, csr=False, **parameters):
    """Trees, single nodes, forests of several trees, and edges in both directions."""
    rng = np.random.RandomState(seed)
    X, Y = [], []
    for n, share in [(1, 1), (2, 1), (5, 1), (6, 0.5), (3, 0), (7, 1)]:
        edges = [
            (v, rng.randint(v)) if rng.randint(2) else (rng.randint(v), v)
            for v in range(1, n)
            if rng.random_sample() < share
        ]
        edges = np.array(edges, dtype=int).reshape(-1, 2)
        nodes = rng.normal(size=(n, 3))
        x = (sparse.csr_array(nodes) if csr else nodes, edges)
        X.append((*x, rng.normal(size=(len(edges), 2))) if edge_features else x)
        Y.append(rng.randint(3, size=n))
    Y[-1][:3] = [0, 1, 2]
    return GraphModel(**parameters), X, Y


CASES = {
    "multiclass": lambda seed: multiclass(seed),
    "costs": lambda seed: multiclass(seed, costs=True, fit_intercept=False),
    "csr": lambda seed: multiclass(seed, csr=True),
    "trees": lambda seed: forests(seed, pairwise="full"),
    "trees csr": lambda seed: forests(seed, csr=True, class_weight="balanced"),
    "edges": lambda seed: forests(seed, edge_features=True, pairwise="full"),
    "potts": lambda seed: forests(seed, pairwise="potts", normalize=True),
    "potts edges": lambda seed: forests(seed, True, pairwise="potts"),
}


def space_of(case, seed=0, weighted=False):
    model, X, y = CASES[case](seed)
    weight = np.random.RandomState(seed).randint(1, 4, len(y)) if weighted else None
    classifier = SSVMClassifier(model, solver="pragam", max_iter=1)
    # what Pragam is given
    spaces = []

    class Watched(Pragam):
        def _solve(self, model, alpha, options):
            spaces.append(dual_space(model))
            return super()._solve(model, alpha, options)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.set_params(solver=Watched(2)).fit(X, y, sample_weight=weight)
    return spaces[0]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_dual_spaces(case, weighted):
    """D is concave with the gradient `slopes`; risk and D are dual to each other."""
    space = space_of(case, weighted=weighted)
    rng = np.random.RandomState(0)
    alpha = 0.3

    def dual(x):
        u = space.combine(x)
        return space.loss(x) - u @ u / (2 * alpha)

    np.testing.assert_allclose(space.combine(space.center), 0.0, atol=1e-15)
    assert space.loss(space.center) == 0.0
    x = space.project(space.center + 0.1 * rng.normal(size=space.center.shape))
    np.testing.assert_allclose(space.project(x), x, atol=1e-12)
    gradient = space.slopes(space.combine(x) / alpha)
    for _ in range(5):
        direction = rng.normal(size=x.shape)
        h = 1e-5
        slope = (dual(x + h * direction) - dual(x - h * direction)) / (2 * h)
        assert slope == pytest.approx(np.vdot(gradient, direction), rel=1e-6, abs=1e-9)
    for _ in range(5):
        other = space.project(rng.normal(size=x.shape))
        w = space.combine(other) / alpha
        slopes = space.slopes(w)
        risk = space.risk(w, slopes)
        assert risk + alpha / 2 * w @ w >= dual(x) - 1e-12
        # the linear part is largest at a vertex, which far points are projected to
        best = space.project(space.center + 1e6 * slopes)
        value = space.loss(best) - space.combine(best) @ w
        assert risk == pytest.approx(value, rel=1e-4, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_pragam_has_the_optimum(case):
    model, X, y = CASES[case](0)
    weight = np.random.RandomState(0).randint(1, 4, len(y))
    pragam, *others = (
        SSVMClassifier(model, alpha=0.2, solver=each, random_state=0).fit(X, y, weight)
        for each in (
            Pragam(20_000, 1e-5),
            BCFW(max_iter=20_000, tol=1e-3),
            CuttingPlane(2000, 1e-6),
        )
    )
    assert pragam.dual_gap_ <= 1e-4
    for other in others:
        # both bounds hold for both
        assert pragam.objective_ >= other.objective_ - other.dual_gap_ - 1e-9
        assert other.objective_ >= pragam.objective_ - pragam.dual_gap_ - 1e-9


@settings(max_examples=200)
@given(
    st.integers(1, 6),
    st.integers(1, 5),
    st.integers(0, 10**6),
    st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_rows_are_projected_one_by_one(n, k, seed, scale):
    rng = np.random.RandomState(seed)
    z = scale * np.round(rng.normal(size=(n, k)), 1)
    mass = rng.uniform(0.1, 2.0, size=n)
    out = np.empty_like(z)
    project_rows(z, mass, out)
    for row, part, found in zip(z, mass, out, strict=True):
        expected = part * project_simplex(row / part)
        np.testing.assert_array_equal(found, expected)


def test_graphs_with_cycles_have_no_projection():
    X = [(np.eye(3), np.array([(0, 1), (1, 2), (2, 0)]))]
    classifier = SSVMClassifier(GraphModel("potts"), solver="pragam")
    with pytest.raises(ValueError, match="projection"):
        classifier.fit(X, [[0, 1, 0]])


def test_pragam_says_where_the_dual_overflows():
    X = np.zeros((6, 2))
    X[2, 1] = 1e154
    y = np.array([1, 0, 0, 0, 0, 0])
    tagger = ChainCRF(1e-8, solver=Pragam(max_iter=1), random_state=0)
    for weight in ([1.0, 1.0], [1.0, 1e10]):
        with pytest.raises(ValueError, match="the dual overflows"):
            tagger.fit([X[:3], X[3:]], [y[:3], y[3:]], sample_weight=weight)


def test_pragam_minds_first_and_last_labels_that_are_forbidden():
    """Labels that features speak for, and that a sequence may not begin or end with."""
    data = make_chain(12, n_classes=3, n_features=4, random_state=0)
    y = [[*map(int, row)] for row in data.y]
    for row in y:
        row[0] = {1: 2}.get(row[0], row[0])
        row[-1] = {2: 0}.get(row[-1], row[-1])
    options = {"forbidden_transitions": [(None, 1), (2, None)], "max_iter": 2000}
    bcfw, pragam = (
        ChainCRF(1.0, solver=solver, tol=1e-3, random_state=0, **options)
        for solver in ("bcfw", "pragam")
    )
    bcfw.fit(data.X, y)
    pragam.fit(data.X, y)
    gaps = bcfw.dual_gap_ + pragam.dual_gap_
    assert 0.0 < gaps < 0.02 * bcfw.objective_
    assert abs(bcfw.objective_ - pragam.objective_) <= gaps
