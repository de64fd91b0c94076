"""Metrics of alignments, masks, boxes, poses and costs, by hand and by brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, jaccard_score
from sklearn.model_selection import GridSearchCV, cross_val_score

from sksstruct import SSVMClassifier, SSVMPathCV
from sksstruct.metrics import (
    alignment_error_rate,
    alignment_error_rate_scorer,
    box_accuracy_score,
    box_accuracy_scorer,
    box_average_precision_score,
    box_overlap_score,
    box_overlap_scorer,
    box_overlaps,
    make_cost_scorer,
    mask_iou_score,
    mask_iou_scorer,
    mean_cost,
    pck_score,
    pcp_score,
)
from sksstruct.models import CandidatesModel, GraphModel, MatchingModel, MulticlassModel

SEEDS = st.integers(0, 10**6)


# ---- alignments ----


@settings(max_examples=100)
@given(SEEDS, st.booleans())
def test_alignment_error_rate_by_sets(seed, as_matching):
    rng = np.random.RandomState(seed)
    links, found, right, total = [], [], 0.0, 0.0
    weight = rng.randint(1, 4, size=3)
    for w in weight:
        n, m = rng.randint(1, 5, size=2)
        link = rng.choice([-1, 0, 0, 1], size=(n, m))
        columns = rng.randint(-1, m, size=n)
        a = {(i, j) for i, j in enumerate(columns) if j >= 0}
        s = set(zip(*np.nonzero(link == 1), strict=True))
        p = set(zip(*np.nonzero(link), strict=True))
        right += w * (len(a & s) + len(a & p))
        total += w * (len(a) + len(s))
        links.append(link)
        found.append(columns)
        if not as_matching:
            found[-1] = np.zeros((n, m), dtype=bool)
            for i, j in a:
                found[-1][i, j] = True
    rate = alignment_error_rate(links, found, sample_weight=weight)
    assert rate == pytest.approx(1 - right / total if total else 0.0)
    assert -1e-15 <= rate <= 1.0


def test_alignment_error_rate_by_hand():
    links = [[[1, 0, 0], [0, -1, 0], [0, 0, 1]]]
    # all sure ones, and nothing that is not possible
    assert alignment_error_rate(links, [[0, -1, 2]]) == 0.0
    assert alignment_error_rate(links, [[0, 1, 2]]) == 0.0
    assert alignment_error_rate(links, [[-1, -1, -1]]) == 1.0
    assert alignment_error_rate(links, [[1, -1, 2]]) == pytest.approx(0.5)
    assert alignment_error_rate([[[0, 0]]], [[-1]]) == 0.0


@pytest.mark.parametrize(
    ("y_true", "y_pred", "match"),
    [
        ([], [], "empty"),
        ([[[1]]], [], "as many outputs as y_true, 1, got 0"),
        ([[[2]]], [[0]], r"y_true\[0\] must be an array"),
        ([[1, 0]], [[0]], r"y_true\[0\] must be an array"),
        ([[[1, 0]]], [[2]], r"y_pred\[0\] must be columns, integers from 0 to 1"),
        ([[[1, 0]]], [[-2]], "integers from 0 to 1, or -1"),
        ([[[1, 0]]], [[0.5]], "integers from 0 to 1, or -1"),
        ([[[1, 0]]], [[0, 1]], r"y_pred\[0\] must have the shape"),
    ],
)
def test_alignment_errors(y_true, y_pred, match):
    with pytest.raises(ValueError, match=match):
        alignment_error_rate(y_true, y_pred)


# ---- masks ----


def masks(seed, n=4, n_classes=3):
    rng = np.random.RandomState(seed)
    shapes = [tuple(rng.randint(1, 6, size=2)) for _ in range(n)]
    true = [rng.randint(n_classes, size=shape) for shape in shapes]
    return true, [np.where(rng.rand(*y.shape) < 0.5, y, 0) for y in true]


@pytest.mark.slow
@settings(max_examples=60)
@given(SEEDS)
def test_masks_are_the_jaccard_score_of_all_pixels(seed):
    true, found = masks(seed)
    flat = [np.concatenate([y.ravel() for y in each]) for each in (true, found)]
    for average in ("macro", None):
        expected = jaccard_score(*flat, average=average, zero_division=0)
        np.testing.assert_allclose(
            mask_iou_score(true, found, average=average), expected
        )
    weight = np.arange(1, 5)
    pixel_weight = np.repeat(weight, [y.size for y in true])
    expected = jaccard_score(
        *flat, average="macro", sample_weight=pixel_weight, zero_division=0
    )
    assert mask_iou_score(true, found, sample_weight=weight) == pytest.approx(expected)


@pytest.mark.slow
@settings(max_examples=60)
@given(SEEDS)
def test_masks_image_by_image(seed):
    true, found = masks(seed, n_classes=2)
    alone = []
    for y, z in zip(true, found, strict=True):
        if (y | z).any():
            alone.append(jaccard_score(y.ravel(), z.ravel(), zero_division=0))
    score = mask_iou_score(true, found, labels=[1], per="image")
    if alone:
        assert score == pytest.approx(np.mean(alone))
    else:
        assert np.isnan(score)


def test_masks_of_classes_that_do_not_occur():
    scores = mask_iou_score([[0, 1]], [[0, 0]], labels=[0, 1, 2], average=None)
    np.testing.assert_array_equal(scores, [0.5, 0.0, np.nan])
    assert mask_iou_score([[0, 1]], [[0, 0]], labels=[0, 1, 2]) == 0.25
    assert mask_iou_score([["a", "b"]], [["a", "b"]]) == 1.0


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"y_pred": [[0, 1, 1]]}, r"y_pred\[0\] must have the shape"),
        ({"y_pred": []}, "outputs"),
        ({"average": "micro"}, "average"),
        ({"per": "pixel"}, "per must"),
        ({"sample_weight": [1.0, 1.0]}, "sample_weight"),
    ],
)
def test_mask_errors(arguments, match):
    given_ = {"y_true": [[0, 1]], "y_pred": [[0, 1]], **arguments}
    with pytest.raises(ValueError, match=match):
        mask_iou_score(given_.pop("y_true"), given_.pop("y_pred"), **given_)


# ---- boxes ----


def random_boxes(rng, n, size=6):
    corners = np.sort(rng.randint(size + 1, size=(n, 2, 2)), axis=1)
    return corners.reshape(n, 4)


def pixels(box, size=6):
    mask = np.zeros((size, size), dtype=bool)
    mask[box[0] : box[2], box[1] : box[3]] = True
    return mask


@pytest.mark.slow
@settings(max_examples=100)
@given(SEEDS)
def test_boxes_pixel_by_pixel(seed):
    rng = np.random.RandomState(seed)
    boxes, others = random_boxes(rng, 4), random_boxes(rng, 4)
    overlaps = box_overlaps(boxes, others)
    for i, box in enumerate(boxes):
        for j, other in enumerate(others):
            both, either = pixels(box) & pixels(other), pixels(box) | pixels(other)
            assert overlaps[i, j] == pytest.approx(both.sum() / max(either.sum(), 1))
    alone = np.diag(overlaps)
    weight = rng.randint(1, 4, size=4)
    assert box_overlap_score(boxes, others) == pytest.approx(alone.mean())
    assert box_overlap_score(
        list(boxes), [tuple(b) for b in others], sample_weight=weight
    ) == pytest.approx(np.average(alone, weights=weight))
    assert box_accuracy_score(boxes, others, threshold=0.2) == (alone > 0.2).mean()


def test_labels_of_boxes():
    y_true = [((0, 0, 2, 2), "a"), ((0, 0, 2, 2), "b")]
    y_pred = [((0, 0, 2, 2), "b"), ((0, 0, 2, 2), "b")]
    assert box_overlap_score(y_true, y_pred) == 1.0
    assert box_accuracy_score(y_true, y_pred) == 0.5
    # without labels on one side they do not matter
    assert box_accuracy_score([box for box, _ in y_true], y_pred) == 1.0


def slow_average_precision(true, found, scores, threshold):
    """By a pass over all cuts of the list."""
    entries = [
        (-s, i, k) for i, row in enumerate(scores) for k, s in enumerate(np.ravel(row))
    ]
    entries.sort(key=lambda e: e[0])
    taken, right = set(), []
    for _, i, k in entries:
        overlaps = [box_overlaps([found[i][k]], [b])[0, 0] for b in true[i]]
        best = int(np.argmax(overlaps)) if overlaps else None
        hit = best is not None and overlaps[best] > threshold and (i, best) not in taken
        if hit:
            taken.add((i, best))
        right.append(hit)
    n_true = sum(map(len, true))
    points = [
        (sum(right[:k]) / n_true, sum(right[:k]) / k) for k in range(1, len(right) + 1)
    ]
    recalls = sorted({recall for recall, _ in points if recall > 0})
    area, before = 0.0, 0.0
    for recall in recalls:
        area += (recall - before) * max(p for r, p in points if r >= recall)
        before = recall
    return area


@settings(max_examples=100)
@given(SEEDS, st.sampled_from([0.1, 0.5]))
def test_average_precision(seed, threshold):
    rng = np.random.RandomState(seed)
    true = [random_boxes(rng, rng.randint(0, 3), 4) for _ in range(3)]
    true[0] = random_boxes(rng, 1, 4)
    found = [random_boxes(rng, rng.randint(0, 4), 4) for _ in range(3)]
    scores = [rng.permutation(100)[: len(f)] / 10 for f in found]
    expected = slow_average_precision(true, found, scores, threshold)
    score = box_average_precision_score(true, found, scores, threshold=threshold)
    assert score == pytest.approx(expected)
    # only the order counts
    again = [np.exp(s) for s in scores]
    assert box_average_precision_score(
        true, found, again, threshold=threshold
    ) == pytest.approx(score)


def test_average_precision_of_what_is_right_or_missing():
    box = [(0, 0, 2, 2)]
    assert box_average_precision_score([box, box], [box, box], [[1.0], [0.0]]) == 1.0
    assert box_average_precision_score([box, box], [box, []], [[1.0], []]) == 0.5
    assert box_average_precision_score([box], [[]], [[]]) == 0.0
    # a second detection of the same object is wrong
    twice = [(0, 0, 2, 2), (0, 0, 2, 2)]
    assert box_average_precision_score([box], [twice], [[1.0, 2.0]]) == 1.0
    assert np.isnan(box_average_precision_score([[]], [box], [[1.0]]))


@pytest.mark.parametrize(
    ("function", "arguments", "match"),
    [
        (box_overlaps, ([(0, 0, 1)], [(0, 0, 1, 1)]), "boxes must be finite boxes"),
        (box_overlaps, ([(0, 0, np.nan, 1)], []), "finite"),
        (box_overlaps, ([(2, 0, 1, 1)], []), "ends before it begins"),
        (box_overlap_score, ([(0, 0, 1, 1)], [3]), r"y_pred\[0\] must be a box"),
        (box_overlap_score, ([(0, 0, 1, 1)], []), "outputs"),
        (
            box_average_precision_score,
            ([[]], [[]], []),
            "y_score must have scores for each of the 1",
        ),
        (
            box_average_precision_score,
            ([[]], [[]], [[1.0]]),
            r"y_score\[0\] must have a score for each of the 0",
        ),
        (
            box_average_precision_score,
            ([[]], [[(0, 0, 1, 1)]], [[np.nan]]),
            r"y_score\[0\] must not have NaN, and does at box 0",
        ),
    ],
)
def test_box_errors(function, arguments, match):
    with pytest.raises(ValueError, match=match):
        function(*arguments)


# ---- poses ----


@settings(max_examples=60)
@given(SEEDS)
def test_poses_part_by_part(seed):
    rng = np.random.RandomState(seed)
    true, found = rng.randint(6, size=(2, 4, 3, 2))
    sizes, weight = rng.uniform(0.5, 2.0, 4), rng.randint(1, 4, 4)
    limbs = [(0, 1), (2, 1)]
    near, limb = np.zeros((4, 3)), np.zeros((4, 2))
    for i in range(4):
        distance = [np.hypot(*(true[i, k] - found[i, k])) for k in range(3)]
        near[i] = np.array(distance) <= 1.5 * sizes[i]
        for e, (u, v) in enumerate(limbs):
            length = np.hypot(*(true[i, u] - true[i, v]))
            limb[i, e] = max(distance[u], distance[v]) <= 0.5 * length
    common = {"threshold": 1.5, "sizes": sizes, "sample_weight": weight}
    by_part = np.average(near, axis=0, weights=weight)
    np.testing.assert_allclose(pck_score(true, found, average=None, **common), by_part)
    assert pck_score(list(true), found, **common) == pytest.approx(by_part.mean())
    by_limb = limb.mean(axis=0)
    np.testing.assert_allclose(pcp_score(true, found, limbs, average=None), by_limb)
    assert pcp_score(true, list(found), limbs) == pytest.approx(by_limb.mean())


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([[(0, 0)]], [[(0, 0), (1, 1)]]), r"y_pred\[0\] must have the shape"),
        (([[(0, 0)], [(0, 0), (1, 1)]], [[(0, 0)], [(0, 0), (1, 1)]]), r"y_true\[1\]"),
        (([[(0, 0, 0)]], [[(0, 0, 0)]]), "shape"),
        (([[(0, np.nan)]], [[(0, 0)]]), r"y_true\[0\] must be finite"),
        (([[(0, 0)]], [[(0, 0)]], [2.0, 1.0]), "sizes must be 1 positive"),
        (([[(0, 0)]], [[(0, 0)]], [0.0]), "sizes"),
    ],
)
def test_pose_errors(arguments, match):
    y_true, y_pred, *sizes = arguments
    with pytest.raises(ValueError, match=match):
        pck_score(y_true, y_pred, threshold=1.0, sizes=sizes[0] if sizes else None)


@pytest.mark.parametrize("limbs", [[], [0, 1], [(0, 2)], [(0, -1)], [(0.0, 1.0)]])
def test_limb_errors(limbs):
    places = [[(0, 0), (1, 1)]]
    with pytest.raises(ValueError, match="limbs must"):
        pcp_score(places, places, limbs)
    with pytest.raises(ValueError, match="average"):
        pcp_score(places, places, [(0, 1)], average="macro")


# ---- costs ----

COSTS = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 1.0], [5.0, 2.0, 0.0]])


@settings(max_examples=60)
@given(SEEDS, st.permutations([0, 1, 2]))
def test_mean_cost_sample_by_sample(seed, order):
    rng = np.random.RandomState(seed)
    labels = np.array(["a", "b", "c"])[list(order)]
    true, found = rng.randint(3, size=(2, 8))
    weight = rng.randint(1, 4, 8)
    expected = np.average([COSTS[i, j] for i, j in zip(true, found, strict=True)],
                          weights=weight)  # fmt: skip
    cost = mean_cost(
        labels[true], labels[found], COSTS, labels=labels, sample_weight=weight
    )
    assert cost == pytest.approx(expected)
    # one for each error: the accuracy
    uniform = mean_cost(labels[true], labels[found], 1.0 - np.eye(3), labels=labels)
    assert uniform == pytest.approx(1 - accuracy_score(true, found))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([0, 1], [0, 1], COSTS), "costs are of 3 classes"),
        (([0, 1], [0], COSTS), "inconsistent"),
        (([0, 1], [0, 1], COSTS[:2]), "square"),
        (([0, 1], [0, 3], COSTS, [0, 1, 2]), "the class 3, which is not one of labels"),
        (([0, 1], [0, 1], COSTS, [0, 1, 1]), "each class once"),
        (([], [], COSTS, [0, 1, 2]), "sample|minimum|empty"),
    ],
)
def test_cost_errors(arguments, match):
    y_true, y_pred, costs, *labels = arguments
    with pytest.raises(ValueError, match=match):
        mean_cost(y_true, y_pred, costs, labels=labels[0] if labels else None)


def classes(seed=0):
    rng = np.random.RandomState(seed)
    y = np.arange(60) % 3
    return np.eye(3)[y] + 0.8 * rng.normal(size=(60, 3)), y


def test_costs_choose_a_model():
    X, y = classes()
    scorer = make_cost_scorer(COSTS, labels=[0, 1, 2])
    classifier = SSVMClassifier(MulticlassModel(COSTS), random_state=0)
    search = GridSearchCV(classifier, {"alpha": [0.01, 1.0]}, scoring=scorer, cv=3)
    search.fit(X, y)
    best = search.best_estimator_
    assert scorer(best, X, y) == -mean_cost(y, best.predict(X), COSTS)
    # the estimator's own score is scikit-learn's
    assert best.score(X, y) == accuracy_score(y, best.predict(X))
    assert search.best_score_ == search.cv_results_["mean_test_score"].max() <= 0
    path = SSVMPathCV(classifier, cv=3, alphas=[1.0, 0.1], scoring=scorer).fit(X, y)
    assert (np.asarray(path.scores_) <= 0).all()
    assert path.score(X, y) == scorer(path, X, y)


@pytest.mark.parametrize(
    ("scorer", "sign"),
    [
        (alignment_error_rate_scorer, -1),
        (box_overlap_scorer, 1),
        (box_accuracy_scorer, 1),
        (mask_iou_scorer, 1),
    ],
)
def test_scorers_of_fitted_models(scorer, sign):
    rng = np.random.RandomState(0)
    if sign < 0:
        X = [rng.normal(size=(2, 2, 3)) for _ in range(9)]
        y, model = [np.eye(2, dtype=int)] * 9, MatchingModel()
        metric = alignment_error_rate
    elif scorer is mask_iou_scorer:
        X = [(rng.normal(size=(3, 2)), np.array([(0, 1)])) for _ in range(9)]
        y, model = [rng.permutation([0, 1, 1]) for _ in range(9)], GraphModel()
        metric = mask_iou_score
    else:
        boxes = np.array([(0, 0, 2, 2), (0, 1, 3, 3), (1, 1, 2, 2)])
        X = [(rng.normal(size=(3, 2)), boxes) for _ in range(9)]
        y = [tuple(boxes[k % 3].tolist()) for k in range(9)]
        model = CandidatesModel("iou")
        metric = box_overlap_score if scorer is box_overlap_scorer else None
    classifier = SSVMClassifier(model, alpha=0.1, random_state=0).fit(X, y)
    if metric is not None:
        expected = sign * metric(y, classifier.predict(X))
        assert scorer(classifier, X, y) == pytest.approx(expected)
    scores = cross_val_score(classifier, X, y, scoring=scorer, cv=3)
    assert np.isfinite(scores).all()
