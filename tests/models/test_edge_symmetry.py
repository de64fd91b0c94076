"""Symmetric and antisymmetric weights of edge features."""

import itertools
import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp

from sksstruct import SSVMClassifier
from sksstruct.models import GraphModel, RelaxedGraphModel, StructuredModel

ALPHA, K = 0.1, 3
SIGNS = [1, -1, 1]


def random_graphs(n_graphs=6, cycle=False, seed=0):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for n in 3 + np.arange(n_graphs) % 2:
        edges = [(i, i + 1) for i in range(n - 1)]
        if cycle:
            edges.append((n - 1, 0))
        X.append((rng.normal(size=(n, 2)), edges, rng.normal(size=(len(edges), 3))))
        y.append(rng.integers(0, K, n).tolist())
    return X, y


def tied_basis(signs, K):
    """Orthonormal tables of pairs of labels that have the symmetry of each feature."""
    rows = []
    for f, sign in enumerate(signs):
        for a, b in itertools.combinations_with_replacement(range(K), 2):
            table = np.zeros((len(signs), K, K))
            table[f, a, b] = 1.0
            table[f, b, a] += sign
            if table.any():
                rows.append(table.ravel() / np.linalg.norm(table))
    return np.array(rows)


class Tied(StructuredModel):
    """The same scores with fewer weights, by enumeration."""

    def _all(self, x):
        return list(itertools.product(range(K), repeat=len(x[0])))

    def joint_feature(self, x, y):
        nodes, edges, rows = x
        labels = np.eye(K)[list(y)]
        of_edges = np.zeros((len(SIGNS), K, K))
        for (u, v), row in zip(edges, rows, strict=True):
            of_edges[:, y[u], y[v]] += row
        basis = tied_basis(SIGNS, K)
        return np.concatenate([(labels.T @ nodes).ravel(), basis @ of_edges.ravel()])

    def loss(self, y, y_hat):
        return float(np.mean(np.array(y) != np.array(y_hat)))

    def decode(self, x, w):
        return max(self._all(x), key=lambda y: self.joint_feature(x, y) @ w)

    def loss_augmented_decode(self, x, y, w):
        def value(other):
            return self.joint_feature(x, other) @ w + self.loss(y, other)

        return max(self._all(x), key=value)


def check_ties(coef):
    for table, sign in zip(coef, SIGNS, strict=True):
        np.testing.assert_array_equal(table, sign * table.T)


@pytest.mark.parametrize("model", [GraphModel, RelaxedGraphModel])
def test_hinge_equals_that_of_fewer_weights(model):
    X, y = random_graphs()
    weight = np.arange(1.0, 7.0)
    tied = SSVMClassifier(
        model(edge_symmetry=SIGNS, fit_intercept=False),
        alpha=ALPHA,
        tol=1e-4,
        max_iter=5000,
        random_state=0,
    ).fit(X, y, weight)
    other = SSVMClassifier(
        Tied(), alpha=ALPHA, tol=1e-4, max_iter=5000, random_state=0
    ).fit(X, [tuple(each) for each in y], weight)
    check_ties(tied.edge_coef_)
    gaps = tied.dual_gap_ + other.dual_gap_
    assert gaps < 1e-3
    assert abs(tied.objective_ - other.objective_) <= gaps
    # the objective of the tied weights by enumeration: within the certificate
    flat = np.concatenate(
        [tied.coef_.ravel(), tied_basis(SIGNS, K) @ tied.edge_coef_.ravel()]
    )
    value = ALPHA / 2 * flat @ flat
    for x, labels, share in zip(X, y, weight / weight.sum(), strict=True):
        worst = other.model_.loss_augmented_decode(x, labels, flat)
        change = other.model_.joint_feature(x, worst)
        change = change - other.model_.joint_feature(x, labels)
        value += share * (other.model_.loss(labels, worst) + change @ flat)
    assert tied.objective_ - tied.dual_gap_ <= value + 1e-12
    assert value <= tied.objective_ + 1e-12


def test_likelihood_equals_that_of_fewer_weights():
    X, y = random_graphs()
    tied = SSVMClassifier(
        GraphModel(edge_symmetry=SIGNS, fit_intercept=False),
        loss="log",
        alpha=ALPHA,
        tol=1e-8,
        max_iter=2000,
    ).fit(X, y)
    check_ties(tied.edge_coef_)
    reference = Tied()
    features = [
        np.array([reference.joint_feature(x, other) for other in reference._all(x)])
        for x in X
    ]
    observed = [reference.joint_feature(*each) for each in zip(X, y, strict=True)]

    def value(w):
        losses = [
            logsumexp(rows @ w) - row @ w
            for rows, row in zip(features, observed, strict=True)
        ]
        return ALPHA / 2 * w @ w + np.mean(losses)

    best = minimize(value, np.zeros(len(observed[0])), tol=1e-12)
    assert tied.objective_ == pytest.approx(best.fun, abs=1e-5)
    basis = tied_basis(SIGNS, K)
    found = best.x[K * 2 :] @ basis
    assert tied.edge_coef_.ravel() == pytest.approx(found, abs=1e-3)


