import numpy as np
import pytest
import sklearn.metrics
from sklearn.exceptions import UndefinedMetricWarning

from sksstruct import metrics

TRUE = [["B-NP", "I-NP", "O", "B-VP"], ["O", "B-NP"]]
PRED = [["B-NP", "I-NP", "O", "B-NP"], ["O", "B-NP"]]


def test_accuracies():
    assert metrics.token_accuracy_score(TRUE, PRED) == pytest.approx(5 / 6)
    assert metrics.sequence_accuracy_score(TRUE, PRED) == 0.5
    weight = [1.0, 3.0]
    assert metrics.token_accuracy_score(TRUE, PRED, sample_weight=weight) == 0.9
    assert metrics.sequence_accuracy_score(TRUE, PRED, sample_weight=weight) == 0.75


def test_flat_scores():
    y = [[0, 1], [1]]
    assert metrics.flat_f1_score(y, y, average="macro") == 1.0
    assert "macro avg" in metrics.flat_classification_report(y, y)
    report = metrics.flat_classification_report(
        TRUE, PRED, output_dict=True, zero_division=0
    )
    assert report["O"]["recall"] == 1.0


def test_flat_scores_are_those_of_scikit_learn():
    """Of all positions, weighted by position or by sequence; None is left out."""
    rng = np.random.default_rng(0)
    lengths = [3, 0, 5, 4]
    true, pred = (
        [rng.choice(["a", "b", "c"], n).tolist() for n in lengths] for _ in "tp"
    )
    weight = rng.random(len(lengths))
    flat = np.concatenate(true), np.concatenate(pred)
    for name, given in (
        ("accuracy", {}),
        ("precision", {"average": "macro"}),
        ("recall", {"average": "weighted"}),
        ("fbeta", {"average": None, "beta": 0.5}),
        ("f1", {"average": "micro", "labels": ["a", "c"]}),
    ):
        score = getattr(metrics, f"flat_{name}_score")
        peer = getattr(sklearn.metrics, f"{name}_score")
        np.testing.assert_array_equal(score(true, pred, **given), peer(*flat, **given))
        found = score(true, pred, sample_weight=weight, **given)
        each = np.repeat(weight, lengths)
        np.testing.assert_allclose(found, peer(*flat, sample_weight=each, **given))
        known = [[None, *true[0][1:]], *true[1:]]
        np.testing.assert_array_equal(
            score(known, pred, **given), peer(*(part[1:] for part in flat), **given)
        )
        with pytest.raises(ValueError, match="as many sequences as y_true, 4, got 3"):
            score(true, pred[1:], **given)


def test_flat_lists_are_refused():
    with pytest.raises(TypeError, match="y_true must be a list of label sequences"):
        metrics.token_accuracy_score([1, 2], [1, 2])
    with pytest.raises(ValueError, match="empty sequences only"):
        metrics.token_accuracy_score([[]], [[]])


def test_arrays_and_lists_mix():
    a, b = [np.array(["x", "y"])], [["x", "z"]]
    assert metrics.token_accuracy_score(a, b) == 0.5


def test_no_sequences():
    with pytest.warns(UndefinedMetricWarning, match="no sequences"):
        assert metrics.sequence_accuracy_score([], []) == 0.0
    with pytest.raises(ValueError, match="y_true"):
        metrics.sequence_accuracy_score([], [["a"]])


@pytest.mark.parametrize(
    ("y_true", "y_pred", "message"),
    [
        ([], [], "y_true is empty"),
        ([["a"]], [["a"], ["b"]], "as many sequences as y_true, 1, got 2"),
        ([["a"], ["a", "b"]], [["a"], ["b"]], r"y_pred\[1\] must have as many labels"),
    ],
)
def test_errors(y_true, y_pred, message):
    names = ["token_accuracy_score", "flat_accuracy_score", "chunk_f1_score"]
    if y_true:
        names.append("sequence_accuracy_score")
    for name in (*names, "chunk_match_scores"):
        with pytest.raises(ValueError, match=message):
            getattr(metrics, name)(y_true, y_pred)
