"""Taggers of dicts and strings, and scikit-learn's tools on lists of sequences."""

import copy
import pickle
import tracemalloc

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    ShuffleSplit,
    cross_val_predict,
)
from sklearn.pipeline import make_pipeline

from sksstruct import (
    CalibratedTagger,
    ChainCRF,
    SegmentCRF,
    SSVMPathCV,
    Tagger,
    cross_val_proba,
    make_tagger,
)
from sksstruct.feature_extraction import SequenceHasher, SequenceVectorizer
from sksstruct.utils._layout import object_array
from sksstruct.utils._names import FeatureNames
from sksstruct.utils.packed import PackedSequences


def make_words(lengths, seed=0):
    """Sequences of dicts whose words tell the labels, mostly."""
    rng = np.random.RandomState(seed)
    y = [[f"L{k}" for k in rng.randint(3, size=n)] for n in lengths]
    X = [
        [{"w": name, "noise": str(rng.randint(4)), "bias": 1.0} for name in row]
        for row in y
    ]
    return X, y


@pytest.fixture
def words():
    return make_words([3, 1, 4, 2, 5, 1, 3, 2])


class TestTagger:
    def test_is_the_pipeline(self, words):
        X, y = words
        tagger = make_tagger(alpha=0.02, loss="log", random_state=0).fit(X, y)
        assert [name for name, _ in tagger.steps] == ["sequencevectorizer", "chaincrf"]
        chain = ChainCRF(0.02, loss="log", random_state=0)
        pipeline = make_pipeline(SequenceVectorizer(), chain)
        pipeline.fit(X, y)
        chain, rows = pipeline[-1], pipeline[0].transform(X)
        for name in ("predict", "predict_proba", "decision_function"):
            for ours, theirs in zip(
                getattr(tagger, name)(X), getattr(chain, name)(rows), strict=True
            ):
                np.testing.assert_array_equal(ours, theirs)
        marginals = tagger.predict_marginals(X)
        assert marginals.tolist() == chain.predict_marginals(rows).tolist()
        labelings, scores = tagger.predict_topk(X, 2)
        assert [row.tolist() for row in labelings] == [
            row.tolist() for row in chain.predict_topk(rows, 2)[0]
        ]
        np.testing.assert_array_equal(
            [row[0] for row in scores], tagger.decision_function(X)
        )
        assert not hasattr(tagger, "predict_segments")
        assert tagger.score(X, y) == pipeline.score(X, y) > 0.9

    def test_segments(self, words):
        X, y = words
        steps = [("features", SequenceVectorizer()), ("crf", SegmentCRF(0.1))]
        tagger = Tagger(steps).fit(X, y)
        segmenter, rows = tagger[-1], tagger[0].transform(X)
        assert tagger.predict_segments(X) == segmenter.predict_segments(rows)
        known = [None] * len(X)
        known[0] = [y[0][1]] + [None] * (len(X[0]) - 1)
        found = tagger.predict_segments(X, known=known)
        assert found == segmenter.predict_segments(rows, known=known)
        assert found[0][0][2] == y[0][1]

    def test_inspection(self, words):
        tagger = make_tagger().fit(*words)
        assert tagger.classes_.tolist() == ["L0", "L1", "L2"]
        assert tagger.state_features_ == tagger[-1].state_features_
        assert ("w=L1", "L1") in tagger.state_features_
        assert set(tagger.transition_features_) == {
            (a, b) for a in tagger.classes_ for b in tagger.classes_
        }
        names = tagger[:-1].get_feature_names_out().tolist()
        assert names == tagger[-1].feature_names_in_.tolist()

    def test_constraints_are_passed_on(self, words):
        X, y = words
        tagger = make_tagger(loss="log", random_state=0).fit(X, y)
        one, known = [X[0]], [["L2", None, "L0"]]
        for predicted in (
            tagger.predict(one, known=known)[0],
            tagger.predict_topk(one, 3, known=known)[0][0][0],
        ):
            assert predicted[[0, 2]].tolist() == ["L2", "L0"]
        probabilities = tagger.predict_proba(one, known=known)[0]
        np.testing.assert_allclose(probabilities[0], [0, 0, 1], atol=1e-12)
        marginals = tagger.predict_marginals(one, known=known)[0]
        assert marginals[2]["L0"] == pytest.approx(1.0)
        excluded = [[{"L0", "L1"}] * 3]
        assert set(tagger.predict(one, excluded=excluded)[0]) == {"L2"}

    def test_parameters_clone_and_pickle(self, words):
        X, y = words
        tagger = make_tagger(SequenceVectorizer(min_count=2), alpha=0.5)
        assert tagger.get_params()["sequencevectorizer__min_count"] == 2
        twin = clone(tagger).set_params(chaincrf__alpha=0.01, chaincrf__loss="log")
        assert type(twin) is Tagger and tagger[-1].alpha == 0.5
        copy = pickle.loads(pickle.dumps(twin.fit(X, y)))
        assert copy.predict_marginals(X).tolist() == twin.predict_marginals(X).tolist()

    def test_other_transformers(self, words):
        """Without a vectorizer, and after one more step, it is the same pipeline."""
        X, y = words
        rows = SequenceVectorizer().fit_transform(X)
        alone = Tagger([("chaincrf", ChainCRF(random_state=0))]).fit(rows, y)
        tagger = make_tagger(random_state=0).fit(X, y)
        assert alone.predict_topk(rows, 2)[0][0].tolist() == (
            tagger.predict_topk(X, 2)[0][0].tolist()
        )

    def test_not_fitted(self, words):
        tagger = make_tagger(loss="log")
        for name in ("predict", "predict_marginals", "predict_proba"):
            with pytest.raises(NotFittedError):
                getattr(tagger, name)(words[0])
        with pytest.raises(NotFittedError):
            tagger.predict_topk(words[0], 2)

    def test_why_there_are_no_probabilities(self, words):
        X, y = words
        for estimator in (ChainCRF(), make_tagger(), make_tagger().fit(X, y)):
            for name in ("predict_proba", "predict_marginals"):
                assert not hasattr(estimator, name)
                with pytest.raises(AttributeError, match=r"need loss='log', .*'hinge'"):
                    getattr(estimator, name)
            assert hasattr(estimator, "predict_topk")
        # the fitted loss counts
        fitted = make_tagger(loss="log").fit(X, y).set_params(chaincrf__loss="hinge")
        assert hasattr(fitted, "predict_proba")

    def test_grid_search(self, words):
        grid = {"chaincrf__alpha": [0.01, 10.0], "sequencevectorizer__min_count": [1]}
        search = GridSearchCV(make_tagger(loss="log"), grid, cv=2).fit(*words)
        assert search.best_params_["chaincrf__alpha"] == 0.01
        assert len(search.best_estimator_.predict_marginals(words[0])) == len(words[0])


