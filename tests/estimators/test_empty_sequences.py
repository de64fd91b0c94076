"""Sequences without positions, in every method of the tagger."""

import numpy as np
import pytest
from scipy import sparse

from sksstruct import ChainCRF, make_tagger, ssvm_path
from sksstruct.metrics import (
    chunk_f1_score,
    sequence_accuracy_score,
    token_accuracy_score,
)
from sksstruct.models import ELUScore
from sksstruct.solvers import GDMM
from sksstruct.utils.packed import PackedSequences

# Numbers of the sequences of `full`, -1 for an empty one.
ORDER = (-1, 0, -1, -1, 1, 2, 3, -1)


@pytest.fixture
def full():
    rng = np.random.RandomState(0)
    y = [rng.randint(3, size=n) for n in (3, 1, 4, 2)]
    return [np.eye(3)[row] + 0.3 * rng.normal(size=(len(row), 3)) for row in y], y


def with_empty(items, empty):
    return [items[i] if i >= 0 else empty for i in ORDER]


MODELS = [
    ChainCRF(random_state=0),
    ChainCRF(loss="log", random_state=0),
    ChainCRF(loss="smoothed_hinge", random_state=0),
    ChainCRF(solver=GDMM(20), random_state=0),
    ChainCRF(1.0, score_function=ELUScore(2), max_iter=3, tol=1.0, random_state=0),
    ChainCRF(class_weight="balanced", loss_normalization="mean", random_state=0),
]


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: repr(model)[9:50])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_prediction(full, model, n_jobs):
    X, y = full
    model = model.set_params(n_jobs=n_jobs).fit(X, y)
    forms = {
        "list": with_empty(X, []),
        "array": with_empty(X, np.zeros((0, 3))),
        "CSR": with_empty([sparse.csr_array(x) for x in X], sparse.csr_array((0, 3))),
    }
    lengths = [0 if i < 0 else len(X[i]) for i in ORDER]
    forms["packed"] = PackedSequences.from_lengths(np.vstack(X), lengths)
    for name, filled in forms.items():
        predicted = model.predict(filled)
        expected = with_empty(model.predict(X), np.array([], dtype=int))
        for row, right in zip(predicted, expected, strict=True):
            assert row.tolist() == right.tolist(), name
            assert row.dtype == model.classes_.dtype
        # sparse and dense sums are rounded differently
        np.testing.assert_allclose(
            model.decision_function(filled),
            with_empty(model.decision_function(X), 0.0),
            rtol=1e-12,
        )
        labelings, scores = model.predict_topk(filled, 4)
        expected = model.predict_topk(X, 4)
        for row, right in zip(
            labelings, with_empty(expected[0], np.zeros((1, 0))), strict=True
        ):
            np.testing.assert_array_equal(row, right)
        for row, right in zip(scores, with_empty(expected[1], [0.0]), strict=True):
            np.testing.assert_allclose(row, right, rtol=1e-12)
        assert model.score(filled, with_empty(y, [])) == model.score(X, y)


def test_probabilities(full):
    X, y = full
    model = ChainCRF(loss="log").fit(X, y)
    filled = with_empty(X, [])
    expected = with_empty(model.predict_proba(X), np.zeros((0, 3)))
    for row, right in zip(model.predict_proba(filled), expected, strict=True):
        np.testing.assert_array_equal(row, right)
    marginals = model.predict_marginals(filled)
    assert marginals.tolist() == with_empty(model.predict_marginals(X), [])


@pytest.mark.parametrize("model", MODELS, ids=lambda model: repr(model)[9:50])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_nothing_but_empty_sequences(full, model):
    model.set_params(n_jobs=None).fit(*full)
    for X in ([[], ()], np.zeros((2, 0, 3)), [sparse.csr_array((0, 3))] * 2):
        assert [row.shape for row in model.predict(X)] == [(0,), (0,)]
        assert model.decision_function(X).tolist() == [0.0, 0.0]
        labelings, scores = model.predict_topk(X, 3)
        assert [row.shape for row in labelings] == [(1, 0), (1, 0)]
        assert [row.tolist() for row in scores] == [[0.0], [0.0]]
        if hasattr(model, "predict_proba"):
            assert [row.shape for row in model.predict_proba(X)] == [(0, 3), (0, 3)]
            assert model.predict_marginals(X).tolist() == [[], []]
        with pytest.raises(ValueError, match=r"no sequence .* has positions"):
            model.score(X, [[], []])


