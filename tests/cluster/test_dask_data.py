"""Data in parts, in any form: the bits of a local fit, or an error that says why."""

import pickle
import subprocess
import sys
import time

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from sksstruct import (
    ChainCRF,
    LPMAPPredictor,
    MultilabelPairwise,
    SSVMClassifier,
    SSVMPathCV,
)
from sksstruct.factor_graphs import FactorGraph
from sksstruct.feature_extraction import SequenceHasher, SequenceVectorizer
from sksstruct.solvers import BCFW, Partitioned
from sksstruct.solvers.partitioned.executors import Serial
from sksstruct.utils.packed import PackedSequences

distributed = pytest.importorskip("distributed")
# a cluster leaves sockets to the garbage collector when it ends
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

import dask  # noqa: E402
import dask.array as da  # noqa: E402
import dask.bag as db  # noqa: E402

from cluster.helpers import CUTS, OPTIONS, PARTS, B, N, in_parts, local, same_bits  # noqa: E402
from sksstruct.dask import (  # noqa: E402
    DaskChainCRF,
    DaskExecutor,
    DaskMultilabelPairwise,
    DaskSequenceVectorizer,
    DaskSSVMClassifier,
    Shards,
    apply,
)


@pytest.mark.slow
def test_data_in_any_form(client, data, tmp_path):
    expected = local(data)
    X, y = data
    for k, (a, b) in enumerate(PARTS):
        packed = PackedSequences(sparse.vstack(X[a:b]), cumulated(y[a:b]))
        packed.save(tmp_path / str(k), y[a:b])

    def load(k):
        return PackedSequences.open(tmp_path / str(k), labels=True)

    bags = [
        db.from_delayed([dask.delayed(values[a:b]) for a, b in PARTS])
        for values in (X, y)
    ]
    tagger = DaskChainCRF(client=client, **OPTIONS)
    for form in (bags, [Shards(load, B)], [client.compute(in_parts(data))]):
        same_bits(clone(tagger).fit(*form), expected)
    # parts that are empty or of weight zero are no blocks
    empty = dask.delayed(([], []))
    nothing = dask.delayed((X[:2], y[:2], [0.0, 0.0]))
    parts = [empty, *in_parts(data)[:3], nothing, *in_parts(data)[3:]]
    same_bits(tagger.fit(parts), expected)
    assert tagger.score(parts) == pytest.approx(expected.score(X, y))
    assert [row.tolist() for row in tagger.predict(bags[0]).compute()] == [
        row.tolist() for row in expected.predict(X)
    ]
    lazy = tagger.predict(Shards(load, B))
    assert lazy[1].compute()[0].tolist() == expected.predict(X[CUTS[1] :])[0].tolist()
    again = pickle.loads(pickle.dumps(tagger))
    assert again.client is None
    same_bits(again.to_local(), expected)
    assert type(tagger.to_local()) is ChainCRF


def cumulated(y):
    return np.concatenate([[0], np.cumsum([len(row) for row in y])])


