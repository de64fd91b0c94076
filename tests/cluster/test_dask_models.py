"""What estimators can do on one machine, on a cluster."""

import numpy as np
import pytest
from scipy import sparse

from sksstruct import ChainCRF, MultilabelPairwise, SegmentCRF, SSVMClassifier
from sksstruct.losses import Hamming, Hinge
from sksstruct.models import (
    CandidatesModel,
    GraphModel,
    MatchingModel,
    PartsModel,
    SegmentModel,
    StructuredModel,
)
from sksstruct.solvers import Partitioned

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")

import dask.array as da  # noqa: E402
import dask.bag as db  # noqa: E402

from sksstruct.dask import (  # noqa: E402
    DaskChainCRF,
    DaskMultilabelPairwise,
    DaskSegmentCRF,
    DaskSSVMClassifier,
    Shards,
)

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

N, B = 30, 3
CUTS = [(N * k // B, N * (k + 1) // B) for k in range(B)]


def in_parts(X, y):
    return [dask.delayed((X[a:b], y[a:b]), traverse=False) for a, b in CUTS]


def sequences():
    rng = np.random.default_rng(0)
    words = [rng.integers(0, 6, rng.integers(1, 6)) for _ in range(N)]
    X = [sparse.csr_array(np.eye(6)[row]) for row in words]
    return X, [["abc"[w % 3] for w in row] for row in words]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"transition_features": [0, 2]},
        {"loss": "log", "all_possible_states": False, "transition_features": [1]},
        {"loss": "log", "all_possible_transitions": False, "boundary": False},
        {"loss": Hinge(cost="boundaries")},
        {"loss": Hinge(Hamming("balanced"))},
    ],
)
def test_weights_that_exist(client, options):
    X, y = sequences()
    # indicators, whose squares have exact sums in any parts
    options = {"tol": 3e-3, "random_state": 0, **options}
    tagger = DaskChainCRF(client=client, **options).fit(in_parts(X, y))
    expected = ChainCRF(solver=Partitioned(blocks=B), **options).fit(X, y)
    assert tagger.intercept_scaling_ == expected.intercept_scaling_ != 1.0
    for name in ("coef_", "intercept_", "start_", "transitions_"):
        assert getattr(tagger, name).tobytes() == getattr(expected, name).tobytes()
    if "transition_features" in options:
        found, wanted = tagger.transition_coef_, expected.transition_coef_
        assert (found != wanted).nnz == 0
        assert found.nnz == wanted.nnz > 0


def test_stopping_by_parts_set_aside(client):
    X, y = sequences()
    tagger = DaskChainCRF(
        early_stopping=True, n_iter_no_change=2, random_state=0, client=client
    )
    with_score = tagger.fit(in_parts(X, y))
    assert len(with_score.validation_scores_) == with_score.n_iter_
    assert with_score.n_seen_ < N
    last = with_score.validation_scores_[-1]
    # the score of the one part that was not trained on
    scores = [with_score.to_local().score(X[a:b], y[a:b]) for a, b in CUTS]
    assert last in [pytest.approx(score) for score in scores]
    with pytest.raises(ValueError, match="X must have at least 2, got 1"):
        tagger.fit(in_parts(X, y)[:1])
    # the empty part is trained on, or set aside
    parts, found = [in_parts(X, y)[0], dask.delayed(([], []), traverse=False)], set()
    for each in (parts, parts[::-1]):
        with pytest.raises(ValueError, match="has no examples") as caught:
            tagger.fit(each)
        found.add(str(caught.value).split()[0])
    assert found == {"X", "early_stopping:"}