def test_constraints(full):
    X, y = full
    model = ChainCRF(loss="log", random_state=0).fit(X, y)
    filled = with_empty(X, [])
    known = with_empty([[2, None, 0], None, None, None], [])
    predicted = model.predict(filled, known=known)
    assert predicted[1][[0, 2]].tolist() == [2, 0]
    with pytest.raises(ValueError, match=r"known\[0\] has 1 entries, but X\[0\] has 0"):
        model.predict(filled, known=with_empty(known, [1]))
    # errors number the sequences as they were given
    impossible = [*[None] * 5, [{0, 1, 2}] * 4, None, None]
    with pytest.raises(ValueError, match=r"X\[5\]: the constraints leave no labeling"):
        model.predict(filled, excluded=impossible)


class TestTraining:
    @pytest.mark.parametrize("loss", ["hinge", "log"])
    def test_unobserved_labels(self, full, loss):
        X, y = full
        y = [[None, *row[1:].tolist()] if len(row) > 1 else row for row in y]
        model = ChainCRF(loss=loss, random_state=0)
        expected = model.fit(X, y).coef_
        found = model.fit(with_empty(X, []), with_empty(y, [])).coef_
        np.testing.assert_array_equal(found, expected)
        assert model.n_seen_ == 4

    def test_partial_fit(self, full):
        X, y = full
        models = [ChainCRF(random_state=0) for _ in range(2)]
        for _ in range(2):
            models[0].partial_fit(X, y, classes=[0, 1, 2])
            models[1].partial_fit(
                with_empty(X, []), with_empty(y, []), classes=[0, 1, 2]
            )
        np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
        assert models[0].n_seen_ == models[1].n_seen_ == 8
        with pytest.raises(ValueError, match="X has no positions"):
            models[0].partial_fit([[]], [[]])

    def test_path(self, full):
        X, y = full
        options = {"epsilon": 0.1, "alpha_min": 0.05}
        expected = ssvm_path(ChainCRF(random_state=0), X, y, **options)
        found = ssvm_path(
            ChainCRF(random_state=0), with_empty(X, []), with_empty(y, []), **options
        )
        np.testing.assert_array_equal(found.lower, expected.lower)

    def test_errors(self, full):
        X, y = with_empty(full[0], []), with_empty(full[1], [])
        with pytest.raises(ValueError, match="X has no positions"):
            ChainCRF().fit([[], []], [[], []])
        with pytest.raises(ValueError, match=r"y\[2\] has 1 labels, but X\[2\] has 0"):
            ChainCRF().fit(X, [*y[:2], [1], *y[3:]])
        weight = [1.0 * (i < 0) for i in ORDER]
        with pytest.raises(ValueError, match="zero for every sequence that has pos"):
            ChainCRF().fit(X, y, sample_weight=weight)
        with pytest.raises(ValueError, match="no sequence of positive weight"):
            ChainCRF().fit(*full).score(X, y, sample_weight=weight)
        forbidden = [(int(y[5][0]), int(y[5][1]))]
        with pytest.raises(ValueError, match=r"y\[[15]\] has the forbidden transition"):
            ChainCRF(forbidden_transitions=forbidden).fit(X, y)

    def test_dicts(self):
        X, y = [[], [{"w": "he"}, ["w=ran"]], []], [[], ["PRP", "VBD"], []]
        tagger = make_tagger().fit(X, y)
        assert [row.tolist() for row in tagger.predict(X)] == y
        assert tagger.predict([[]])[0].tolist() == []


def test_metrics():
    y_true, y_pred = [[], ["B-x", "O"], []], [[], ["B-x", "B-x"], []]
    assert token_accuracy_score(y_true, y_pred) == 0.5
    assert token_accuracy_score(y_true, y_pred, sample_weight=[5, 1, 2]) == 0.5
    assert sequence_accuracy_score(y_true, y_pred) == pytest.approx(2 / 3)
    assert chunk_f1_score(y_true, y_pred) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="no sequence of positive weight"):
        token_accuracy_score(y_true, y_pred, sample_weight=[1, 0, 1])
    with pytest.raises(ValueError, match="y_true has empty sequences only"):
        token_accuracy_score([[]], [[]])