@pytest.mark.slow
def test_weights_are_those_of_the_whole(client, data):
    X, y = data
    weight = np.random.default_rng(1).integers(0, 3, N).astype(float)
    options = {**OPTIONS, "class_weight": "balanced"}
    solver = Partitioned(blocks=1, tol=OPTIONS["tol"])
    expected = ChainCRF(**options, solver=solver).fit(X, y, weight)
    parts = [dask.delayed((X, y, weight))]
    tagger = DaskChainCRF(client=client, **options).fit(parts)
    # the mean length is added in another order: optima agree, and not bits
    assert tagger.objective_ == pytest.approx(expected.objective_, abs=0.02)
    assert tagger.n_seen_ == expected.n_seen_
    cut = [dask.delayed((X[a:b], y[a:b], weight[a:b])) for a, b in PARTS]
    tagger.fit(cut)
    assert tagger.objective_ == pytest.approx(expected.objective_, abs=0.02)
    assert tagger.score(cut) == pytest.approx(tagger.to_local().score(X, y, weight))
    # parts count by the positions whose labels are known
    y = [[label if i < N // 2 or t else None for t, label in enumerate(row)]
         for i, row in enumerate(y)]  # fmt: skip
    y[: CUTS[1] // 2] = [[None] * len(row) for row in y[: CUTS[1] // 2]]
    cut = [dask.delayed((X[a:b], y[a:b], weight[a:b])) for a, b in PARTS]
    assert tagger.score(cut) == pytest.approx(tagger.to_local().score(X, y, weight))


@pytest.mark.slow
def test_arrays(client):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = np.where(X[:, 0] > X[:, 1], "u", np.where(X[:, 2] > 0, "v", "w"))
    rows = da.from_array(X, chunks=(30, 4))
    labels = da.from_array(y, chunks=30)
    for loss, tol in (("hinge", 3e-3), ("log", 1e-2)):
        classifier = DaskSSVMClassifier(
            alpha="auto", loss=loss, tol=0.5, random_state=0, client=client
        )
        classifier.fit(rows, labels)
        solver = Partitioned(blocks=3, tol=0.5)
        expected = SSVMClassifier(
            alpha="auto", loss=loss, solver=solver, random_state=0
        ).fit(X, y)
        assert classifier.alpha_ == pytest.approx(expected.alpha_, rel=1e-12)
        # sums of parts have other last bits
        expected.set_params(alpha=0.1, solver__tol=tol).fit(X, y)
        classifier.set_params(alpha=0.1, tol=tol).fit(rows, labels)
        assert classifier.coef_.tobytes() == expected.coef_.tobytes()
    np.testing.assert_array_equal(
        classifier.predict(rows).compute(), expected.predict(X)
    )
    np.testing.assert_array_equal(
        classifier.predict_proba(rows).compute(), expected.predict_proba(X)
    )
    assert classifier.score(rows, labels) == pytest.approx(expected.score(X, y))
    with pytest.raises(ValueError, match="each chunk must contain whole rows"):
        classifier.fit(rows.rechunk((30, 2)), labels)


@pytest.mark.slow
def test_label_sets(client):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = (X @ rng.normal(size=(3, 4)) > 0).astype(int)
    Y[:, 3] = Y[:, 0]
    rows, labels = da.from_array(X, chunks=(20, 3)), da.from_array(Y, chunks=(20, 4))
    options = {"loss": "structured_hinge", "alpha": 0.05, "random_state": 0}
    classifier = DaskMultilabelPairwise(
        interaction_scaling=0.5, client=client, **options
    ).fit(rows, labels)
    solver = Partitioned(blocks=3, tol=classifier.tol)
    expected = MultilabelPairwise(interaction_scaling=0.5, solver=solver, **options)
    expected.fit(X, Y)
    for name in ("coef_", "intercept_", "interactions_"):
        assert getattr(classifier, name).tobytes() == getattr(expected, name).tobytes()
    found = classifier.predict(rows).compute()
    np.testing.assert_array_equal(found, expected.predict(X))
    assert classifier.score(rows, labels) == pytest.approx(expected.score(X, Y))
    for change in ({"loss": "log"}, {"interaction_scaling": "auto"}):
        with pytest.raises(ValueError, match=next(iter(change))):
            clone(classifier).set_params(**change).fit(rows, labels)


@pytest.mark.slow
def test_features_of_bags(client):
    sequences = [[[f"w{(3 * i + k) % 7}"] for k in range(3)] for i in range(20)]
    bag = db.from_sequence(sequences, npartitions=10)
    vectorizer = DaskSequenceVectorizer(min_count=8, client=client)
    rows = vectorizer.fit_transform(bag)
    expected = SequenceVectorizer(min_count=8).fit(sequences)
    assert vectorizer.vocabulary_ == expected.vocabulary_
    found = sparse.vstack(rows.compute())
    assert abs(found - expected.transform(sequences).values).max() == 0.0
    hashed = apply(SequenceHasher(n_features=32), bag, "transform")
    y = db.from_sequence([["a", "b", "a"]] * 20, npartitions=10)
    for X in (rows, hashed):
        tagger = DaskChainCRF(alpha=0.1, random_state=0, client=client).fit(X, y)
        assert tagger.score(X, y) == 1.0


def test_best_states_of_a_bag_of_graphs(client):
    graphs = [FactorGraph([[0.0, score], [0.5, 0.0]]) for score in (1.0, -1.0, 2.0)]
    labelings = apply(LPMAPPredictor(), db.from_sequence(graphs, npartitions=2))
    assert [y.tolist() for y in labelings.compute()] == [[1, 0], [0, 0], [1, 0]]


@pytest.mark.slow
def test_searches_on_the_cluster(client, data):
    X, y = data
    search = GridSearchCV(ChainCRF(random_state=0), {"alpha": [0.1, 0.01]}, cv=2)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3))
    path = SSVMPathCV(SSVMClassifier(random_state=0), alphas=[0.1, 0.05], cv=2)
    expected = clone(path)
    labels = (rows[:, 0] > 0).astype(int)
    with joblib.parallel_config("dask"):
        search.set_params(n_jobs=2).fit(X, y)
        path.set_params(n_jobs=2).fit(rows, labels)
    assert search.best_score_ > 0.4
    assert path.alpha_ == expected.fit(rows, labels).alpha_


