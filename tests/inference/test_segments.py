"""Semi-Markov oracles against enumeration of all segmentations."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from reference import SCORES, enumerate_chain
from scipy.special import logsumexp

from sksstruct.inference import (
    forward_backward,
    segment_sum_product,
    segment_topk,
    segment_viterbi,
    viterbi,
)
from sksstruct.inference.segments._potentials import (
    SegmentPotentials,
    labeling_segments,
    segments_labeling,
)

NAMES = ("nodes", "lengths", "transitions", "first", "last", "span_scores")
WILD = st.sampled_from([-np.inf, -1e4, -2000.0, -400.0, -1.0, 0.0, 1.0, 300.0, 1e4])


@st.composite
def problems(draw, scores=SCORES, size=6):
    """Potentials: with roles and without, spans, longer and shorter lengths."""
    size, n_labels = draw(st.integers(1, size)), draw(st.integers(1, 3))

    def table(*shape):
        return draw(hnp.arrays(np.float64, (*shape, n_labels), elements=scores))

    problem = {
        "nodes": table(size, 4) if draw(st.booleans()) else table(size),
        "lengths": table(draw(st.integers(1, 8))),
        "transitions": table(n_labels),
    }
    for name in "first", "last":
        if draw(st.booleans()):
            problem[name] = table()
    if draw(st.booleans()):
        pairs = [(a, b) for b in range(1, size + 1) for a in range(b)]
        spans = draw(st.lists(st.sampled_from(pairs), max_size=6))
        problem["spans"] = np.array(spans, dtype=int).reshape(-1, 2)
        problem["span_scores"] = table(len(spans))
    return problem


def segmentations(size, n_labels):
    """All segmentations, as lists of (start, stop, label)."""
    for cuts in product([False, True], repeat=size - 1):
        bounds = [0, *(t + 1 for t in range(size - 1) if cuts[t]), size]
        for labels in product(range(n_labels), repeat=len(bounds) - 1):
            yield list(zip(bounds, bounds[1:], labels))


def entries(problem, segments):
    """Pairs (name, index) of the scores that a segmentation picks; None if too long."""
    picked, before = [], None
    roles = np.ndim(problem["nodes"]) == 3
    for start, stop, label in segments:
        if stop - start > len(problem["lengths"]):
            return None
        for t in range(start, stop):
            role = 0 if t == start else 2 if t == stop - 1 else 1
            role = 3 if stop - start == 1 else role
            picked.append(("nodes", (t, role, label) if roles else (t, label)))
        picked.append(("lengths", (stop - start - 1, label)))
        if before is not None:
            picked.append(("transitions", (before, label)))
        for i, span in enumerate(problem.get("spans", ())):
            if tuple(span) == (start, stop):
                picked.append(("span_scores", (i, label)))
        before = label
    for name, label in ("first", segments[0][2]), ("last", segments[-1][2]):
        if name in problem:
            picked.append((name, (label,)))
    return picked


def enumerate_segmentations(problem):
    """Allowed segmentations, their scores and entries, in order of the tie rule."""
    shape = np.shape(problem["nodes"])
    found = []
    for segments in segmentations(shape[0], shape[-1]):
        picked = entries(problem, segments)
        if picked is not None:
            score = sum(problem[name][index] for name, index in picked)
            key = [k for a, b, label in segments[::-1] for k in (label, b - a)]
            if score > -np.inf:
                found.append((-score, key, segments, picked))
    found.sort(key=lambda row: row[:2])
    scores = np.array([-row[0] for row in found])
    return [row[2] for row in found], scores, [row[3] for row in found]


def weighted(problem, picked, weights):
    """Weighted sums of the indicators of picked entries, by name."""
    sums = {name: np.zeros(np.shape(problem[name])) for name in NAMES if name in problem}
    for each, weight in zip(picked, weights, strict=True):
        for name, index in each:
            sums[name][index] += weight
    return sums


def as_potentials(problem):
    names = ("nodes", "lengths", "transitions", "first", "last", "spans", "span_scores")
    return SegmentPotentials(*(problem.get(name) for name in names))


def assert_means(problem, means, expected, atol):
    for name, value in zip(NAMES, means, strict=True):
        if name in expected:
            np.testing.assert_allclose(
                value, expected[name], rtol=1e-10, atol=atol, err_msg=name
            )
        else:
            assert value is None or value.size == 0


@settings(max_examples=500)
@given(problems(), st.integers(1, 12))
def test_best_with_tie_rule(problem, k):
    segments, score = segment_viterbi(**problem)
    found, found_scores = segment_topk(**problem, k=k)
    expected, scores, _ = enumerate_segmentations(problem)
    assert [[tuple(row) for row in each.tolist()] for each in found] == expected[:k]
    np.testing.assert_array_equal(found_scores, scores[:k])
    if len(expected):
        assert score == scores[0]
        assert [tuple(row) for row in segments.tolist()] == expected[0]
    else:
        assert score == -np.inf
        assert segments[0, 0] == 0 and segments[-1, 1] == len(problem["nodes"])


@settings(max_examples=300)
@given(problems(WILD, size=5), st.sampled_from([0.3, 1.0, 7.0]))
def test_sums(problem, mu):
    """Scores of any size: log-partition, expected counts, probabilities of segments."""
    size, n_labels = len(problem["nodes"]), np.shape(problem["nodes"])[-1]
    everything = [
        (a, b, label)
        for b in range(1, size + 1)
        for a in range(b)
        for label in range(n_labels)
    ]
    segmentations, scores, picked = enumerate_segmentations(problem)
    if not len(scores):
        with pytest.raises(ValueError, match="every segmentation is forbidden"):
            segment_sum_product(**problem, mu=mu)
        log_partition, means, probabilities = as_potentials(problem).sums(
            1.0 / mu, np.array(everything)
        )
        assert log_partition == -np.inf and not probabilities.any()
        assert not any(table.any() for table in means if table is not None)
        return
    result = segment_sum_product(**problem, mu=mu, segments=everything)
    assert result.log_partition == pytest.approx(
        logsumexp(scores / mu), rel=1e-12, abs=1e-12
    )
    weights = np.exp(scores / mu - logsumexp(scores / mu))
    assert_means(problem, result[1:7], weighted(problem, picked, weights), 1e-9)
    over = tuple(range(1, result.nodes.ndim))
    np.testing.assert_allclose(result.nodes.sum(axis=over), 1.0, rtol=1e-12)
    expected = dict.fromkeys(everything, 0.0)
    for segments, weight in zip(segmentations, weights, strict=True):
        for segment in segments:
            expected[segment] += weight
    np.testing.assert_allclose(result.segments, list(expected.values()), atol=1e-9)


@settings(max_examples=200)
@given(problems(size=5))
def test_scores_and_indicators(problem):
    potentials = as_potentials(problem)
    shape = np.shape(problem["nodes"])
    for segments in segmentations(shape[0], shape[-1]):
        labeling = segments_labeling(segments, shape[0])
        assert [tuple(row) for row in labeling_segments(labeling)] == segments
        picked = entries(problem, segments)
        if picked is None:
            assert potentials.score(labeling) == -np.inf
            continue
        score = sum(problem[name][index] for name, index in picked)
        assert potentials.score(labeling) == score
        means = potentials.indicator(labeling)
        assert_means(problem, means, weighted(problem, [picked], [1.0]), 0.0)