class TestCrossValidation:
    """scikit-learn gets one array for each sequence, whatever their lengths."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "lengths", [[2, 4, 6, 0, 5, 5, 4], [4] * 7, [1] * 7], ids=str
    )
    @pytest.mark.parametrize("n_jobs", [None, 2])
    @pytest.mark.parametrize(
        "estimator",
        [
            make_tagger(random_state=0),
            make_pipeline(SequenceVectorizer(), ChainCRF(loss="log", random_state=0)),
            GridSearchCV(make_tagger(random_state=0), {"chaincrf__tol": [0.1]}, cv=2),
        ],
        ids=["tagger", "pipeline", "search"],
    )
    def test_cross_val_predict(self, lengths, n_jobs, estimator):
        X, y = make_words(lengths)
        folds = KFold(3, shuffle=True, random_state=0)
        predicted = cross_val_predict(estimator, X, y, cv=folds, n_jobs=n_jobs)
        assert predicted.shape == (7,) and predicted.dtype == object
        for train, test in folds.split(X):
            fold = clone(estimator).fit([X[i] for i in train], [y[i] for i in train])
            for i, row in zip(test, fold.predict([X[i] for i in test]), strict=True):
                assert predicted[i].tolist() == row.tolist()
                assert len(row) == lengths[i]

    def test_folds_with_other_labels(self):
        """Each fold lacks the labels of one sequence."""
        X = [[{"w": name}] * 3 for name in "abc"]
        y = [[name, name, "O"] for name in "abc"]
        predicted = cross_val_predict(make_tagger(), X, y, cv=3)
        for row, name in zip(predicted, "abc", strict=True):
            assert row.shape == (3,) and name not in row

    @pytest.mark.filterwarnings("ignore:the .* held-out labelings are predicted")
    @pytest.mark.parametrize("n_jobs", [None, 2])
    @pytest.mark.parametrize(
        "estimator",
        [
            make_tagger(loss="log", random_state=0),
            make_pipeline(SequenceVectorizer(), ChainCRF(loss="log", random_state=0)),
            CalibratedTagger(make_tagger(random_state=0), cv=2),
            SSVMPathCV(make_tagger(loss="log"), alphas=[0.1, 0.01], cv=2),
        ],
        ids=["tagger", "pipeline", "calibrated", "path"],
    )
    def test_probabilities_out_of_fold(self, estimator, n_jobs):
        """Of a fold's own tagger, in the order of X and of all labels."""
        X, y = make_words([3, 1, 4, 2, 5, 1, 3, 2, 4, 3, 5, 2])
        for row, other in ((X[0][0], "L9"), (X[5][0], "L8")):
            row["w"] = other
        y[0][0], y[5][0] = "L9", "L8"
        folds = KFold(3, shuffle=True, random_state=0)
        found, classes = cross_val_proba(estimator, X, y, cv=folds, n_jobs=n_jobs)
        assert classes.tolist() == ["L0", "L1", "L2", "L8", "L9"]
        assert [row.shape for row in found] == [(len(row), 5) for row in y]
        lacking = set()
        for train, test in folds.split(X):
            fold = clone(estimator).fit([X[i] for i in train], [y[i] for i in train])
            columns = [classes.tolist().index(name) for name in fold.classes_.tolist()]
            lacking |= set(range(5)) - set(columns)
            rows = fold.predict_proba([X[i] for i in test])
            for i, row in zip(test, rows, strict=True):
                np.testing.assert_array_equal(found[i][:, columns], row)
                np.testing.assert_allclose(found[i].sum(axis=1), 1.0)
        assert lacking == {3, 4}

    def test_parameters_of_fits_out_of_fold(self, words):
        X, y = words
        tagger, weight = make_tagger(loss="log"), np.linspace(0.1, 9.0, len(X))
        params = {"chaincrf__sample_weight": weight}
        found, _ = cross_val_proba(tagger, X, y, cv=2, params=params)
        half = clone(tagger).fit(X[4:], y[4:], chaincrf__sample_weight=weight[4:])
        np.testing.assert_array_equal(found[0], half.predict_proba(X[:1])[0])
        plain, _ = cross_val_proba(tagger, X, y, cv=2)
        assert np.abs(plain[0] - found[0]).max() > 0.01
        groups = [0, 1] * 4
        found, names = cross_val_proba(tagger, X, y, groups=groups, cv=GroupKFold(2))
        half = clone(tagger).fit(X[1::2], y[1::2])
        columns = np.isin(names, half.classes_)
        (expected,) = half.predict_proba(X[2:3])
        np.testing.assert_array_equal(found[2][:, columns], expected)

    def test_errors_of_probabilities_out_of_fold(self, words):
        X, y = words
        with pytest.raises(AttributeError, match="need loss='log'"):
            cross_val_proba(make_tagger(), X, y)
        folds = ShuffleSplit(3, random_state=0)
        with pytest.raises(ValueError, match=r"hold out every sequence once, but X\["):
            cross_val_proba(make_tagger(loss="log"), X, y, cv=folds)
        tags = [["B-A" if label == "L0" else "O" for label in row] for row in y]
        segments = Tagger([("v", SequenceVectorizer()), ("s", SegmentCRF(loss="log"))])
        with pytest.raises(ValueError, match="one column for each of classes_"):
            cross_val_proba(segments, X, tags, cv=2)

    @pytest.mark.parametrize("lengths", [[2, 3, 4, 1, 2, 3], [3] * 6], ids=str)
    def test_scikit_learn_refuses_probabilities(self, lengths):
        """It takes y for an indicator matrix, and must not come through with that."""
        X, y = make_words(lengths)
        with pytest.raises((ValueError, IndexError)):
            cross_val_predict(
                make_tagger(loss="log"), X, y, cv=2, method="predict_proba"
            )


