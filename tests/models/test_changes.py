"""Changes of mean parameters: their norms and inner products, for every layout."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from sksstruct import ChainCRF, SSVMClassifier
from sksstruct.estimators._train import prepare
from sksstruct.models import (
    CandidatesModel,
    DependencyModel,
    GraphModel,
    MatchingModel,
    MulticlassModel,
    SegmentModel,
)
from sksstruct.solvers import BCFW, SSG
from sksstruct.utils._mixed import MixedRows
from sksstruct.utils.packed import PackedSequences

# Of very different lengths, one after the other: what one example leaves in memory
# would be read by the next.
SIZES = [9, 2, 14, 1, 5, 20, 3, 7, 1, 11]


def sequences(n_labels=3, n_features=4):
    rng = np.random.RandomState(0)
    y = [rng.randint(n_labels, size=size) for size in SIZES]
    X = [rng.normal(size=(len(each), n_features)) for each in y]
    for x, labels in zip(X, y, strict=True):
        x[np.arange(len(x)), labels] += 1.0
    return X, y


def paths(X):
    starts = [np.arange(len(x) - 1) for x in X]
    return [
        (x, np.column_stack([start, start + 1]))
        for x, start in zip(X, starts, strict=True)
    ]


def spans(y):
    """Runs of equal labels, of at most three positions."""
    out = []
    for labels in y:
        cuts = [0]
        for t in range(1, len(labels) + 1):
            ends = t == len(labels) or labels[t] != labels[t - 1]
            if ends or t - cuts[-1] == 3:
                cuts.append(t)
        pairs = zip(cuts[:-1], cuts[1:], strict=True)
        out.append([(a, b, int(labels[a])) for a, b in pairs])
    return out


def arcs():
    rng = np.random.RandomState(1)
    X, y = [], []
    for size in SIZES:
        # each word hangs from the one before it
        heads = np.arange(size)
        x = rng.normal(size=((size + 1) * size, 3))
        x[heads * size + np.arange(size), 0] += 1.0
        X.append(x)
        y.append(heads)
    return X, y


def problem(name):
    X, y = sequences()
    if name == "paths":
        return GraphModel(), paths(X), y
    if name == "scaled paths":
        # the shared row of weights has another feature in each graph
        return GraphModel(normalize=True), paths(X), y
    if name == "potts":
        return GraphModel("potts"), paths(X), y
    if name == "edge features":
        graphs = [(x, e, np.ones((len(e), 2)) * [1.0, 0.5]) for x, e in paths(X)]
        return GraphModel(), graphs, y
    if name == "segments":
        return SegmentModel(), X, spans(y)
    if name == "classes":
        return MulticlassModel(), np.concatenate(X), np.concatenate(y)
    if name == "arcs":
        return DependencyModel(), *arcs()
    if name == "matchings":
        rng = np.random.RandomState(2)
        X = [rng.normal(size=(n, n + 1, 3)) for n in SIZES[:6]]
        links = [np.eye(n, n + 1, dtype=int) for n in SIZES[:6]]
        for x, link in zip(X, links, strict=True):
            x[..., 0] += 3.0 * link
        return MatchingModel(), X, links
    X = [x[:, :2] for x in X]
    return CandidatesModel(overlap="none"), X, [int(x[:, 0].argmax()) for x in X]


NAMES = [
    "paths", "scaled paths", "potts", "edge features", "segments", "classes", "arcs",
    "matchings", "candidates",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_steps_with_and_without_inner_products(name):
    """Steps by inner products of labelings, and by norms alone, find one optimum."""
    model, X, y = problem(name)
    ways = {}, {"step": "fw", "cache": False}, {"inner_steps": 1}
    fits = []
    for way in ways:
        solver = BCFW(tol=1e-3, max_iter=20_000, **way)
        classifier = SSVMClassifier(model, alpha=0.1, solver=solver, random_state=0)
        with warnings.catch_warnings():
            # steps along wrong norms never close the gap
            warnings.simplefilter("error")
            fits.append(classifier.fit(X, y))
    objectives = [each.objective_ for each in fits]
    gap = max(each.dual_gap_ for each in fits)
    assert max(objectives) - min(objectives) <= gap
    # gradients of a solver without a dual are formed in another way
    solver = SSG(max_iter=500, tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = SSVMClassifier(model, alpha=0.1, solver=solver, random_state=0)
        other.fit(X, y)
    assert other.objective_ >= min(objectives) - gap


@pytest.mark.parametrize("name", [*NAMES, "chain"])
def test_inner_products(name):
    """Products of labelings are those of what they change, example after example."""
    if name == "chain":
        estimator, (X, y) = ChainCRF(alpha=0.1), sequences()
    else:
        model, X, y = problem(name)
        estimator = SSVMClassifier(model, alpha=0.1)
    bound = prepare(estimator, X, y).model
    rng = np.random.RandomState(4)
    w = rng.normal(size=bound.n_weights)
    if bound.box() is not None:
        w = np.abs(w)
    workspace = bound.workspace(w)
    weights = bound.example_weights
    for i in [*range(bound.n_examples), 0]:
        labelings, _ = bound.topk(workspace, i, 4)
        labelings = np.ascontiguousarray(labelings)
        rows = []
        for y_hat in labelings:
            # all other examples have their observed labelings
            flat = np.array(bound.labels)
            flat[bound.starts[i] : bound.starts[i + 1]] = y_hat
            change = np.zeros(bound.n_weights)
            bound.add_difference(workspace, flat, 1.0 / weights[i], change)
            rows.append(change)
        expected = np.array(rows) @ np.array(rows).T
        bound.topk(workspace, i, 1)
        np.testing.assert_allclose(
            bound.gram(workspace, i, labelings), expected, atol=1e-9
        )


@pytest.mark.parametrize("loss", ["hinge", "log"])
@pytest.mark.parametrize("form", ["float32", "CSR float32", "mixed"])
def test_segments_of_rows_in_any_form(form, loss):
    """Rows in single precision, and dense columns beside sparse ones, stay as given."""
    X, y = sequences()
    rng = np.random.RandomState(3)
    dense = [x.astype(np.float32) for x in X]
    marks = [
        sparse.csr_array((rng.rand(len(x), 6) < 0.2).astype(np.float32)) for x in X
    ]
    if form == "float32":
        given = PackedSequences.from_lengths(np.concatenate(dense), SIZES)
        plain = given.values.astype(np.float64)
    elif form == "CSR float32":
        given = PackedSequences.from_lengths(
            sparse.csr_array(sparse.vstack(marks)), SIZES
        )
        plain = given.values.toarray().astype(np.float64)
    else:
        given = PackedSequences.hstack(
            [
                PackedSequences.from_lengths(
                    sparse.csr_array(sparse.vstack(marks)), SIZES
                ),
                PackedSequences.from_lengths(np.concatenate(dense), SIZES),
            ]
        )
        plain = given.values.tocsr().toarray().astype(np.float64)
    model = SegmentModel()
    problem = prepare(SSVMClassifier(model, loss=loss, alpha=0.1), given, spans(y))
    rows = problem.model.features[0]
    assert rows.dtype == np.float32
    assert isinstance(rows, MixedRows) == (form == "mixed")
    # the default of alpha follows the scale of the features
    for alpha in (0.1, "auto"):
        fits = [
            SSVMClassifier(model, loss=loss, alpha=alpha, random_state=0).fit(
                rows, spans(y)
            )
            for rows in (given, PackedSequences.from_lengths(plain, SIZES))
        ]
        np.testing.assert_allclose(fits[0].alpha_, fits[1].alpha_, rtol=1e-5)
        np.testing.assert_allclose(fits[0].objective_, fits[1].objective_, atol=3e-3)
    assert fits[0].predict(given) == fits[0].predict(
        PackedSequences.from_lengths(plain, SIZES)
    )
