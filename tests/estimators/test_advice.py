"""Warnings of runs that did not converge say who it was, and what will help here."""

import inspect
import pickle
import re
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from sksstruct import (
    ChainCRF,
    LinearSSVC,
    MultilabelPairwise,
    SegmentCRF,
    SSVMClassifier,
    SSVMPathCV,
    ssvm_path,
)
from sksstruct.estimators._advice import columns, near_optimum
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.models import GraphModel, RelaxedGraphModel
from sksstruct.solvers.core.result import SolverResult
from sksstruct.utils._mixed import MixedRows

SCALE = "vary .* scale the columns"
OFFSET = "means of columns .* subtract them"
ALPHA = "far below the default"
LONG = "few long sequences.* solver='continuation', cut them .* loss='log'"
NODES = "sums over the nodes.* RelaxedGraphModel.normalize=True"
REST = "so the model is trained: tol="
CASES = SCALE, OFFSET, ALPHA, LONG, NODES, REST


def warning_of(fit):
    """The one ConvergenceWarning of a fit."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fit()
    (text,) = [str(w.message) for w in seen if w.category is ConvergenceWarning]
    return text


def check(text, *expected):
    """A warning has the sentences of these cases, and of no other."""
    found = [case for case in CASES if re.search(case, text)]
    assert sorted(found) == sorted(expected), text


@pytest.fixture(scope="module")
def rows():
    """Rows of unit scale, and one of two classes for each."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((120, 6))
    return X, (X[:, 0] + 0.7 * rng.standard_normal(120) > 0).astype(int)


def in_sequences(X, y, size):
    """Rows cut into sequences of the same length."""
    cuts = range(size, len(y), size)
    return np.split(X, cuts), [[f"t{k}" for k in row] for row in np.split(y, cuts)]