@pytest.mark.parametrize(
    "items",
    [[], [np.zeros(2)] * 3, [np.zeros(1)], [np.zeros((2, 2))], [[{}], [{}]], [()]],
    ids=str,
)
def test_object_array(items):
    array = object_array(items)
    assert array.shape == (len(items),) and array.dtype == object
    assert all(a is b for a, b in zip(array, items, strict=True))


def _written(tagger, how, tmp_path):
    """A tagger after a journey."""
    if how == "skops":
        io = pytest.importorskip("skops.io")
        io.dump(tagger, tmp_path / "tagger")
        types = io.get_untrusted_types(file=tmp_path / "tagger")
        return io.load(tmp_path / "tagger", trusted=types)
    if how == "joblib":
        joblib.dump(tagger, tmp_path / "tagger")
        return joblib.load(tmp_path / "tagger")
    if how == "deepcopy":
        return copy.deepcopy(tagger)
    if how == "state":
        steps = []
        for name, step in tagger.steps:
            steps.append((name, clone(step)))
            steps[-1][1].__setstate__(step.__getstate__())
        return Tagger(steps)
    if how == "pipeline":
        steps = [pickle.loads(pickle.dumps(step)) for _, step in tagger.steps]
        return make_pipeline(*steps)
    if how == "single":
        tagger[-1].cast(np.float32)
    if how == "many labels":
        tagger[-1].transitions_ = sparse.csr_array(tagger[-1].transitions_)
    return pickle.loads(pickle.dumps(tagger)) if how == "pickle" else tagger


