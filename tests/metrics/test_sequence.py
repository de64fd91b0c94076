import numpy as np
import pytest
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


@pytest.mark.parametrize(
    ("tags", "chunks"),
    [
        ([], []),
        (["O"], []),
        (["B-A"], [("A", 0, 1)]),
        (["B-A", "B-A"], [("A", 0, 1), ("A", 1, 2)]),
        (["B-A", "I-A", "I-B"], [("A", 0, 2), ("B", 2, 3)]),
        (["I-A", "I-A", "O", "I-A"], [("A", 0, 2), ("A", 3, 4)]),
        (["B-A", "O", "I-A"], [("A", 0, 1), ("A", 2, 3)]),
        (["B-X-Y", "I-X-Y"], [("X-Y", 0, 2)]),
        (["A", "B"], []),
    ],
    ids=str,
)
def test_chunks_as_conlleval_reads_them(tags, chunks):
    assert list(metrics.iter_chunks(tags)) == chunks


def test_chunk_scores():
    precision, recall, f1 = metrics.chunk_precision_recall_fscore(TRUE, PRED)
    assert (precision, recall) == (2 / 3, 2 / 3)
    assert f1 == metrics.chunk_f1_score(TRUE, PRED) == pytest.approx(2 / 3)
    with pytest.warns(UndefinedMetricWarning, match="y_pred"):
        assert metrics.chunk_f1_score([["B-A"]], [["O"]]) == 0.0


def test_report_of_chunks():
    rng = np.random.default_rng(0)
    tags = np.array(["B-a", "I-a", "B-bb", "I-bb", "O", "I-c"])
    y_true = [list(tags[rng.integers(5, size=n)]) for n in (5, 1, 9, 7)]
    y_pred = [list(tags[rng.integers(6, size=n)]) for n in (5, 1, 9, 7)]
    report = metrics.chunk_classification_report(y_true, y_pred, output_dict=True)
    assert list(report) == ["a", "bb", "c", "all"]
    scores = metrics.chunk_precision_recall_fscore(y_true, y_pred)
    assert tuple(report["all"].values())[:3] == pytest.approx(scores)
    for kind in ("a", "bb", "c"):
        # what is left of other kinds does not end a chunk of this one
        only = [
            [[tag if tag[2:] == kind else "O" for tag in row] for row in y]
            for y in (y_true, y_pred)
        ]
        true = sum(len(list(metrics.iter_chunks(row))) for row in only[0])
        assert report[kind]["support"] == true
        if true:
            scores = metrics.chunk_precision_recall_fscore(*only)
            assert tuple(report[kind].values())[:3] == pytest.approx(scores)
    assert report["c"] == dict.fromkeys(["precision", "recall", "f1-score"], 0.0) | {
        "support": 0
    }
    lines = metrics.chunk_classification_report(y_true, y_pred, digits=3).splitlines()
    assert len(lines) == 5 and lines[-1].split()[0] == "all"
    with pytest.raises(ValueError, match="labels"):
        metrics.chunk_classification_report(y_true, [row[:-1] for row in y_true])


def test_flat_scores():
    y = [[0, 1], [1]]
    assert metrics.flat_f1_score(y, y, average="macro") == 1.0
    assert "macro avg" in metrics.flat_classification_report(y, y)
    report = metrics.flat_classification_report(
        TRUE, PRED, output_dict=True, zero_division=0
    )
    assert report["O"]["recall"] == 1.0


def test_flat_lists_are_refused():
    with pytest.raises(TypeError, match="y_true must be a list of label sequences"):
        metrics.token_accuracy_score([1, 2], [1, 2])
    with pytest.raises(ValueError, match="no labels"):
        metrics.token_accuracy_score([[]], [[]])


def test_arrays_and_lists_mix():
    a, b = [np.array(["x", "y"])], [["x", "z"]]
    assert metrics.token_accuracy_score(a, b) == 0.5


@pytest.mark.parametrize(
    ("y_true", "y_pred", "message"),
    [
        ([], [], "y_true is empty"),
        ([["a"]], [["a"], ["b"]], "y_pred has 2 sequences"),
        ([["a"], ["a", "b"]], [["a"], ["b"]], r"y_pred\[1\] has 1 labels"),
    ],
)
def test_errors(y_true, y_pred, message):
    for name in ("token_accuracy_score", "sequence_accuracy_score", "chunk_f1_score"):
        with pytest.raises(ValueError, match=message):
            getattr(metrics, name)(y_true, y_pred)