@pytest.mark.slow
def test_probabilities_in_any_form(client):
    X, y = sequences()
    tagger = DaskChainCRF(loss="log", random_state=0, client=client)
    local = tagger.fit(in_parts(X, y)).to_local()
    expected = np.vstack(local.predict_proba(X))
    bag = db.from_sequence(X, npartitions=4)
    for lazy in (bag, in_parts(X, y), Shards(lambda k: X[slice(*CUTS[k])], B)):
        found = tagger.predict_proba(lazy)
        assert isinstance(found, list if lazy is not bag else db.Bag)
        parts = found.compute() if lazy is bag else dask.compute(*found)
        rows = np.vstack(parts if lazy is bag else [np.vstack(part) for part in parts])
        np.testing.assert_array_equal(rows, expected)
    tagger.set_params(loss="hinge").fit(bag, db.from_sequence(y, npartitions=4))
    with pytest.raises(AttributeError, match="predict_proba"):
        tagger.predict_proba(bag)
    samples = np.random.default_rng(0).normal(size=(N, 2))
    classes = (samples[:, 0] > 0).astype(int)
    shards = Shards(lambda k: (samples[slice(*CUTS[k])], classes[slice(*CUTS[k])]), B)
    classifier = DaskSSVMClassifier(loss="log", random_state=0, client=client)
    found = np.vstack(dask.compute(*classifier.fit(shards).predict_proba(shards)))
    np.testing.assert_array_equal(found, classifier.to_local().predict_proba(samples))
    assert classifier.score(shards) == classifier.to_local().score(samples, classes)


def test_names_of_tasks(client):
    X, y = sequences()
    DaskChainCRF(random_state=0, client=client).fit(in_parts(X, y))
    names = client.run_on_scheduler(
        lambda dask_scheduler: list(dask_scheduler.task_prefixes)
    )
    kinds = "facts", "merge-facts", "outline", "host", "build", "value"
    assert {f"sksstruct-{kind}" for kind in kinds} <= set(names)