KINDS = "single", "many labels"
WAYS = "fresh", "pickle", "joblib", "skops", "deepcopy", "state", "pipeline"


@pytest.mark.parametrize("how", WAYS + KINDS)
def test_a_call_costs_the_same_with_any_vocabulary(how, tmp_path, monkeypatch):
    """No name is looked at, and no array of the size of the vocabulary is made."""

    def look(*args):
        raise AssertionError("a prediction looked at all names")

    peaks, sentence = [], [{"w": "w1"}, {"w": "w2"}, {"w": "unseen"}]
    for size in (500, 20_000):
        words = [[{"w": f"w{k}"} for k in range(size)]]
        tagger = make_tagger(tol=1.0).fit(words, [["a", "b"] * (size // 2)])
        expected = tagger.predict([sentence])[0].tolist()
        tagger = _written(tagger, how, tmp_path)
        with monkeypatch.context() as patch:
            for name in ("packed", "to_list", "to_array", "__array__", "__getitem__"):
                patch.setattr(FeatureNames, name, look)
            # the first call, too
            tracemalloc.start()
            assert tagger.predict([sentence])[0].tolist() == expected
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < peaks[0] + 5_000


@pytest.mark.parametrize("how", WAYS)
def test_other_names_are_an_error(how, tmp_path):
    X, y = make_words([4, 3, 2, 4])
    tagger = _written(make_tagger(alpha=0.1).fit(X, y), how, tmp_path)
    names = tagger[0].feature_names_
    other = SequenceVectorizer().fit([[[*names[:-1], "another"]]])
    rows = other.transform([[names]])
    with pytest.raises(ValueError, match="other feature names"):
        tagger[1].predict(rows)
    # those of two names are also other names in another order, or cut elsewhere
    for changed in (names[::-1], [names[0] + names[1][0], names[1][1:], *names[2:]]):
        rows = PackedSequences(rows.values, rows.offsets, changed)
        with pytest.raises(ValueError, match="other feature names"):
            tagger[1].predict(rows)
    rows = PackedSequences(rows.values, rows.offsets, np.array(names))
    assert len(tagger[1].predict(rows)[0]) == 1


def test_files_of_skops_are_as_small_as_those_of_joblib(tmp_path):
    io = pytest.importorskip("skops.io")
    words = [[{"w": f"w{10 * i + k}"} for k in range(10)] for i in range(300)]
    tagger = make_tagger(tol=1.0).fit(words, [["a", "b"] * 5] * 300)
    io.dump(tagger, tmp_path / "skops")
    joblib.dump(tagger, tmp_path / "joblib")
    # what skops writes of the classes does not depend on the vocabulary
    size = (tmp_path / "skops").stat().st_size - 100_000
    assert size < 2 * (tmp_path / "joblib").stat().st_size
    types = io.get_untrusted_types(file=tmp_path / "skops")
    assert sorted(name.rpartition(".")[2] for name in types) == [
        "BCFW",
        "ChainCRF",
        "SequenceVectorizer",
        "Tagger",
    ]


def test_a_second_fit_forgets_the_names_of_the_first():
    tagger = make_tagger(random_state=0).fit([[{"a": 1}, {"b": 1}]], [["x", "y"]])
    assert tagger[-1].feature_names_in_.tolist() == ["a", "b"]
    tagger.fit([[{"c": 1}, {"d": 1}, {"e": 1}]], [["x", "y", "z"]])
    assert tagger[-1].feature_names_in_.tolist() == ["c", "d", "e"]
    assert tagger.predict([[{"e": 1}]])[0].tolist() == ["z"]
    crf = tagger[-1].fit([[[1.0], [0.0]]], [["x", "y"]])
    assert not hasattr(crf, "feature_names_in_")


@pytest.mark.parametrize("form", ["dense", "sparse", "pairs"])
def test_prune(form):
    rng = np.random.default_rng(0)
    words = [[f"{rng.integers(60)}" for _ in range(5)] for _ in range(60)]
    X = [[{"w": word, "one": 1.0} for word in row] for row in words]
    y = [["ab"[int(word) % 2] for word in row] for row in words]
    pairs = "w=1" if form == "pairs" else None
    tagger = make_tagger(
        loss="log", alpha=0.1, transition_features=pairs, random_state=0
    ).fit(X, y)  # fmt: skip
    if form == "sparse":
        tagger[-1].sparsify()
    names = tagger[:-1].get_feature_names_out()
    if pairs:
        # what they say may be in the weights of pairs alone
        tagger[-1].coef_[:, [name.startswith(pairs) for name in names]] = 0.0
        tagger[-1].transition_coef_ *= 2.0
    before, scores = tagger.state_features_, tagger[-1].decision_function
    old = scores(tagger[0].transform(X))
    threshold = float(np.median([abs(weight) for weight in before.values()]))
    assert tagger.prune(threshold) is tagger
    left = {name for (name, _), weight in before.items() if abs(weight) > threshold}
    if pairs:
        of_pairs = {
            name
            for (name, *_), weight in tagger.pair_features_.items()
            if abs(weight) > threshold
        }
        assert len(of_pairs) > 2 and not left & of_pairs
        left |= of_pairs
    assert [name for name in names if name in left] == tagger[0].feature_names_
    assert 0 < len(left) < len(names) and tagger[-1].n_features_in_ == len(left)
    assert {k: w for k, w in before.items() if k[0] in left} == tagger.state_features_
    change = np.abs(scores(tagger[0].transform(X)) - old)
    assert 0.0 < change.max() <= threshold * (10 + 5 * bool(pairs))
    twin = pickle.loads(pickle.dumps(tagger))
    assert [a.tolist() for a in twin.predict(X)] == [
        a.tolist() for a in tagger.predict(X)
    ]
    # the next fit has all features again
    assert tagger.fit(X, y)[0].feature_names_ == names.tolist()


def test_prune_says_what_it_needs():
    X, y = [[{"w": "a"}, {"w": "b"}]], [["x", "y"]]
    tagger = make_tagger().fit(X, y)
    with pytest.raises(ValueError, match="threshold must be finite"):
        tagger.prune(-1.0)
    with pytest.raises(ValueError, match="would drop all features"):
        tagger.prune(100.0)
    assert tagger.predict(X)[0].tolist() == ["x", "y"]
    with pytest.raises(ValueError, match="needs a SequenceVectorizer"):
        make_tagger(SequenceHasher()).fit(X, y).prune()
    with pytest.raises(ValueError, match="not fitted"):
        make_tagger().prune()
