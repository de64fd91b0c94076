"""States that were changed by somebody: no answer, or an error, but never a crash."""

import pickle
import warnings

import numpy as np
from scipy import sparse

from sksstruct import (
    ChainCRF,
    FactorGraph,
    LinearSSVC,
    LPMAPPredictor,
    MultilabelPairwise,
    SegmentCRF,
    SSVMClassifier,
    make_tagger,
)
from sksstruct.factor_graphs import Potts
from sksstruct.feature_extraction import GazetteerFeatures
from sksstruct.models import GraphModel
from sksstruct.utils.packed import PackedSequences
from tests.fuzz._draws import decoded


def _sequences():
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((length, 3)) for length in (4, 1, 3, 5)]
    return X, [rng.integers(0, 3, len(x)).tolist() for x in X]


def _graphs():
    X, y = _sequences()
    return [(x, [[i, i + 1] for i in range(len(x) - 1)]) for x in X], y


def _factor_graph():
    rng = np.random.default_rng(1)
    factors = [((0, 1, 2), rng.standard_normal((2, 3, 2)))]
    unaries = [rng.standard_normal(k) for k in (2, 3, 2, 2)]
    return FactorGraph(unaries, [(2, 3), (0, 3)], Potts(2), factors=factors)


def _calls(X, y, *names):
    """What is called of an estimator: its predictions, and one more fit."""

    def calls(fitted):
        for name in ("predict", *names):
            getattr(fitted, name)(X)
        if "warm_start" in fitted.get_params():
            fitted.set_params(warm_start=True).fit(X, y)

    return calls


def _chains(X, y):
    """Taggers, fitted, and what is called of each."""
    chains = ("predict_topk", "decision_function", "predict_marginals")
    down = [sorted(labels, reverse=True) for labels in y]
    return {
        "chain": (ChainCRF(max_iter=20).fit(X, y), _calls(X, y, *chains[:2])),
        "log": (
            ChainCRF(loss="log", max_iter=20).fit(X, y),
            _calls(X, y, *chains),
        ),
        "sdca": (
            ChainCRF(loss="log", solver="sdca", max_iter=20).fit(X, y),
            _calls(X, y, "predict_marginals"),
        ),
        "gdmm": (
            ChainCRF(solver="gdmm", max_iter=5).fit(X, y),
            _calls(X, y, "predict_topk"),
        ),
        "sparse": (ChainCRF(max_iter=20).fit(X, y).sparsify(), _calls(X, y)),
        "single": (ChainCRF(max_iter=20).fit(X, y).cast("float32"), _calls(X, y)),
        "forbidden": (
            ChainCRF(forbidden_transitions=[(0, 1)], max_iter=20).fit(X, down),
            _calls(X, down),
        ),
    }


def _arcs():
    """Inputs and heads of three short sentences."""
    rng = np.random.default_rng(3)
    X = [rng.standard_normal((n * (n + 1), 2)) for n in (1, 2, 3)]
    return X, [[0], [2, 0], [0, 1, 1]]


def _higher(X, y):
    """Taggers of second order and of segments, a parser, and what is called of each."""
    tags = [["O" if k == 2 else f"B-{k}" for k in labels] for labels in y]
    return {
        "second order": (
            ChainCRF(order=2, max_iter=20).fit(X, y),
            _calls(X, y, "predict_topk", "decision_function"),
        ),
        "second order log": (
            ChainCRF(order=2, loss="log", max_iter=20).fit(X, y),
            _calls(X, y, "predict_marginals"),
        ),
        "segments": (
            SegmentCRF(max_iter=20).fit(X, tags),
            _calls(X, tags, "predict_topk"),
        ),
        "segments log": (
            SegmentCRF(loss="log", max_iter=20).fit(X, tags),
            _calls(X, tags, "predict_proba"),
        ),
        "dependencies": (
            SSVMClassifier("dependencies", max_iter=20).fit(*_arcs()),
            _calls(*_arcs()),
        ),
        "dependencies log": (
            SSVMClassifier("dependencies", loss="log", max_iter=20).fit(*_arcs()),
            _calls(*_arcs(), "predict_proba"),
        ),
    }