@pytest.mark.slow
def test_classes_of_different_cost(client):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    y = np.where(X[:, 0] > 0.7, "rare", "often")
    weight = rng.integers(1, 4, N).astype(float)
    X = sparse.csr_array(np.where(abs(X) > 0.3, X, 0.0))
    rows = da.concatenate(
        [
            da.from_delayed(
                dask.delayed(X[a:b]), (b - a, 4), meta=sparse.csr_array((0, 4))
            )
            for a, b in CUTS
        ]
    )
    labels, weights = (da.from_array(v, chunks=N // B) for v in (y, weight))
    for class_weight in ("balanced", {"rare": 7.0}):
        options = {"alpha": 0.1, "random_state": 0, "class_weight": class_weight}
        solver = Partitioned(blocks=B)
        expected = SSVMClassifier(solver=solver, **options).fit(X, y, weight)
        classifier = DaskSSVMClassifier(client=client, **options)
        classifier.fit(rows, labels, weights)
        np.testing.assert_allclose(classifier.coef_, expected.coef_, atol=1e-10)
    score = classifier.score(rows, labels, weights)
    assert score == pytest.approx(expected.score(X, y, weight))
    assert (classifier.predict(rows).compute() == expected.predict(X)).all()


def graphs(rng):
    for i in range(N):
        n = int(rng.integers(2, 5))
        X = rng.normal(size=(n, 2)) + 0.5
        # the first part has no third label
        names = "ab" if i < N // B else "abc"
        y = [names[int(v > 0) + int(v > 1) * (len(names) == 3)] for v in X[:, 0]]
        yield (X, [(k, k + 1) for k in range(n - 1)]), y


def matchings(rng):
    for _ in range(N):
        n = int(rng.integers(1, 4))
        links = rng.permutation(n)
        X = rng.normal(size=(n, n, 2))
        X[np.arange(n), links, 0] += 1.0
        yield X, links.tolist()


def candidates(rng):
    for i in range(N):
        X = rng.normal(size=(3, 2))
        yield X, (int(X[:, 0].argmax()), "uvw"[i % 2 if i < N // B else i % 3])


def places(rng):
    for _ in range(N):
        X = rng.normal(size=(3, 4, 1))
        at = rng.integers(0, [3, 4])
        X[tuple(at)] += 2.0
        yield X, [tuple(at.tolist()), (int(at[0]), min(int(at[1]) + 1, 3))]


def segments(rng):
    for i in range(N):
        X = rng.normal(size=(6, 2))
        # the first part has no "v" and no segment of three positions
        stop, kind = (2, "u") if i < N // B else (int(rng.integers(2, 4)), "uv"[i % 2])
        X[:stop, int(kind == "v")] += 2.0
        yield X, [(0, stop, kind)]


def runs(rng):
    for X, [(_, stop, kind)] in segments(rng):
        yield X, [kind] * stop + ["w"] * (6 - stop)


def tags(rng):
    for X, [(_, stop, kind)] in segments(rng):
        yield (
            X,
            [f"B-{kind}", *[f"I-{kind}"] * (stop - 2), f"E-{kind}"]
            + ["O"] * (6 - stop),
        )


MODELS = {
    "segments": (SegmentModel(loss_unit="segment"), segments),
    "runs": (SegmentModel(length_features=2), runs),
    "runs of any length": (
        SegmentModel(max_length=None, length_features=2, boundary_lengths="own"),
        runs,
    ),
    "tags": (SegmentModel(), tags),
    "graph": (GraphModel(class_weight="balanced", loss_normalization="mean"), graphs),
    "matching": (MatchingModel(loss_normalization="mean"), matchings),
    "candidates": (CandidatesModel(), candidates),
    "parts": (PartsModel(), places),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_models_of_structured_outputs(client, name):
    model, make = MODELS[name]
    X, y = map(list, zip(*make(np.random.default_rng(0)), strict=True))
    options = {"alpha": 0.3, "random_state": 0}
    classifier = DaskSSVMClassifier(model, tol=0.02, client=client, **options)
    classifier.fit(in_parts(X, y))
    expected = SSVMClassifier(
        model, solver=Partitioned(blocks=B, tol=0.02), **options
    ).fit(X, y)
    for key, value in vars(expected.model_).items():
        found = getattr(classifier.model_, key)
        if key.endswith("_") and not key.startswith("_"):
            assert np.array_equal(found, value) or found == pytest.approx(value)
    # means are added in another order: optima agree, and not bits
    gap = classifier.dual_gap_ + expected.dual_gap_
    assert abs(classifier.objective_ - expected.objective_) <= gap
    local = classifier.to_local()
    assert classifier.score(in_parts(X, y)) == pytest.approx(local.score(X, y))
    assert local.score(X, y) == pytest.approx(expected.score(X, y), abs=0.2)
    lazy = classifier.predict(db.from_sequence(X, npartitions=2)).compute()
    for one, other in zip(lazy, local.predict(X), strict=True):
        assert np.array_equal(one, other)


def test_sets_of_labels(client):
    """Labels that only some parts have, one of which is right."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(5, 3)) for _ in range(N)]
    y = [np.array(list("bcd"))[x.argmax(axis=1)].tolist() for x in X]
    y = [[{k, "a"} if i > N // B else k for k in row] for i, row in enumerate(y)]
    options = {"loss": "log", "solver": "lbfgs", "alpha": 0.1, "tol": 1e-6}
    expected = ChainCRF(**options).fit(X, y)
    tagger = DaskChainCRF(client=client, **options).fit(in_parts(X, y))
    assert tagger.classes_.tolist() == list("abcd")
    np.testing.assert_allclose(tagger.coef_, expected.coef_, atol=1e-3)


def test_sets_of_tags(client):
    """Tags are missing, or in a set with one that only some parts have."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(5, 3)) for _ in range(N)]
    y = [[("O", "B-a", "B-b")[k] for k in x.argmax(axis=1)] for x in X]
    y = [[{k, "B-c"} if i > N // B else k for k in row] for i, row in enumerate(y)]
    y = [[*row[:4], None] for row in y]
    options = {"loss": "log", "solver": "lbfgs", "alpha": 0.1, "max_length": 1}
    expected = SegmentCRF(tol=1e-6, **options).fit(X, y)
    tagger = DaskSegmentCRF(client=client, tol=1e-6, **options).fit(in_parts(X, y))
    assert tagger.classes_.tolist() == list("abc")
    np.testing.assert_allclose(tagger.coef_, expected.coef_, atol=1e-3)


@pytest.mark.parametrize(
    "lengths",
    [{}, {"max_length": None, "length_features": 1, "boundary_lengths": "own"}],
)
def test_segments_are_tagged(client, lengths):
    X, y = map(list, zip(*segments(np.random.default_rng(0)), strict=True))
    options = {"alpha": 0.3, "random_state": 0, "loss": "log", "tol": 1e-3, **lengths}
    tagger = DaskSegmentCRF(client=client, **options).fit(in_parts(X, y))
    expected = SegmentCRF(solver=Partitioned(blocks=B, tol=1e-3), **options).fit(X, y)
    gap = tagger.dual_gap_ + expected.dual_gap_
    assert abs(tagger.objective_ - expected.objective_) <= gap
    local = tagger.to_local()
    assert tagger.score(in_parts(X, y)) == pytest.approx(local.score(X, y))
    found = tagger.predict_proba(db.from_sequence(X, npartitions=2)).compute()
    np.testing.assert_allclose(found, local.predict_proba(X))


class Sign(StructuredModel):
    """Whether a number is above a threshold, written in Python."""

    def joint_feature(self, x, y):
        return np.array([x, 1.0]) * y

    def loss(self, y, y_hat):
        return float(y != y_hat)

    def decode(self, x, w):
        return max((-1, 1), key=lambda y: w @ self.joint_feature(x, y))

    def loss_augmented_decode(self, x, y, w):
        return max(
            (-1, 1), key=lambda z: self.loss(y, z) + w @ self.joint_feature(x, z)
        )


class Learner(Sign):
    """Learns what depends on the part."""

    def prepare(self, X, Y):
        super().prepare(X, Y)
        self.largest_ = max(X)


@pytest.mark.slow
def test_models_in_python(client):
    X = np.random.default_rng(0).normal(size=N).tolist()
    y = [1 if x > 0.2 else -1 for x in X]
    options = {"alpha": 0.1, "random_state": 0}
    classifier = DaskSSVMClassifier(Sign(), client=client, **options)
    classifier.fit(in_parts(X, y))
    expected = SSVMClassifier(Sign(), solver=Partitioned(blocks=B), **options).fit(X, y)
    assert classifier.weights_.tobytes() == expected.weights_.tobytes()
    with pytest.raises(ValueError, match=r"largest_ is .* part 0 .* make it a pa"):
        DaskSSVMClassifier(Learner(), client=client).fit(in_parts(X, y))
    classifier.solver = Partitioned(checkpoint="nowhere")
    with pytest.raises(ValueError, match="Sign has outputs that are objects"):
        classifier.fit(in_parts(X, y))


def test_models_that_need_all_data(client):
    X, y = map(list, zip(*places(np.random.default_rng(0)), strict=True))
    for model in (PartsModel(n_types=2), "graph"):
        classifier = DaskSSVMClassifier(model, client=client)
        with pytest.raises((ValueError, TypeError)):
            classifier.fit(in_parts(X, y))
    with pytest.raises(ValueError, match="class_weight is for multiclass"):
        DaskSSVMClassifier(PartsModel(), class_weight="balanced", client=client).fit(
            in_parts(X, y)
        )


@pytest.mark.slow
@pytest.mark.parametrize("pairs", ["cooccurring", "significant"])
def test_pairs_by_counts_of_all_parts(client, pairs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    Y = (X @ rng.normal(size=(3, 4)) > 0.5).astype(int)
    Y[:, 3] = Y[:, 0]
    Y[: N // B, 1] = 0
    rows, labels = da.from_array(X, chunks=(10, 3)), da.from_array(Y, chunks=(10, 4))
    options = {"loss": "structured_hinge", "alpha": 0.05, "random_state": 0}
    options |= {"interaction_scaling": 0.5, "pairs": pairs}
    classifier = DaskMultilabelPairwise(client=client, **options).fit(rows, labels)
    solver = Partitioned(blocks=B, tol=classifier.tol)
    expected = MultilabelPairwise(solver=solver, **options).fit(X, Y)
    assert len(expected.label_pairs_)
    assert classifier.label_pairs_.tolist() == expected.label_pairs_.tolist()
    assert classifier.interactions_.tobytes() == expected.interactions_.tobytes()