ESTIMATORS = [
    ChainCRF(0.01, max_iter=1, random_state=0),
    ChainCRF(0.01, loss="log", max_iter=1, random_state=0),
    SegmentCRF(0.01, max_iter=1, random_state=0),
    SSVMClassifier(alpha=0.01, max_iter=1, random_state=0),
    SSVMClassifier(alpha=0.01, loss="log", max_iter=1, random_state=0),
    SSVMClassifier(alpha=0.01, solver="cutting_plane", max_iter=1, random_state=0),
    LinearSSVC(0.01, max_iter=1, random_state=0),
    LinearSSVC(0.01, solver="bcfw", max_iter=1, random_state=0),
    MultilabelPairwise(0.01, max_iter=1, pairs=[], target="subset", random_state=0),
    MultilabelPairwise(
        0.01, loss="structured_hinge", max_iter=1, pairs=[], random_state=0
    ),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_columns(rows, estimator):
    """Every estimator names itself, its solver and the column in other units."""
    X, y = rows

    def text(X):
        labels = y
        if isinstance(estimator, MultilabelPairwise):
            labels = np.column_stack([y, X[:, 1] > 0, X[:, 2] > 1]).astype(int)
        elif isinstance(estimator, ChainCRF | SegmentCRF):
            X, labels = in_sequences(X, y, 6)
        found = warning_of(lambda: estimator.fit(X, labels))
        solver = type(estimator.solver_).__name__
        assert f"({type(estimator).__name__}, {solver}): the duality gap" in found
        assert len(re.findall(r"[.](?= |$)", found)) <= 4
        return found

    check(text(X))
    assert "column 4 vary" in text(X * [1, 1, 1, 1, 300, 1])
    check(text(X * [1, 1, 1, 1, 300, 1]), SCALE)
    # numbers that are large together are in the same units
    assert not re.search(SCALE, text(300 * X))


def test_columns_with_names(rows):
    pandas = pytest.importorskip("pandas")
    X, y = rows
    X = pandas.DataFrame(X * [1, 1, 1, 1, 300, 1], columns=list("abcdef"))
    classifier = SSVMClassifier(max_iter=1, random_state=0)
    assert "column 'e' vary" in warning_of(lambda: classifier.fit(X, y))
    dicts = [
        [{"price": value, f"n{k % 7}": 1.0} for k, value in enumerate(row)]
        for row in in_sequences(300 * rows[0][:, 0], y, 6)[0]
    ]
    X = SequenceVectorizer().fit_transform(dicts)
    labels = in_sequences(rows[0], y, 6)[1]
    tagger = ChainCRF(0.01, max_iter=1, random_state=0)
    assert "column 'price' vary" in warning_of(lambda: tagger.fit(X, labels))


def test_sizes_of_columns():
    """Frequencies of indicators are no units, and all forms of rows tell the same."""
    rng = np.random.RandomState(0)
    shares = np.geomspace(0.3, 0.005, 40)
    X = (rng.random_sample((2000, 40)) < shares).astype(np.float64)
    assert columns(sparse.csr_array(X)) == columns(X) == ""
    X[:, 30] *= 200
    found = columns(sparse.csr_array(X))
    assert "column 30 vary" in found
    assert "MaxAbsScaler()" in found
    assert "column 30 vary" in columns(X)
    assert "StandardScaler()" in columns(X)
    parts = sparse.csr_array(X[:, :35]), X[:, 35:] * 1e6
    parts[0].resize((2000, 40))
    assert "column 3" in columns(MixedRows(*parts, np.arange(35, 40)))
    assert columns(MaxAbsScaler().fit_transform(sparse.csr_array(X))) == ""
    # of two columns, the larger one; one column is in its own units
    assert "column 1 vary" in columns(rng.standard_normal((50, 2)) * [1, 100])
    assert columns(1e5 * rng.standard_normal((50, 1))) == ""
    # nothing to say of what has no rows of features
    assert columns(None) == columns(np.zeros((0, 3))) == columns(np.zeros((3, 0))) == ""


def test_offset(rows):
    X, y = rows

    def text(X):
        return warning_of(lambda: LinearSSVC(0.01, max_iter=1).fit(X, y))

    check(text(X + 2))
    check(text(X + 50), OFFSET)
    check(text(StandardScaler().fit_transform(X + 50)))
    # beside a constant
    check(text(np.column_stack([X, np.full(len(X), 50.0)])), OFFSET)
    assert "for column 6" in text(np.column_stack([X, np.full(len(X), 50.0)]))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(
    "kind", [ChainCRF, SegmentCRF, SSVMClassifier, LinearSSVC], ids=repr
)
def test_alpha(rows, kind, scale):
    """A small alpha is named with the default, whatever the units of all columns."""
    X, y = scale * rows[0], rows[1]
    if kind in (ChainCRF, SegmentCRF):
        X, y = in_sequences(X, y, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        default = kind(alpha="auto", max_iter=1).fit(X, y).alpha_

    def text(alpha):
        estimator = kind(alpha=alpha, max_iter=1, tol=1e-9, random_state=0)
        return warning_of(lambda: estimator.fit(X, y))

    check(text(default / 1000), ALPHA)
    assert f"the default for these data, {default:.3g}:" in text(default / 1000)
    check(text(default / 50))
    check(text("auto"))


def test_long_sequences(rows):
    rng = np.random.RandomState(0)
    y = rng.randint(6, size=1200)
    X = np.eye(40)[(5 * y + rng.randint(9, size=1200)) % 40]

    def text(size, estimator):
        return warning_of(lambda: estimator.fit(*in_sequences(X, y, size)))

    for kind in ChainCRF, SegmentCRF:
        long = text(200, kind(solver="bcfw", max_iter=2, random_state=0))
        check(long, LONG)
        assert "6 of 200 positions" in long
        # the default has another solver for them
        check(text(200, kind(max_iter=2, random_state=0)))
        check(text(10, kind(max_iter=2, random_state=0)))
    check(text(200, ChainCRF(loss="log", max_iter=1, tol=1e-9)))
    # the two that are most specific, where more apply
    tagger = ChainCRF(1e-9, solver="bcfw", max_iter=2, random_state=0)
    check(text(200, tagger), LONG, ALPHA)


def test_graphs(rows):
    rng = np.random.RandomState(0)

    def text(size, model):
        edges = np.array([[k, (k + 1) % size] for k in range(size)])
        X = [(rng.standard_normal((size, 3)), edges) for _ in range(6)]
        y = [x[0].argmax(axis=1) for x in X]
        classifier = SSVMClassifier(model, alpha=0.01, max_iter=1, random_state=0)
        return warning_of(lambda: classifier.fit(X, y))

    check(text(20, RelaxedGraphModel(normalize=False)), NODES)
    check(text(4, RelaxedGraphModel(normalize=False)))
    check(text(20, RelaxedGraphModel(normalize=True)))


def test_near_the_optimum(rows):
    X, y = rows
    classifier = SSVMClassifier(alpha=1e-3, tol=1e-6, max_iter=60, random_state=0)
    found = warning_of(lambda: classifier.fit(X, y))
    check(found, REST)
    tol = float(re.search(r"tol=([^ ]+) would do", found)[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier.set_params(tol=tol).fit(X, y)
    classifier.set_params(tol=1e-6, max_iter=2)
    check(warning_of(lambda: classifier.fit(X, y)))


@pytest.mark.parametrize(
    ("gap", "primal", "sentence"),
    [
        (0.1, [2.0, 1.0001, 1.0], "has not fallen in the last half of the passes"),
        (0.007, [2.0, 1.1, 1.0], "is within 1 % of its minimum"),
        (0.1, [2.0, 1.1, 1.0], ""),
        (0.9, [2.0, 1.0001, 1.0], ""),
        (np.inf, [2.0, 1.0001, 1.0], ""),
    ],
    ids=["at rest", "near", "falls", "far from the dual", "no gap"],
)
def test_histories(gap, primal, sentence):
    history = {"pass": np.array([1, 20, 60]), "primal": np.array(primal)}
    result = SolverResult(np.zeros(1), 1.0, gap, 0.0, 60, "max_iter", history, 1e-3)
    found = near_optimum(result, 2e-3)
    assert sentence in found
    assert bool(sentence) == bool(found)
    if sentence:
        assert f"tol={'0.2' if gap == 0.1 else '0.02'} would do" in found


@pytest.mark.slow
def test_time_limit(rows):
    """A run that had no time says so; one that came near the optimum says nothing."""
    X, y = rows[0] * [1, 1, 1, 1, 300, 1], rows[1]
    classifier = SSVMClassifier(
        alpha=0.01, max_iter=10**9, tol=0.0, max_seconds=1e-9, random_state=0
    )
    text = warning_of(lambda: classifier.fit(X, y))
    assert "ended by max_seconds after 1 pass" in text
    check(text, SCALE)
    text = warning_of(lambda: classifier.fit(rows[0], y))
    assert text.endswith("Increase max_seconds.")
    classifier.set_params(max_seconds=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier.fit(rows[0][:20], y[:20])
    assert classifier.n_iter_ > 1
    assert classifier.dual_gap_ > 0.0


def test_paths(rows):
    X, y = rows[0] * [1, 1, 1, 1, 300, 1], rows[1]
    classifier = SSVMClassifier(alpha=0.01, max_iter=2, random_state=0)
    for method in "exact", "grid":
        text = warning_of(lambda m=method: ssvm_path(classifier, X, y, method=m))
        assert "did not converge at alpha" in text
        assert "(SSVMClassifier)" in text
        check(text, SCALE)
    text = warning_of(lambda: ssvm_path(classifier, rows[0], y, method="exact"))
    assert "or increase max_iter of the estimator" in text
    search = SSVMPathCV(classifier, alphas=[1.0, 0.1], method="grid", cv=2)
    with pytest.warns(ConvergenceWarning, match=SCALE) as seen:
        search.fit(X, y)
    # two folds, and all data
    assert len(seen) == 3
    for each in seen:
        check(str(each.message), SCALE)


def test_trials(rows):
    X, y = rows[0] * [1, 1, 1, 1, 300, 1], rows[1]
    Y = np.column_stack([y, 1 - y])
    classifier = MultilabelPairwise(0.01, max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning) as seen:
        classifier.fit(X, Y)
    (text,) = [str(w.message) for w in seen if "trial" in str(w.message)]
    assert "(MultilabelPairwise)" in text
    check(text, SCALE)


@pytest.mark.parametrize(
    ("cls", "name", "message"),
    [
        (LinearSSVC, "C", "LinearSSVC has no C: use alpha, which is 1 / "),
        (ChainCRF, "c2", "ChainCRF has no c2: sksstruct.crfsuite_parameters"),
        (SSVMClassifier, "inference_method", "inference is part of the model; LPMAP"),
        (GraphModel, "inference_method", "GraphModel has no .*: GraphModel is exact"),
        (RelaxedGraphModel, "n_states", "the data that are given to fit say so"),
        (MultilabelPairwise, "switch_to", "has no switch_to: inference is part"),
        (GraphModel, "pairwises", "unexpected keyword argument 'pairwises'"),
    ],
)
def test_parameters_of_other_packages(cls, name, message):
    """They are named, with what to use; other names are errors as always."""
    with pytest.raises(TypeError, match=message):
        cls(**{name: 1})
    assert name not in inspect.signature(cls).parameters
    # the signature is still that of the parameters, and objects can be copied
    names = set(inspect.signature(cls).parameters)
    assert names == set(cls._get_param_names()) and len(names) > 3
    assert repr(pickle.loads(pickle.dumps(clone(cls())))) == repr(cls())


def test_a_class_may_have_the_parameter_that_others_lack():
    class Mine(GraphModel):
        def __init__(self, n_states=2):
            super().__init__()
            self.n_states = n_states

    assert Mine(n_states=5).n_states == 5