def _fitted():
    """Pickles of objects, and what is called once they are loaded."""
    warnings.simplefilter("ignore")
    X, y = _sequences()
    rows, classes = np.concatenate(X), np.concatenate(y)
    sets = (np.random.default_rng(2).random((len(rows), 4)) < 0.5).astype(int)
    packed = PackedSequences(rows, np.cumsum([0, *map(len, X)]))
    sparse_packed = PackedSequences(sparse.csr_array(rows), packed.offsets)
    tagger = make_tagger(max_iter=20)
    words = [[{"w": "a"}, {"w": "b"}], [{"w": "b"}]]
    names = [["new", "york", "x"], ["york"]]
    mixed = PackedSequences.hstack([packed, sparse_packed])
    tags = [["O", "B-x"], ["B-x"]]
    cases = {
        **_chains(X, y),
        **_higher(X, y),
        "classes": (
            SSVMClassifier("multiclass", max_iter=20).fit(rows, classes),
            _calls(rows, classes),
        ),
        "binary": (
            LinearSSVC(max_iter=20).fit(rows, classes > 0),
            _calls(rows, classes > 0),
        ),
        "graph": (
            SSVMClassifier(GraphModel(), max_iter=20).fit(*_graphs()),
            _calls(*_graphs()),
        ),
        "sets": (
            MultilabelPairwise(max_iter=20).fit(rows, sets),
            _calls(rows, sets),
        ),
        "hinge sets": (
            MultilabelPairwise(pairs="all", loss="structured_hinge", max_iter=20).fit(
                rows, sets
            ),
            _calls(rows, sets),
        ),
        "tagger": (tagger.fit(words, tags), _calls(words, tags)),
        "factor graph": (
            _factor_graph(),
            lambda graph: LPMAPPredictor().predict([graph]),
        ),
        "gazetteers": (
            GazetteerFeatures({"p": ["new york", "york"]}).fit(names),
            lambda gazetteer: gazetteer.transform(names),
        ),
        "mixed rows": (
            mixed,
            lambda rows: ChainCRF(max_iter=2).fit(rows, y).predict(rows),
        ),
        "rows": (packed, lambda rows: ChainCRF(max_iter=2).fit(rows, y).predict(rows)),
        "sparse rows": (
            sparse_packed,
            lambda rows: ChainCRF(max_iter=2).fit(rows, y).predict(rows),
        ),
    }
    return {name: (pickle.dumps(obj), calls) for name, (obj, calls) in cases.items()}


FITTED = _fitted()


def _children(obj):
    """Parts of an object, as (container, key, part); containers can be written to."""
    if isinstance(obj, dict):
        return [(obj, key, obj[key]) for key in obj]
    if isinstance(obj, list):
        return [(obj, i, part) for i, part in enumerate(obj)]
    if hasattr(obj, "__dict__"):
        return [(obj.__dict__, key, part) for key, part in vars(obj).items()]
    return []


def places(obj):
    """All parts that can be replaced, in the order they are met."""
    found, seen, stack = [], set(), [obj]
    while stack:
        part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        for container, key, child in _children(part):
            found.append((container, key))
            stack.append(child)
    return found


def _wrong_array(array, how):
    if how == "shorter":
        return array[: len(array) // 2]
    if how == "longer":
        return np.concatenate([array, array, array])
    if how == "turned":
        return array.T[..., ::-1]
    if how == "flat":
        return array.reshape(-1)
    if how == "huge":
        return np.full_like(array, 2**31 - 1 if array.dtype.kind in "iu" else 1e300)
    if how == "negative":
        return np.full_like(array, -7)
    if how == "nan":
        return np.full(array.shape, np.nan)
    return array.astype(np.float32 if how == "single" else object)


HOW = ("shorter", "longer", "turned", "flat", "huge", "negative", "nan", "single",
       "objects", "none", "text", "empty", "number")  # fmt: skip


def wrong(value, how):
    """A part of a state, changed."""
    other = {"none": None, "text": "?", "empty": np.zeros(0), "number": -(10**9)}
    if how in other:
        return other[how]
    if sparse.issparse(value) and value.format == "csr":
        value = value.copy()
        name = ("data", "indices", "indptr")[HOW.index(how) % 3]
        setattr(value, name, _wrong_array(getattr(value, name), how))
        return value
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "iufb":
        return _wrong_array(value, how)
    if isinstance(value, (int, np.integer)):
        return {"huge": 2**40, "negative": -7}.get(how, value + 1)
    if isinstance(value, (list, tuple)):
        return type(value)(list(value) * 2) if how == "longer" else type(value)()
    return value


def _case(draws):
    changes = [
        (draws.integer(0, 10**4), draws.choice(HOW)) for _ in range(draws.integer(1, 2))
    ]
    return draws.choice(sorted(FITTED)), changes


cases = decoded(12, _case)


def check(case):
    """Change parts of a state, load it, and use it: any exception will do."""
    name, changes = case
    written, calls = FITTED[name]
    obj = pickle.loads(written)
    try:
        for number, how in changes:
            options = places(obj)
            container, key = options[number % len(options)]
            container[key] = wrong(container[key], how)
        loaded = pickle.loads(pickle.dumps(obj))
        calls(loaded)
    except Exception:
        return
