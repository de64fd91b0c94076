"""Scores where some true labels are None, and others are sets of labels."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import UndefinedMetricWarning

from sksstruct import metrics
from sksstruct.metrics import (
    box_accuracy_score,
    chunk_classification_report,
    chunk_precision_recall_fscore,
    flat_classification_report,
    flat_f1_score,
    iter_chunks,
    mask_iou_score,
    mean_cost,
    sequence_accuracy_score,
    token_accuracy_score,
)
from sksstruct.utils.packed import PackedLabels

LABELS = np.array(["a", "b", "c"])
TOKENS = {
    "accuracy": token_accuracy_score,
    "sequences": sequence_accuracy_score,
    "macro": lambda *y, **kw: flat_f1_score(*y, average="macro", **kw),
    "each": lambda *y, **kw: flat_f1_score(*y, average=None, labels=LABELS, **kw),
    "report": lambda *y, **kw: flat_classification_report(*y, digits=6, **kw),
    "masks": mask_iou_score,
    "images": lambda *y, **kw: mask_iou_score(*y, per="image", **kw),
}
KINDS = {"list": list, "array": lambda row: np.array(row, dtype=object)}


def labelings(seed, n=30, labels=LABELS):
    """True and predicted labels, and where the former are known: at one at least."""
    rng = np.random.RandomState(seed)
    true, found, known = [], [], []
    for size in rng.randint(1, 7, size=n):
        true.append(labels[rng.randint(len(labels), size=size)].tolist())
        noise = rng.rand(size) < 0.4
        found.append(np.where(noise, rng.choice(labels, size=size), true[-1]).tolist())
        known.append(rng.rand(size) < 0.6)
        known[-1][rng.randint(size)] = True
    return true, found, known


def hidden(true, known, kind=list):
    out = []
    for row, some in zip(true, known, strict=True):
        labels = [label if k else None for label, k in zip(row, some, strict=True)]
        out.append(kind(labels))
    return out


def cut(y, known):
    return [np.array(row)[k].tolist() for row, k in zip(y, known, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", TOKENS)
def test_positions_without_a_label_are_cut_out(name, weighted, kind):
    true, found, known = labelings(0)
    kwargs = {}
    if weighted:
        kwargs["sample_weight"] = np.random.RandomState(1).randint(3, size=len(true))
    score, partly = TOKENS[name], hidden(true, known, KINDS[kind])
    expected = score(cut(true, known), cut(found, known), **kwargs)
    assert np.all(score(partly, found, **kwargs) == expected)
    assert np.any(score(true, found, **kwargs) != expected)
    # sequences of which nothing is known are left out
    more = [*partly, KINDS[kind]([None, None])], [*found, ["a", "b"]]
    if weighted:
        kwargs["sample_weight"] = [*kwargs["sample_weight"], 5]
    assert np.all(score(*more, **kwargs) == expected)


@pytest.mark.parametrize("name", ["macro", "each", "report"])
def test_weights_of_positions(name):
    true, found, known = labelings(0)
    weight = np.random.RandomState(1).randint(1, 4, size=len(np.concatenate(true)))
    partly = hidden(true, known)
    expected = TOKENS[name](
        cut(true, known),
        cut(found, known),
        sample_weight=weight[np.concatenate(known)],
    )
    assert np.all(TOKENS[name](partly, found, sample_weight=weight) == expected)


@pytest.mark.parametrize("kind", [set, frozenset])
@pytest.mark.parametrize("name", TOKENS)
def test_a_set_is_met_by_any_of_its_labels(name, kind):
    true, found, _ = labelings(2)
    rng = np.random.RandomState(0)
    sets, resolved = [], []
    for row, predicted in zip(true, found, strict=True):
        sets.append([kind([k, rng.choice(LABELS)]) for k in row])
        resolved.append(
            [p if p in s else min(s) for s, p in zip(sets[-1], predicted, strict=True)]
        )
    assert resolved != true
    expected = TOKENS[name](resolved, found)
    assert np.all(TOKENS[name](sets, found) == expected)


@pytest.mark.parametrize("name", [*TOKENS, "chunks", "chunk report"])
def test_nothing_is_known(name):
    score = {
        **TOKENS,
        "chunks": chunk_precision_recall_fscore,
        "chunk report": chunk_classification_report,
    }[name]
    with pytest.raises(ValueError, match="y_true has no known label"):
        score([[None, None], [None]], [["O", "O"], ["O"]])
    with pytest.raises(ValueError, match=r"y_pred\[1\] has a missing label|image"):
        # of predictions only masks take what they are given
        if name in ("masks", "images"):
            raise ValueError("image")
        score([["O", "O"], ["O"]], [["O", "O"], [None]])


@pytest.mark.parametrize("name", TOKENS)
def test_weights_of_what_is_not_known_alone(name):
    with pytest.raises(ValueError, match="no sequence of positive weight"):
        TOKENS[name]([["a", "a"], [None]], [["a", "b"], ["a"]], sample_weight=[0, 1])


BAD = {
    r"y_true\[1\] has the set set\(\)": ({}, ValueError),
    r"y_true\[1\] has the set .*None": ({"a", None}, ValueError),
    r"y_true\[1\] has a missing label: nan": ({"a", np.nan}, ValueError),
    r"y_true\[1\] has the set .*frozenset": ({"a", frozenset("b")}, TypeError),
}


@pytest.mark.parametrize("text", BAD)
def test_bad_sets(text):
    labels, error = BAD[text]
    for score in (token_accuracy_score, chunk_precision_recall_fscore, mask_iou_score):
        with pytest.raises(error, match=text):
            score([["a"], [set(labels), "a"]], [["a"], ["a", "b"]])


def test_sets_are_no_predictions():
    for kind in (set, frozenset):
        with pytest.raises(TypeError, match=r"y_pred\[0\] has the set"):
            token_accuracy_score([["a"]], [[kind("ab")]])


def test_packed_labels_and_missing_numbers():
    y = PackedLabels([0, -1, 1], offsets=[0, 2, 3], classes=["a", "b"])
    assert token_accuracy_score(y, [["b", "a"], ["b"]]) == 0.5
    with pytest.raises(TypeError, match="a class is a label"):
        PackedLabels([0], offsets=[0, 1], classes=[frozenset("ab")])
    with pytest.raises(ValueError, match=r"y_true\[0\] has a missing label: nan"):
        mask_iou_score([[0.0, np.nan]], [[0.0, 1.0]])


# ---- chunks ----

LETTERS = {"BIO": "BI", "IOB1": "BI", "IOBES": "BIES", "BILOU": "BILU"}


def tags(scheme):
    return np.array(["O", *(f"{k}-{x}" for x in "xy" for k in LETTERS[scheme])])


def numbers(true, found, scheme, strict):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        report = chunk_classification_report(
            true, found, scheme=scheme, strict=strict, output_dict=True
        )
        return report, *chunk_precision_recall_fscore(
            true, found, scheme=scheme, strict=strict
        )


@pytest.mark.slow
@pytest.mark.parametrize("scheme", LETTERS)
@pytest.mark.parametrize("strict", [False, True])
def test_chunks_do_not_depend_on_predictions_without_a_label(scheme, strict):
    every = tags(scheme)
    for seed in range(30):
        true, found, known = labelings(seed, 6, every)
        rng, partly = np.random.RandomState(seed), hidden(true, known)
        expected = numbers(partly, found, scheme, strict)
        for _ in range(5):
            other = [
                np.where(k, row, rng.choice(every, size=len(row))).tolist()
                for row, k in zip(found, known, strict=True)
            ]
            assert numbers(partly, other, scheme, strict) == expected


def slow_counts(true, found, known):
    """Numbers of chunks of BIO: true, found and right ones that labels settle."""
    n_true = n_found = n_right = 0
    for row, predicted, some in zip(true, found, known, strict=True):
        rows, kept = (row, predicted), []
        for each in rows:
            kept.append(set())
            for kind, start, stop in iter_chunks(each, scheme="BIO"):
                begins = start == 0 or some[start - 1]
                begins = begins or all(r[start][0] in "OB" for r in rows)
                ends = stop == len(row) or some[stop]
                ends = ends or all(r[stop - 1] == "O" for r in rows)
                if begins and ends and all(some[start:stop]):
                    kept[-1].add((kind, start, stop))
        n_true, n_found = n_true + len(kept[0]), n_found + len(kept[1])
        n_right += len(kept[0] & kept[1])
    return n_true, n_found, n_right


@pytest.mark.slow
def test_chunks_one_by_one():
    total = 0
    for seed in range(30):
        true, found, known = labelings(seed, 20, tags("BIO"))
        n_true, n_found, n_right = slow_counts(true, found, known)
        _, precision, recall, _ = numbers(hidden(true, known), found, "BIO", False)
        assert precision == pytest.approx(n_right / n_found)
        assert recall == pytest.approx(n_right / n_true)
        total += n_right
    assert total > 100


@pytest.mark.slow
@pytest.mark.parametrize("scheme", LETTERS)
@pytest.mark.parametrize("strict", [False, True])
def test_chunks_with_known_ends_are_those_of_the_pieces(scheme, strict):
    """Positions between labels "O" are cut out."""
    every = tags(scheme)
    # in IOB1, two labels say whether a third one is well-formed
    end = ["O"] * (2 if strict and scheme == "IOB1" else 1)
    for seed in range(20):
        rng, apart, joined = np.random.RandomState(seed), ([], []), ([], [])
        for row in range(6):
            for number in range(3):
                pair = labelings(100 * seed + 10 * row + number, 1, every)[:2]
                for k, (label, each) in enumerate(
                    zip((None, rng.choice(every)), pair, strict=True)
                ):
                    apart[k].append([*end, *each[0], *end])
                    if number:
                        joined[k][-1] += [label, *apart[k][-1]]
                    else:
                        joined[k].append([*apart[k][-1]])
        assert numbers(*joined, scheme, strict) == numbers(*apart, scheme, strict)


def test_chunks_by_hand():
    def score(true, found, **options):
        return numbers([true], [found], options.get("scheme", "auto"), False)[1:]

    # the label beside it says where the chunk begins, but not where it ends
    assert score([None, "B-x", "O"], ["O", "B-x", "O"])[2] == 1.0
    assert score(["B-x", None], ["B-x", "O"])[2] == 0.0
    assert score(["B-x", None, "S-y"], ["S-x", "O", "S-y"])[:2] == (1.0, 1.0)
    assert score([None, "S-x", None], ["S-x", "S-x", "S-x"])[2] == 1.0
    # a set
    assert score([{"O", "B-x"}, "O"], ["B-x", "O"])[2] == 1.0
    assert score([{"O", "B-x"}, "B-y"], ["O", "B-y"])[2] == 1.0


def test_the_scheme_is_that_of_known_labels():
    """An inside label after None may be well-formed."""
    y = [["O", None, "I-x", "O", "B-x", "O"]]
    found = [["O", "B-x", "I-x", "O", "B-x", "O"]]
    assert chunk_precision_recall_fscore(y, found, strict=True) == (1.0, 1.0, 1.0)
    found = [["O", "O", "I-x", "O", "B-x", "O"]]
    assert chunk_precision_recall_fscore(y, found, strict=True) == (1.0, 1.0, 1.0)


# ---- one label for each sample ----

COSTS = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 1.0], [5.0, 2.0, 0.0]])


def test_costs():
    rng = np.random.RandomState(0)
    true, found = LABELS[rng.randint(3, size=(2, 40))]
    known, weight = rng.rand(40) < 0.6, rng.rand(40)
    partly = np.where(known, true, None)
    given = {"labels": LABELS, "sample_weight": weight}
    assert mean_cost(partly, found, COSTS, **given) == pytest.approx(
        mean_cost(true[known], found[known], COSTS, labels=LABELS,
                  sample_weight=weight[known])
    )  # fmt: skip
    assert mean_cost(partly.tolist(), found, COSTS) == pytest.approx(
        mean_cost(true[known], found[known], COSTS)
    )
    # what costs least of a set
    for kind in (set, frozenset):
        sets = [kind("ab"), kind("bc"), kind("ac")]
        assert mean_cost(sets, ["a", "a", "b"], COSTS) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="y_true has no known label"):
        mean_cost([None], ["a"], COSTS, labels=LABELS)
    with pytest.raises(ValueError, match="the class 'z', which is not one of labels"):
        mean_cost([{"a", "z"}], ["a"], COSTS, labels=LABELS)
    with pytest.raises(ValueError, match=r"y_true\[1\] has the set set"):
        mean_cost(["a", set()], ["a", "a"], COSTS, labels=LABELS)


def test_labels_of_boxes():
    box, far = (0, 0, 2, 2), (5, 5, 6, 6)
    true = [(box, "a"), (box, None), (box, {"a", "b"}), (box, frozenset("ab"))]
    found = [(box, "a"), (far, "a"), (box, "b"), (box, "c")]
    assert box_accuracy_score(true, found) == pytest.approx(2 / 3)
    assert box_accuracy_score(true, found, sample_weight=[0, 9, 0, 1]) == 0.0
    assert metrics.box_overlap_score(true, found) == 0.75
    with pytest.raises(ValueError, match="y_true has no known label"):
        box_accuracy_score([(box, None)], [(box, "a")])
