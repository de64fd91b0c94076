"""States: versions, mistakes, and what is written."""

import pickle
import warnings

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning

from sksstruct import (
    ChainCRF,
    FactorGraph,
    LinearSSVC,
    LPMAPPredictor,
    MultilabelPairwise,
    SSVMClassifier,
    SSVMPathCV,
    make_tagger,
)
from sksstruct.factor_graphs import Potts
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.models import GraphModel
from sksstruct.solvers import BCFW
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.version import __version__

X = [[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.5], [0.0, 0.25]]]
Y = [["a", "b"], ["b", "a"]]
ROWS, CLASSES = np.concatenate(X), np.concatenate(Y)


def factor_graph():
    return FactorGraph(
        [[0.0, 1.0], [0.5, 0.0, -np.inf], [0.0, 0.0]],
        [(0, 2)],
        Potts(2),
        edge_weights=[2.0],
        factors=[((0, 1, 2), np.arange(12.0).reshape(2, 3, 2))],
        evidence={2: 1},
        offset=0.25,
    )


SETS = np.array([[1, 0], [0, 1], [1, 1], [0, 1]])
GRAPHS = [(np.array(x), [[0, 1]]) for x in X]
PACKED = PackedSequences(sparse.csr_array(ROWS), [0, 2, 4], ["u", "v"])
WORDS = [[{"w": "a"}, {"w": "b", "n": 2.0}]]
ESTIMATORS = {
    "chain": (ChainCRF(random_state=0), X, Y),
    "likelihood": (ChainCRF(loss="log", solver="sdca", random_state=0), X, Y),
    "sparse": (ChainCRF(random_state=0), PACKED, Y),
    "classes": (SSVMClassifier("multiclass", random_state=0), ROWS, CLASSES),
    "graph": (SSVMClassifier(GraphModel(), random_state=0), GRAPHS, Y),
    "binary": (LinearSSVC(random_state=0), ROWS, CLASSES),
    "sets": (MultilabelPairwise(random_state=0), ROWS, SETS),
    "path": (SSVMPathCV(LinearSSVC(), cv=2), ROWS, CLASSES),
}


