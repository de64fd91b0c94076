"""Labels while positions arrive: against `predict`, and against all labelings."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import logsumexp
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

from sksstruct import (
    CalibratedTagger,
    ChainCRF,
    SegmentCRF,
    StreamingTagger,
    make_tagger,
)
from sksstruct.feature_extraction import (
    ColumnFeatures,
    RowTransformer,
    SequenceVectorizer,
    SeriesFeatures,
    WordVectors,
)
from sksstruct.models import ELUScore
from sksstruct.utils.packed import PackedSequences

LABELS = ["B-X", "I-X", "O"]
LAGS = [0, 1, 5, None]


def fitted(seed=0, n_labels=3, scale=1.0, *, forbidden=False, **parameters):
    """A tagger whose weights are small whole numbers, so that many labelings tie."""
    rng = np.random.RandomState(seed)
    names = LABELS if n_labels == 3 else list(range(n_labels))
    X = [rng.randint(-1, 2, size=(n_labels, 2)).astype(float)]
    if forbidden:
        parameters["forbidden_transitions"] = "bio"
    y = [["B-X", "I-X", "O"]] if n_labels == 3 else [names]
    parameters = {"loss": "log", "max_iter": 1, "tol": 1e6, **parameters}
    crf = ChainCRF(random_state=0, **parameters).fit(X, y)
    for name in ("coef_", "intercept_", "start_", "end_", "transitions_"):
        value = scale * rng.randint(-2, 3, size=getattr(crf, name).shape)
        setattr(crf, name, value.astype(float))
    return crf


def rows(seed, size):
    return np.random.RandomState(seed).randint(-1, 2, size=(size, 2)).astype(float)


def pushed(stream, x, cuts=(), flush=True):
    """All results for positions that come in pieces."""
    bounds = [0, *sorted(cuts), x.shape[0]]
    found = [stream.push(x[a:b]) for a, b in itertools.pairwise(bounds)]
    return np.concatenate([*found, stream.flush()] if flush else found)


def tables(crf):
    """Scores of first and last labels, and of pairs, with what is forbidden."""
    parts = crf.start_.copy(), crf.end_.copy(), crf.transitions_.copy()
    index = {label: k for k, label in enumerate(crf.classes_.tolist())}
    for before, after in crf.forbidden_transitions_:
        if before is None:
            parts[0][index[after]] = -np.inf
        elif after is None:
            parts[1][index[before]] = -np.inf
        else:
            parts[2][index[before], index[after]] = -np.inf
    return parts


def labelings(crf, x, *, ends):
    """All labelings of x, the first one on ties first, with their scores."""
    start, end, transitions = tables(crf)
    unary = x @ crf.coef_.T + crf.intercept_
    every = itertools.product(range(len(crf.classes_)), repeat=len(x))
    # those with the lowest last label first, then the last but one
    for y in sorted(every, key=lambda y: y[::-1]):
        score = start[y[0]] + unary[range(len(x)), y].sum()
        score += transitions[y[:-1], y[1:]].sum()
        yield y, score + end[y[-1]] * ends if ends else score


def survivors(crf, x, lag):
    """Labels by a lag, where each survivor is a tuple of labels."""
    start, end, transitions = tables(crf)
    unary = x @ crf.coef_.T + crf.intercept_
    found, paths = [], {}
    for t, row in enumerate(unary):
        extended = {}
        for b in range(len(row)):
            before = [(s + transitions[a, b], y) for a, (s, y) in paths.items()]
            score, y = max(before, key=lambda pair: pair[0]) if t else (start[b], ())
            is_next = t == len(found) > 0
            if score > -np.inf and not (
                is_next and transitions[found[-1], b] == -np.inf
            ):
                extended[b] = score + row[b], (*y, b)
        paths = extended
        while len(found) <= t:
            ahead = {y[len(found)] for _, y in paths.values()}
            if len(ahead) > 1 and t - len(found) < lag:
                break
            _, y = max(paths.values(), key=lambda pair: pair[0])
            found.append(y[len(found)])
            k = len(found)
            paths = {
                b: (s, y)
                for b, (s, y) in paths.items()
                if k > t or transitions[found[-1], y[k]] > -np.inf
            }
    if len(found) < len(x):
        _, y = max(((s + end[b], y) for b, (s, y) in paths.items()), key=lambda p: p[0])
        found += y[len(found) :]
    return found


@st.composite
def cases(draw, most=40):
    size = draw(st.integers(1, most))
    cuts = draw(st.lists(st.integers(0, size), max_size=8))
    return draw(st.integers(0, 10**6)), size, cuts


class TestLabels:
    @settings(deadline=None, max_examples=200)
    @given(
        cases(), st.booleans(), st.sampled_from([2, 3, 9]), st.sampled_from([1.0, 0.1])
    )
    def test_without_a_limit_they_are_those_of_predict(self, case, legal, n, scale):
        seed, size, cuts = case
        # ties with whole numbers, and tenths whose sums depend on their order
        crf = fitted(seed, n, scale, forbidden=legal and n == 3)
        x = rows(seed + 1, size)
        expected = crf.predict([x])[0]
        for form in (x, sparse.csr_array(x), x.astype(np.float32)):
            stream = StreamingTagger(crf)
            np.testing.assert_array_equal(pushed(stream, form, cuts), expected)
            assert stream.n_pending_ == 0

    @settings(deadline=None, max_examples=40)
    @given(cases(most=7), st.sampled_from([0, 1, 2, 5]))
    def test_with_a_lag_they_are_the_best_so_far(self, case, lag):
        seed, size, cuts = case
        crf, x = fitted(seed), rows(seed + 1, size)
        expected = []
        for t in range(size):
            known = min(t + lag + 1, size)
            # a label that waits for its lag does not know that the sequence ends
            every = labelings(crf, x[:known], ends=t + lag + 1 > size)
            y, _ = max(every, key=lambda pair: pair[1])
            expected.append(y[t])
        found = pushed(StreamingTagger(crf, lag=lag), x, cuts)
        np.testing.assert_array_equal(found, crf.classes_[expected])

    @settings(deadline=None, max_examples=60)
    @given(cases(), st.booleans(), st.sampled_from([0, 1, 2, 5]))
    def test_survivors_that_must_not_follow_are_dropped(self, case, legal, lag):
        seed, size, cuts = case
        crf, x = fitted(seed, forbidden=legal), rows(seed + 1, size)
        found = pushed(StreamingTagger(crf, lag=lag), x, cuts)
        np.testing.assert_array_equal(found, crf.classes_[survivors(crf, x, lag)])

    @settings(deadline=None, max_examples=30)
    @given(cases(), st.sampled_from(LAGS))
    def test_pieces_do_not_matter(self, case, lag):
        seed, size, cuts = case
        crf, x = fitted(seed, 5), rows(seed + 1, size)
        one, other = StreamingTagger(crf, lag=lag), StreamingTagger(crf, lag=lag)
        expected = [one.push(x[t : t + 1]) for t in range(size)]
        together = pushed(other, x, cuts, flush=False)
        np.testing.assert_array_equal(together, np.concatenate(expected))
        assert one.n_pending_ == other.n_pending_ == size - len(together)

    def test_labels_are_given_out_as_soon_as_survivors_agree(self):
        crf = fitted()
        crf.transitions_ = np.zeros((3, 3))
        stream = StreamingTagger(crf)
        # without transitions, every label is decided when the next position is there
        assert [len(stream.push(rows(t, 1))) for t in range(5)] == [0, 1, 1, 1, 1]

    @pytest.mark.parametrize("lag", LAGS)
    def test_what_is_forbidden_never_comes_out(self, lag):
        crf = fitted(3, forbidden=True)
        crf.transitions_[:] = crf.intercept_[:] = crf.start_[:] = 0.0
        crf.coef_[:] = [[1, 0], [-1, 0], [0, 1]]
        found = pushed(StreamingTagger(crf, lag=lag), rows(0, 3000)).tolist()
        assert found[0] != "I-X" and "I-X" in found
        assert ("O", "I-X") not in set(itertools.pairwise(found))

    def test_large_scores(self):
        """Sums are made smaller on the way, and exact in both ways."""
        crf = fitted(5, 4, scale=2.0**27)
        x = rows(1, 2000)
        expected = crf.predict([x])[0]
        assert abs(crf.decision_function([x])[0]) > 2**35
        np.testing.assert_array_equal(pushed(StreamingTagger(crf), x, [7]), expected)

    def test_other_forms_of_the_weights(self):
        crf, x = fitted(2), rows(1, 200)
        expected = crf.predict([x])[0]
        for change in ("sparsify", "densify", lambda: crf.cast(np.float32)):
            (getattr(crf, change) if isinstance(change, str) else change)()
            found = pushed(StreamingTagger(crf), x, [50])
            np.testing.assert_array_equal(found, expected)
        crf.cast(np.float64).transitions_ = sparse.csr_array(crf.transitions_)
        np.testing.assert_array_equal(pushed(StreamingTagger(crf), x), expected)

    def test_scores_in_place_of_features(self):
        crf, x = fitted(2), rows(1, 30)
        scores = x @ crf.coef_.T + crf.intercept_
        stream = StreamingTagger(crf)
        found = [stream.push_scores(scores[:9]), stream.push(x[9:]), stream.flush()]
        np.testing.assert_array_equal(np.concatenate(found), crf.predict([x])[0])
        # a known label, and an excluded one
        scores[4] = [-np.inf, 0.0, -np.inf]
        scores[5, 2] = -np.inf
        known = [[None] * 4 + ["I-X"] + [None] * 25]
        excluded = [[None] * 5 + [{"O"}] + [None] * 24]
        expected = crf.predict([x], known=known, excluded=excluded)[0]
        found = [stream.push_scores(scores), stream.flush()]
        np.testing.assert_array_equal(np.concatenate(found), expected)


class TestProbabilities:
    @settings(deadline=None, max_examples=30)
    @given(cases(most=6), st.booleans(), st.sampled_from([0, 1, 3, None]))
    def test_equal_those_of_all_labelings(self, case, legal, lag):
        seed, size, cuts = case
        crf, x = fitted(seed, forbidden=legal), rows(seed + 1, size)
        expected = np.zeros((size, 3))
        for t in range(size):
            known = size if lag is None else min(t + lag + 1, size)
            # whether it came by the lag, or at the end
            ends = lag is None or t + lag + 1 > size
            every = list(labelings(crf, x[:known], ends=ends))
            total = logsumexp([score for _, score in every])
            for y, score in every:
                expected[t, y[t]] += np.exp(score - total)
        stream = StreamingTagger(crf, lag=lag, method="predict_proba")
        np.testing.assert_allclose(pushed(stream, x, cuts), expected, atol=1e-12)

    def test_at_the_end_they_are_those_of_predict_proba(self):
        crf, x = fitted(0, 5), rows(1, 300)
        stream = StreamingTagger(crf, method="predict_proba")
        assert stream.push(x).shape == (0, 5) and stream.n_pending_ == 300
        np.testing.assert_allclose(
            stream.flush(), crf.predict_proba([x])[0], atol=1e-12
        )

    def test_scores_of_any_size(self):
        crf, x = fitted(0, 4, scale=1e3), rows(1, 40)
        stream = StreamingTagger(crf, method="predict_proba")
        stream.push(x)
        np.testing.assert_allclose(
            stream.flush(), crf.predict_proba([x])[0], atol=1e-12
        )

    def test_temperature(self):
        X = [rows(seed, 6) for seed in range(30)]
        noise = np.random.RandomState(0)
        y = [np.where(x[:, 0] > noise.normal(size=6), "a", "b") for x in X]
        tagger = CalibratedTagger(ChainCRF(random_state=0), cv=3).fit(X, y)
        assert tagger.temperature_ != 1.0
        stream = StreamingTagger(tagger, method="predict_proba")
        stream.push(X[2])
        np.testing.assert_allclose(
            stream.flush(), tagger.predict_proba([X[2]])[0], atol=1e-12
        )


class TestState:
    @pytest.mark.parametrize("method", ["predict", "predict_proba"])
    @pytest.mark.parametrize("lag", [0, 5, 300])
    def test_memory_is_bounded_by_the_lag(self, lag, method):
        crf = fitted(1, 4)
        # survivors never agree
        crf.coef_[:], crf.transitions_[:] = 0.0, 100.0 * np.eye(4)
        stream = StreamingTagger(crf, lag=lag, method=method)
        rooms = set()
        for _ in range(20):
            assert len(stream.push(rows(0, 1000))) <= 1000
            assert stream.n_pending_ <= lag
            rooms.add(stream._chain.room)
        assert max(rooms) <= max(64, 4 * (lag + 1))

    def test_without_a_limit_memory_grows_until_survivors_agree(self):
        crf = fitted(1, 2)
        crf.coef_[:] = [[0.0, -1e4], [0.0, 1e4]]
        crf.intercept_[:] = crf.start_[:] = crf.end_[:] = 0.0
        crf.transitions_[:] = [[10.0, -10.0], [-10.0, 10.0]]
        stream, silent = StreamingTagger(crf), np.zeros((1000, 2))
        for k in range(1, 4):
            assert len(stream.push(silent)) == 0
            assert stream.n_pending_ == 1000 * k
        assert 3000 <= stream._chain.room <= 6000
        # the second feature tells which label it is
        found = [stream.push([[0.0, 1.0]]), stream.push(silent[:1])]
        assert sum(map(len, found)) >= 3000 and set(np.concatenate(found)) == {1}
        stream.flush()
        assert stream._chain.room == 64

    @pytest.mark.parametrize("method", ["predict", "predict_proba"])
    @pytest.mark.parametrize("lag", LAGS)
    def test_pickles_go_on_where_they_were(self, lag, method):
        crf, x = fitted(2, 4), rows(1, 200)
        expected = pushed(StreamingTagger(crf, lag=lag, method=method), x)
        stream, found = StreamingTagger(crf, lag=lag, method=method), []
        for t in range(0, 200, 23):
            found.append(stream.push(x[t : t + 23]))
            again = pickle.loads(pickle.dumps(stream))
            assert again.n_pending_ == stream.n_pending_
            # the first one goes elsewhere
            stream.push(x)
            stream = again
        found.append(stream.flush())
        np.testing.assert_array_equal(np.concatenate(found), expected)

    @pytest.mark.parametrize("method", ["predict", "predict_proba"])
    @pytest.mark.parametrize("lag", LAGS)
    def test_sequences_do_not_touch_each_other(self, lag, method):
        crf, x = fitted(4), rows(1, 50)
        stream = StreamingTagger(crf, lag=lag, method=method)
        expected = pushed(stream, x, [20])
        np.testing.assert_array_equal(pushed(stream, x, [3]), expected)
        stream.push(rows(2, 30))
        assert stream.reset() is stream and stream.n_pending_ == 0
        np.testing.assert_array_equal(pushed(stream, x), expected)
        assert len(stream.flush()) == 0

    def test_a_later_fit_has_no_effect(self):
        crf, x = fitted(4), rows(1, 50)
        expected = crf.predict([x])[0]
        stream = StreamingTagger(crf)
        crf.set_params(alpha=100.0).fit([x], [["O", "B-X"] * 25])
        np.testing.assert_array_equal(pushed(stream, x), expected)


def series(lengths=(60, 40, 50)):
    rng = np.random.RandomState(0)
    y = [np.repeat(rng.randint(3, size=n // 5), 5) for n in lengths]
    X = [rng.normal(size=(len(row), 2)) + row[:, None] for row in y]
    return X, y


class TestPipelines:
    @pytest.mark.parametrize("causal", [True, False])
    @pytest.mark.parametrize("form", ["rows", "frame"])
    @settings(deadline=None, max_examples=10)
    @given(cuts=st.lists(st.integers(0, 60), max_size=8))
    def test_features_are_those_of_the_whole_series(self, causal, form, cuts):
        X, y = series()
        if form == "frame":
            frames = pytest.importorskip("pandas")
            X = [frames.DataFrame(x, columns=["a", "b"]) for x in X]
        features = SeriesFeatures(windows=(7,), causal=causal)
        scaler, crf = RowTransformer(StandardScaler()), ChainCRF(loss="log")
        tagger = make_pipeline(features, scaler, crf).fit(X, y)
        context = features.context_
        assert context == ((6, 0) if causal else (3, 3))
        stream = StreamingTagger(tagger, context=context)
        for _ in range(2):
            found = pushed(stream, X[0], cuts)
            np.testing.assert_array_equal(found, tagger.predict(X[:1])[0])
        short = pushed(stream, X[0][:2])
        np.testing.assert_array_equal(short, tagger.predict([X[0][:2]])[0])

    def test_positions_that_wait_for_others(self):
        X, y = series()
        tagger = make_pipeline(SeriesFeatures(windows=(7,)), ChainCRF(loss="log"))
        tagger.fit(X, y)
        stream = StreamingTagger(tagger, lag=0, context=(3, 3))
        counts = [len(stream.push(X[0][t : t + 1])) for t in range(10)]
        assert counts == [0, 0, 0] + [1] * 7 and stream.n_pending_ == 3
        assert len(stream._buffer) == 6
        with pytest.raises(ValueError, match="push_scores cannot follow push"):
            stream.push_scores(np.zeros((1, 3)))
        again = pickle.loads(pickle.dumps(stream))
        np.testing.assert_array_equal(stream.flush(), again.flush())

    def test_tokens(self):
        X = [[{"w": word} for word in text.split()] for text in ("a b c", "c b", "b")]
        y = [["N", "V", "N"], ["N", "V"], ["V"]]
        tagger = make_tagger(random_state=0).fit(X, y)
        for estimator in (
            tagger,
            GridSearchCV(tagger, {"chaincrf__alpha": [0.1]}, cv=2).fit(2 * X, 2 * y),
        ):
            stream = StreamingTagger(estimator, lag=0)
            found = [stream.push([token]).tolist() for token in X[0]]
            assert found == [["N"], ["V"], ["N"]]
        # attributes of words up to two tokens away
        around = make_tagger(
            ColumnFeatures(), SequenceVectorizer(), random_state=0
        ).fit(X, y)
        stream = StreamingTagger(around, context=(2, 2))
        for sentence, expected in zip(X, around.predict(X), strict=True):
            found = [stream.push([token]) for token in sentence]
            found.append(stream.flush())
            np.testing.assert_array_equal(np.concatenate(found), expected)
        vectors = {"a": [0.5, 1.0], "b": [0.25, -1.0]}
        vectors = WordVectors(vectors, column="w")
        union = FeatureUnion([("w", SequenceVectorizer()), ("v", vectors)])
        mixed = make_pipeline(union, ChainCRF(random_state=0)).fit(X, y)
        assert union.fit_transform(X).is_mixed
        stream = StreamingTagger(mixed)
        found = [stream.push(X[0][:1]), stream.push(X[0][1:]), stream.flush()]
        np.testing.assert_array_equal(np.concatenate(found), mixed.predict(X)[0])
        with pytest.raises(TypeError, match=r"a list of positions.*got a tuple"):
            stream.push((["a", "b"],))


class TestErrors:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"lag": -1}, "lag must be None, or 0 or more, got -1"),
            ({"lag": 1.5}, "lag must be None, or 0 or more"),
            ({"method": "decision_function"}, "method must be one of"),
            ({"context": 3}, "context must be two whole numbers"),
            ({"context": (1, -1)}, "context must be two whole numbers"),
            ({"context": (1, 0)}, r"context=\(1, 0\) needs a pipeline"),
        ],
    )
    def test_parameters(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            StreamingTagger(fitted(), **parameters)

    def test_taggers_that_cannot_be_used(self):
        X, y = [rows(1, 9)], [["a", "b", "a"] * 3]
        with pytest.raises(TypeError, match="SegmentCRF"):
            StreamingTagger(SegmentCRF(loss="log").fit(X, y))
        with pytest.raises(NotFittedError):
            StreamingTagger(ChainCRF())
        with pytest.raises(ValueError, match="order=2"):
            StreamingTagger(ChainCRF(order=2, loss="log").fit(X, y))
        pairs = ChainCRF(transition_features=[0], loss="log").fit(X, y)
        with pytest.raises(ValueError, match="transition_features"):
            StreamingTagger(pairs)
        by_label = ChainCRF(risk="hamming", loss="log").fit(X, y)
        with pytest.raises(ValueError, match="risk='hamming'"):
            StreamingTagger(by_label)
        StreamingTagger(by_label, method="predict_proba")
        hinge = ChainCRF(random_state=0).fit(X, y)
        with pytest.raises(ValueError, match="predict_proba' needs loss='log'"):
            StreamingTagger(hinge, method="predict_proba")

    def test_bad_positions_change_nothing(self):
        crf, x = fitted(4), rows(1, 50)
        expected = crf.predict([x])[0]
        names = PackedSequences(x, [0, 50], ["a", "b"])
        named = ChainCRF().fit(names, [crf.classes_[[0, 1] * 25]])
        with pytest.raises(ValueError, match="other feature names"):
            StreamingTagger(named).push(PackedSequences(x, [0, 50], ["b", "a"]))
        stream = StreamingTagger(crf)
        found = [stream.push(x[:20])]
        for bad, message in (
            (np.zeros((2, 3)), "3 features"),
            (x[0], r"x must be 2-D.*got 1-D; one position is \[x\]"),
            ([0.0, 1.0], "1-D"),
            ([[0.0, np.nan]], r"x\[0\] contains NaN"),
        ):
            with pytest.raises(ValueError, match=message):
                stream.push(bad)
        for bad in (None, "abc", {"a": 1}, (x[0], x[1])):
            with pytest.raises(TypeError, match="x must be a list of positions"):
                stream.push(bad)
        for bad, message in (
            (np.zeros((2, 2)), r"shape \(n_positions, 3\)"),
            ([[0.0, np.inf, 0.0]], r"scores\[0\] must be finite, or -inf"),
        ):
            with pytest.raises(ValueError, match=message):
                stream.push_scores(bad)
        found += [stream.push(x[20:]), stream.flush()]
        np.testing.assert_array_equal(np.concatenate(found), expected)

    @pytest.mark.parametrize("method", ["predict", "predict_proba"])
    def test_no_labeling_is_left(self, method):
        crf = fitted(4, forbidden=True)
        stream = StreamingTagger(crf, method=method)
        for _ in range(2):
            stream.push(rows(0, 3))
            with pytest.raises(ValueError, match="position 4: the constraints leave"):
                stream.push_scores([[0, 0, 0], [-np.inf] * 3, [0, 0, 0]])
            stream.reset()
        # the only labels cannot be the last ones
        crf.forbidden_transitions_ = [("O", None), ("I-X", None)]
        stream = StreamingTagger(crf, method=method)
        stream.push_scores([[0, 0, 0], [-np.inf, 0, 0]])
        assert stream.n_pending_
        with pytest.raises(ValueError, match=r"position 1: .* that ends here"):
            stream.flush()

    def test_score_functions(self):
        X, y = [rows(1, 9)] * 2, [["a", "b", "a"] * 3] * 2
        crf = ChainCRF(loss="log", score_function=ELUScore(2), max_iter=5)
        with pytest.warns(Warning):
            crf.fit(X, y)
        stream = StreamingTagger(crf)
        with pytest.raises(ValueError, match="push_scores"):
            stream.push(X[0])