def test_graphs_with_cycles_and_cliques():
    X, y = random_graphs(cycle=True)
    X = [(*x, None, None, [[[0, 1, 2]]]) for x in X]
    classifier = SSVMClassifier(
        RelaxedGraphModel(edge_symmetry=SIGNS), alpha=ALPHA, random_state=0
    ).fit(X, y)
    check_ties(classifier.edge_coef_)
    assert classifier.clique_coef_[0].shape == (K, K, K)


def test_direction_of_edges_does_not_matter():
    X, y = random_graphs(12)
    X = [(nodes, edges) for nodes, edges, _ in X]
    classifier = SSVMClassifier(
        GraphModel(edge_symmetry="symmetric"), alpha=0.01, random_state=0
    ).fit(X, y)
    table = classifier.edge_coef_[0]
    np.testing.assert_array_equal(table, table.T)
    turned = [(nodes, np.array(edges)[:, ::-1]) for nodes, edges in X]
    for a, b in zip(classifier.predict(X), classifier.predict(turned), strict=True):
        np.testing.assert_array_equal(a, b)
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.edge_coef_, classifier.edge_coef_)


def test_column_given_twice_has_no_ties():
    X, y = random_graphs()
    options = {"alpha": ALPHA, "tol": 1e-6, "max_iter": 5000, "random_state": 0}
    free = SSVMClassifier(GraphModel(), **options).fit(X, y)
    twice = [(*x[:2], np.hstack([x[2], x[2]])) for x in X]
    model = GraphModel(edge_symmetry=[1, 1, 1, -1, -1, -1])
    both = SSVMClassifier(model, **options).fit(twice, y)
    assert abs(both.objective_ - free.objective_) <= both.dual_gap_ + free.dual_gap_
    coef = both.edge_coef_[:3] + both.edge_coef_[3:]
    assert coef == pytest.approx(free.edge_coef_, abs=5e-3)


def test_sparse_features_are_alike():
    X, y = random_graphs()
    as_sparse = [(*x[:2], sparse.csr_array(x[2])) for x in X]
    found = [
        SSVMClassifier(
            GraphModel(edge_symmetry=SIGNS),
            alpha=ALPHA,
            tol=1e-6,
            max_iter=5000,
            random_state=0,
        ).fit(each, y)
        for each in (X, as_sparse)
    ]
    assert found[0].edge_coef_ == pytest.approx(found[1].edge_coef_, abs=5e-3)
    found[1].predict(as_sparse)


def test_data_in_parts():
    X, y = random_graphs()
    weight = np.arange(6.0)
    whole = GraphModel(edge_symmetry=SIGNS)
    examples = whole._read(X, y, weight, None)
    parts = [whole._part(X[a:b], y[a:b], weight[a:b]) for a, b in ((0, 3), (3, 6))]
    assert sum(len(part[0]) for part in parts) == len(examples[0])
    total = sum(part[2].sum() for part in parts)
    shares = np.sort(np.concatenate([part[2] for part in parts]) / total)
    assert shares == pytest.approx(np.sort(examples[2]))


def test_errors():
    X, y = random_graphs()

    def fit(model, X=X, y=y, **options):
        SSVMClassifier(model, **options).fit(X, y)

    for model in (GraphModel, RelaxedGraphModel):
        with pytest.raises(ValueError, match="needs pairwise='full'"):
            fit(model("potts", edge_symmetry="symmetric"))
        with pytest.raises(ValueError, match="1 or -1"):
            fit(model(edge_symmetry=[1, 0, 1]))
        with pytest.raises(ValueError, match=r"2 entries, but X\[0\] has 3"):
            fit(model(edge_symmetry=[1, 1]))
        with pytest.raises(ValueError, match=r"y\[0\] has a missing label"):
            fit(model(edge_symmetry=SIGNS), y=[[None, *y[0][1:]], *y[1:]])
        with pytest.raises(ValueError, match="no edge features, which -1 needs"):
            fit(model(edge_symmetry=[-1]), X=[x[:2] for x in X])
        with pytest.raises(ValueError, match="edge_symmetry"):
            fit(model(edge_symmetry="antisymmetric"))
    with pytest.raises(ValueError, match="convex"):
        GraphModel(edge_symmetry=SIGNS)._set_score(None)
