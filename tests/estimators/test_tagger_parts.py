"""Where the parts of a tagger meet: rows of two forms, files, calibration, segments."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_union

from sksstruct import CalibratedTagger, ChainCRF, SegmentCRF, Tagger, make_tagger
from sksstruct.commands import main
from sksstruct.feature_extraction import (
    GazetteerFeatures,
    SequenceVectorizer,
    WordVectors,
)
from sksstruct.models import ELUScore
from sksstruct.utils.packed import PackedSequences

WORDS = ["Ada", "Lovelace", "wrote", "code", "in", "London"]
X = [[{"w": word} for word in WORDS], [{"w": "Ada"}, {"w": "ran"}]] * 5
y = [["B-P", "I-P", "O", "O", "O", "B-L"], ["B-P", "O"]] * 5
VECTORS = {word: np.eye(6)[k] for k, word in enumerate(WORDS)}


def of_two_forms(**parameters):
    features = make_union(SequenceVectorizer(), WordVectors(VECTORS, column="w"))
    return make_tagger(features, random_state=0, **parameters).fit(X, y)


@pytest.mark.parametrize("order", [1, 2])
def test_rows_of_two_forms_are_explained_and_exported(order, tmp_path):
    tagger = of_two_forms(order=order, loss="log")
    explained = tagger.explain(X[0], 1)
    gain = explained.score - explained.other_score
    assert explained.table["contribution"].sum() == pytest.approx(gain)
    assert any("vector" in str(name) for name in explained.table["feature"])
    if order == 1:
        tagger.to_crfsuite(tmp_path / "model")
        read = Tagger.from_crfsuite(tmp_path / "model")
        items = tagger.crfsuite_items(X[:2])
        for found, expected in zip(
            read.predict_marginals(items), tagger.predict_marginals(X[:2]), strict=True
        ):
            for one, other in zip(found, expected, strict=True):
                assert one == pytest.approx(other)


def test_word_vectors_are_read_by_skops(tmp_path):
    skops = pytest.importorskip("skops.io")
    tagger = of_two_forms()
    skops.dump(tagger, tmp_path / "model")
    trusted = skops.get_untrusted_types(file=tmp_path / "model")
    assert not any("builtins" in name for name in trusted)
    read = skops.load(tmp_path / "model", trusted=trusted)
    assert read.predict(X)[0].tolist() == tagger.predict(X)[0].tolist()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_prune_cannot_do(tmp_path):
    tagger = make_tagger(score_function=ELUScore(), max_iter=3, random_state=0)
    tagger.fit(X, y)
    with pytest.raises(ValueError, match="threshold needs weights of features"):
        tagger.prune(0.0)
    with pytest.raises(ValueError, match="threshold needs weights of features"):
        tagger[-1].sparsify(1.0)
    tagger = make_tagger(transition_features=[0, 1], random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="name the features"):
        tagger.prune(0.0)


@pytest.mark.filterwarnings("ignore:the .* held-out labelings")
def test_prune_of_what_was_read_or_copied(tmp_path):
    tagger = make_tagger(loss="log", random_state=0).fit(X, y)
    tagger.to_crfsuite(tmp_path / "model")
    read = Tagger.from_crfsuite(tmp_path / "model")
    largest = abs(np.asarray(read[-1].coef_)).max()
    assert len(read.prune(0.9 * largest)[0].feature_names_) < 8
    calibrated = CalibratedTagger(FrozenEstimator(tagger)).fit(X, y)
    calibrated.estimator_.prune(0.9 * abs(tagger[-1].coef_).max())
    # the tagger that was calibrated keeps its vocabulary
    assert tagger.predict(X)[1].tolist() == y[1]


def test_labelings_that_leave_the_temperature_open():
    one = CalibratedTagger(
        FrozenEstimator(ChainCRF().fit([[[1.0]], [[0.0]]], [[0], [1]]))
    )
    with pytest.warns(UserWarning, match="nearly without error"):
        fitted = one.fit([[[1.0]]], [[0]])
    assert np.isfinite(fitted.temperature_)
    assert np.isfinite(fitted.log_proba([[[1.0]]], [[0]])).all()


def test_any_label_at_every_position():
    tagger = make_tagger(loss="log", random_state=0).fit(X, y)
    found = tagger.log_proba(X[:2], [[None] * 6, y[1]])
    assert found[0] == pytest.approx(0.0, abs=1e-12)
    assert found[1] == pytest.approx(tagger.log_proba(X[1:2], y[1:2])[0])
    with pytest.raises(ValueError, match="label"):
        tagger.log_proba(X[:1], [[None] * 5])


def test_a_tagger_of_segments_says_what_it_has_not(tmp_path):
    tagger = Tagger([("features", SequenceVectorizer()), ("crf", SegmentCRF())]).fit(
        X, y
    )
    assert not hasattr(tagger, "explain")
    with pytest.raises(ValueError, match="no weights of a SegmentCRF"):
        tagger.to_crfsuite(tmp_path / "model")
    with pytest.raises(ValueError, match="prune needs a ChainCRF"):
        tagger.prune()


@pytest.mark.filterwarnings("ignore:the .* held-out labelings")
def test_calibrated_taggers_are_exported(tmp_path):
    import joblib

    tagger = CalibratedTagger(make_tagger(random_state=0), cv=2).fit(X, y)
    joblib.dump(tagger, tmp_path / "model.joblib")
    out = tmp_path / "model.json"
    command = ["export", str(tmp_path / "model.joblib"), "--to", "json"]
    assert main([*command, "-o", str(out)]) == 0
    read = Tagger.from_json(out)
    for found, expected in zip(
        read.predict_proba(X), tagger.predict_proba(X), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_gazetteers_of_the_training_set_need_every_label():
    with pytest.raises(ValueError, match="every label in y must be known"):
        GazetteerFeatures().fit(X[:2], [y[0], ["B-P", {"O", "B-P"}]])


def test_parts_without_columns():
    rows = PackedSequences(np.eye(3), [0, 1, 3])
    none = PackedSequences(np.zeros((3, 0)), [0, 1, 3])
    assert PackedSequences.hstack([rows, none]).n_features == 3
    with pytest.raises(ValueError, match="at least one entry, got none"):
        PackedSequences.hstack([])