def objects():
    """What travels, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (estimator, data, target) in ESTIMATORS.items():
            yield name, clone(estimator).fit(data, target)
    yield "vectorizer", SequenceVectorizer().fit(WORDS)
    yield "rows", PACKED
    yield "factor graph", factor_graph()
    yield "predictor", LPMAPPredictor("trws", random_state=0)


def answer(name, obj):
    """What an object says, as text."""
    if name == "vectorizer":
        obj = obj.transform(WORDS)
    if name in ("vectorizer", "rows"):
        return repr(obj.values.toarray().tolist())
    if name == "factor graph":
        return repr([obj.score([x, y, 1]) for x in (0, 1) for y in (0, 1)])
    data = [factor_graph()] if name == "predictor" else ESTIMATORS[name][1]
    return repr([np.asarray(row).tolist() for row in obj.predict(data)])


def test_round_trip():
    for name, obj in objects():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            twin = pickle.loads(pickle.dumps(obj))
        assert answer(name, twin) == answer(name, obj), name


@pytest.mark.parametrize("make", [ChainCRF, factor_graph, SequenceVectorizer])
def test_other_versions_warn(make):
    obj = make()
    state = obj.__getstate__()
    assert state["_sksstruct_version"] == __version__
    for version in ({"_sksstruct_version": "9.9"}, {}):
        other = {k: v for k, v in state.items() if k != "_sksstruct_version"} | version
        new = object.__new__(type(obj))
        with pytest.warns(
            InconsistentVersionWarning, match=r"from version (9.9|before)"
        ):
            new.__setstate__(other)
    with pytest.raises(ValueError, match="not the state of a"):
        object.__new__(type(obj)).__setstate__([1])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"edges": np.array([[0, 9]])}, r"edges\[0\] is \(0, 9\)"),
        ({"edge_tables": np.array([3])}, r"an index into tables, got 3"),
        ({"unaries": np.zeros(3)}, "must have sum.n_states. unaries"),
        ({"unaries": np.full(7, np.nan)}, "NaN"),
        ({"factor_scopes": ()}, "as many factor_tables as"),
        ({"evidence": np.array([0, 0, 7])}, "evidence"),
        ({"tables": (Potts(2), Potts(3))}, "shape"),
        ({"offset": np.inf}, "offset"),
    ],
)
def test_changed_graphs_are_refused(change, text):
    state = factor_graph().__getstate__()
    with pytest.raises(ValueError, match=text):
        object.__new__(FactorGraph).__setstate__({**state, **change})
    del state["edges"]
    with pytest.raises(ValueError, match="lacks edges"):
        object.__new__(FactorGraph).__setstate__(state)


def test_graphs_stay_immutable():
    with pytest.raises(AttributeError, match="immutable"):
        factor_graph().__setstate__(factor_graph().__getstate__())


def test_changed_rows_are_refused():
    state = PackedSequences(sparse.csr_array(ROWS), [0, 2, 4]).__getstate__()
    state["values"].indices[0] = 10**8
    with pytest.raises(ValueError, match="column index 100000000"):
        object.__new__(PackedSequences).__setstate__(state)


def test_changed_weights_are_refused():
    tagger = ChainCRF().fit(X, Y)
    for name in ("coef_", "intercept_", "start_", "transitions_"):
        twin = pickle.loads(pickle.dumps(tagger))
        setattr(twin, name, getattr(twin, name)[:1])
        with pytest.raises(ValueError, match=f"{name} has shape"):
            twin.predict(X)
    tagger.sparsify().coef_.indices[0] = 10**8
    with pytest.raises(ValueError, match="coef_ has the row index 100000000"):
        tagger.predict(X)


@pytest.mark.parametrize(
    ("parameters", "entry", "value", "message"),
    [
        ({}, "keys", 2**30, "a labeling of example 0"),
        ({}, "keys", -1, "a labeling of example 0"),
        ({}, "counts", 2**40, r"counts\[0\] must be from 1 to"),
        ({}, "values", np.nan, r"values\[0\] must be from"),
        ({}, "values", 0.7, "sum of the values of example"),
        ({"forbidden_transitions": [("a", "a")]}, "keys", 0, "a labeling of example"),
        ({"solver": BCFW.as_published()}, "keys", 2**30, "a key of example 0"),
        ({"solver": BCFW.as_published()}, "keys", 7, "a key of example 0"),
        ({"loss": "log", "solver": "sdca"}, "entropy_dual losses", np.inf, "finite"),
        ({"loss": "log", "solver": "lbfgs"}, "weights", np.nan, "a finite number"),
        ({"solver": "gdmm"}, "factors arrays places", 9, r"places\[0, 0\] must be"),
        ({"solver": "gdmm"}, "factors arrays labels", 1, "labels that differ"),
        ({"solver": "gdmm"}, "factors arrays counts", 2**30, r"counts\[0\] must be"),
    ],
)
def test_changed_duals_are_refused(parameters, entry, value, message):
    """No number of a warm state becomes an index, or a size, that nobody looked at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tagger = ChainCRF(random_state=0, warm_start=True, max_iter=3, **parameters)
        twin = pickle.loads(pickle.dumps(tagger.fit(X, Y)))
        # as it is it can be continued
        assert pickle.loads(pickle.dumps(twin)).fit(X, Y).objective_ > 0.0
        *path, last = entry.split()
        state = twin._warm[1]
        for name in path:
            state = state[name]
        state[last][...] = value
        with pytest.raises(ValueError, match=message):
            twin.fit(X, Y)


def test_shared_distributions_are_of_their_sizes():
    tagger = ChainCRF(loss="log", solver="sdca", random_state=0, warm_start=True)
    state = tagger.fit(X, Y)._warm[1]["entropy_dual"]
    natural, begun = state["natural"], state["begun"]
    for name, other, message in (
        ("natural", natural[:-1], "natural must be float32 of shape"),
        ("natural", natural.astype(float), "natural must be float32 of shape"),
        ("natural", np.full_like(natural, np.nan), r"natural\[0\] must be from"),
        ("natural", np.full_like(natural, np.inf), r"natural\[0\] must be from"),
        ("natural", None, "natural must be an array"),
        ("begun", begun.astype(np.uint8), "begun must be bool of shape"),
    ):
        before, state[name] = state[name], other
        with pytest.raises(ValueError, match=message):
            tagger.fit(X, Y)
        state[name] = before
    tagger.fit(X, Y)


def test_skops_files_of_mapped_models(tmp_path):
    """skops cannot read arrays that joblib has mapped from a file."""
    sio = pytest.importorskip("skops.io")
    X = [[{"w": "he"}, {"w": "ran"}], [{"w": "she"}, {"w": "ran"}]]
    tagger = make_tagger(random_state=0).fit(X, [["P", "V"]] * 2)
    joblib.dump(tagger, tmp_path / "model")
    data = sio.dumps(joblib.load(tmp_path / "model", mmap_mode="r"))
    types = sio.get_untrusted_types(data=data)
    assert "numpy.memmap" not in types
    assert sio.loads(data, trusted=types).predict(X)[0].tolist() == ["P", "V"]