@pytest.mark.parametrize(
    "parameters, change, message",
    [
        ({"solver": "lbfgs"}, None, "LBFGS needs a gradient"),
        (
            {"solver": Partitioned(blocks=3)},
            None,
            "blocks of Partitioned must be 'auto'",
        ),
        (
            {"solver": Partitioned(executor=Serial())},
            None,
            "executor of Partitioned must be None",
        ),
        ({"solver": BCFW(sampling="x")}, None, "sampling"),
        ({"warm_start": True}, None, "warm_start=True needs all dual"),
        ({"alpha": -1.0}, None, "alpha"),
        ({"solver": Partitioned(checkpoint=__file__)}, None, "expected a folder"),
        ({"l1_ratio": 0.5}, None, "l1_ratio > 0 needs"),
        ({}, lambda X, y: (X, y[1:]), "y has 11 sequences, but X has 12"),
        ({}, lambda X, y: ([x[:, :5] for x in X], y), "part 2 of X has 5 features, b"),
        ({}, lambda X, y: (X, [[*r[1:], None] for r in y]), "missing label"),
        (
            {"loss": "log"},
            lambda X, y: (X, [[*r[:-1], None] if len(r) > 1 else r for r in y]),
            "missing labels make loss='log' non-convex",
        ),
        ({}, lambda X, y: X, "a part must be a tuple"),
    ],
)
def test_errors(client, data, parameters, change, message):
    parts = in_parts(data)
    if change is not None:
        X, y = data
        a, b = PARTS[2]
        parts[2] = dask.delayed(change)(X[a:b], y[a:b])
    tagger = DaskChainCRF(client=client, **parameters)
    before = set(client.futures)
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        tagger.fit(parts)
    assert not hasattr(tagger, "coef_")
    # nothing stays on the workers while somebody has the error, as notebooks do
    for _ in range(100):
        if set(client.futures) <= before:
            break
        time.sleep(0.05)
    else:
        raise AssertionError(f"still there after {caught.value}: {client.futures}")


def test_forms_that_are_none(client, data):
    tagger = DaskChainCRF(client=client)
    with pytest.raises(TypeError, match=r"X is a list: pass a dask bag"):
        tagger.fit(*data)
    with pytest.raises(ValueError, match="y must be a dask bag or array"):
        tagger.fit(db.from_sequence(data[0]))
    with pytest.raises(ValueError, match="y must be None if X is Shards"):
        tagger.fit(Shards(print, 2), data[1])
    with pytest.raises(
        ValueError, match="y must have as many partitions as X, 3, got 2"
    ):
        tagger.fit(
            db.from_sequence(data[0], npartitions=3),
            db.from_sequence(data[1], npartitions=2),
        )
    with pytest.raises(ValueError, match="n_shards must be at least 1"):
        Shards(print, 0)
    with pytest.raises(TypeError, match=r"client must be a distributed\.Client"):
        DaskChainCRF(client="tcp://host").fit(in_parts(data))
    for method in (tagger.predict, tagger.score):
        with pytest.raises(NotFittedError, match="This DaskChainCRF"):
            method(in_parts(data))
    with pytest.raises(ValueError, match="X must be a 2-D dask array, got 1-D"):
        apply(SSVMClassifier(), da.zeros(3))
    with pytest.raises(TypeError, match="data in parts on the workers"):
        local(data, solver=Partitioned(executor=DaskExecutor(client)))


@pytest.mark.slow
def test_without_dask_it_says_what_to_install():
    code = (
        "import sys; sys.modules['dask'] = None; import sksstruct\n"
        "try: import sksstruct.dask\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert "pip install 'sksstruct[dask]'" in done.stdout
