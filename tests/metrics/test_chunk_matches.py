"""Partial matches of chunks, against their definition and against nervaluate."""

from itertools import product

import numpy as np
import pytest

from sksstruct import metrics

MATCHES = ("strict", "exact", "partial", "type")
TAGS = ["O", *(f"{letter}-{kind}" for letter in "BI" for kind in "XYZ")]


def random_labels(seed, n_sequences=6):
    rng = np.random.default_rng(seed)
    pairs = []
    for length in rng.integers(1, 14, size=n_sequences):
        true = rng.choice(TAGS, length, p=[0.25, *[0.09] * 3, *[0.16] * 3])
        # most chunks keep some of their labels
        other = np.where(rng.random(length) < 0.6, true, rng.choice(TAGS, length))
        pairs.append((true.tolist(), other.tolist()))
    return tuple(map(list, zip(*pairs, strict=True)))


def counted(true, found, match):
    """Outcomes of two sets of chunks (type, begin, end) of one sequence, in words."""
    counts = dict.fromkeys(("correct", "incorrect", "partial", "missed", "spurious"), 0)
    left = list(true)
    for chunk in found:
        free = [c for c in left if c[1] < chunk[2] and chunk[1] < c[2]]
        if not free:
            counts["spurious"] += 1
            continue
        same = [c for c in free if c[0] == chunk[0]]
        pair = free[0]
        if match == "type" and same:
            ends = [abs(c[1] - chunk[1]) + abs(c[2] - chunk[2]) for c in same]
            pair = same[ends.index(min(ends))]
        left.remove(pair)
        equal = [pair[0] == chunk[0], pair[1:] == chunk[1:]]
        right = {"strict": all(equal), "type": equal[0]}.get(match, equal[1])
        wrong = "partial" if match == "partial" else "incorrect"
        counts["correct" if right else wrong] += 1
    counts["missed"] = len(left)
    return counts


@pytest.mark.parametrize("seed", range(20))
def test_counts_and_scores_by_definition(seed):
    y_true, y_pred = random_labels(seed)
    scores = metrics.chunk_match_scores(y_true, y_pred)
    chunks = [[list(metrics.iter_chunks(row)) for row in y] for y in (y_true, y_pred)]
    n_true, n_found = (sum(map(len, y)) for y in chunks)
    assert list(scores) == list(MATCHES)
    for match, row in scores.items():
        each = [counted(*pair, match) for pair in zip(*chunks, strict=True)]
        expected = {name: sum(counts[name] for counts in each) for name in each[0]}
        assert {name: row[name] for name in expected} == expected
        right = row["correct"] + row["partial"] / 2
        assert row["precision"] == pytest.approx(right / n_found)
        assert row["recall"] == pytest.approx(right / n_true)
        harmonic = 2 / (1 / row["precision"] + 1 / row["recall"]) if right else 0.0
        assert row["f1-score"] == pytest.approx(harmonic)
    assert scores["strict"]["f1-score"] == metrics.chunk_f1_score(y_true, y_pred)


def spans_of(row):
    """Chunks as nervaluate takes them: the end is the last position."""
    return [
        {"label": kind, "start": start, "end": end - 1}
        for kind, start, end in metrics.iter_chunks(row)
    ]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("by_type", [False, True])
def test_agrees_with_nervaluate(seed, by_type):
    nervaluate = pytest.importorskip("nervaluate")
    y_true, y_pred = random_labels(seed)
    # chunks as BIO labels, which nervaluate reads in the same way
    pair = [metrics.convert_labels(y, to="BIO") for y in (y_true, y_pred)]
    spans = [[spans_of(row) for row in y] for y in pair]
    evaluator = nervaluate.Evaluator(*spans, tags=list("XYZ"), loader="dict")
    peer = evaluator.evaluate()
    scores = metrics.chunk_match_scores(y_true, y_pred, by_type=by_type)
    expected = peer["entities"] if by_type else {"all": peer["overall"]}
    if not by_type:
        scores = {"all": scores}
    for (kind, rows), match in product(scores.items(), MATCHES):
        row, other = rows[match], expected[kind][match.replace("type", "ent_type")]
        for name, value in row.items():
            key = {"f1-score": "f1"}.get(name, name)
            assert value == pytest.approx(getattr(other, key)), (kind, match, name)


def test_pairs_by_hand():
    """A long prediction is paired with one true chunk; the nearest of its type."""
    true = [["B-X", "B-Y", "I-Y", "B-X", "I-X", "I-X", "O", "B-Z"]]
    pred = [["B-X", "I-X", "I-X", "I-X", "I-X", "I-X", "O", "O"]]
    scores = metrics.chunk_match_scores(true, pred)
    assert scores["type"]["correct"] == 1
    assert scores["partial"]["partial"] == 1
    assert [scores[match]["missed"] for match in MATCHES] == [3, 3, 3, 3]
    by_type = metrics.chunk_match_scores(true, pred, by_type=True)
    assert list(by_type) == ["X", "Y", "Z"]
    assert by_type["Y"]["partial"]["missed"] == 1
    assert by_type["X"]["partial"]["recall"] == 0.25


def test_chunks_of_other_sequences_and_none_at_all():
    """Chunks at the same positions of other sequences do not overlap."""
    scores = metrics.chunk_match_scores([["B-X"], ["O"]], [["O"], ["B-X"]])
    assert scores["partial"]["missed"] == scores["partial"]["spurious"] == 1
    scores = metrics.chunk_match_scores([["O"]], [["O"]])
    assert scores["type"]["f1-score"] == scores["type"]["precision"] == 0.0
    assert metrics.chunk_match_scores([["O"]], [["O"]], by_type=True) == {}
    # what is not known is left out, and so is what was predicted there
    scores = metrics.chunk_match_scores([["B-X", "O", None]], [["B-X", "O", "B-X"]])
    assert scores["strict"]["correct"] == 1 and not scores["strict"]["spurious"]
