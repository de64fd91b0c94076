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
from sksstruct.inference.segments._semi_markov import (
    SegmentPotentials,
    labeling_segments,
    segments_labeling,
)

NAMES = ("nodes", "lengths", "transitions", "first", "last", "span_scores", "tail")
OWN = ("boundary_lengths", "boundary_tail")
WILD = st.sampled_from([-np.inf, -1e4, -2000.0, -400.0, -1.0, 0.0, 1.0, 300.0, 1e4])


@st.composite
def problems(draw, scores=SCORES, size=6):
    """Potentials: with roles and without, spans, tails, longer and shorter lengths."""
    size, n_labels = draw(st.integers(1, size)), draw(st.integers(1, 3))

    def table(*shape):
        return draw(hnp.arrays(np.float64, (*shape, n_labels), elements=scores))

    problem = {
        "nodes": table(size, 4) if draw(st.booleans()) else table(size),
        "lengths": table(draw(st.integers(1, 8))),
        "transitions": table(n_labels),
    }
    for name in "first", "last", "tail":
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
            yield list(zip(bounds[:-1], bounds[1:], labels, strict=True))


def entries(problem, segments):
    """Pairs (name, index) of the scores that a segmentation picks; None if too long."""
    picked, before = [], None
    roles, size = np.ndim(problem["nodes"]) == 3, len(problem["nodes"])
    for start, stop, label in segments:
        over = max(stop - start - len(problem["lengths"]), 0)
        if over and "tail" not in problem:
            return None
        for t in range(start, stop):
            role = 0 if t == start else 2 if t == stop - 1 else 1
            role = 3 if stop - start == 1 else role
            picked.append(("nodes", (t, role, label) if roles else (t, label)))
        own = "boundary_" * (
            "boundary_lengths" in problem and (start == 0 or stop == size)
        )
        picked.append((f"{own}lengths", (stop - start - over - 1, label)))
        picked += [(f"{own}tail", (label,))] * over
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
    sums = {
        name: np.zeros(np.shape(problem[name]))
        for name in NAMES + OWN
        if name in problem
    }
    for each, weight in zip(picked, weights, strict=True):
        for name, index in each:
            sums[name][index] += weight
    return sums


def as_potentials(problem):
    names = *NAMES[:5], "spans", *NAMES[5:], *OWN
    return SegmentPotentials(*(problem.get(name) for name in names))


def means_of(result):
    return *result[1:7], result.tail


def assert_means(problem, means, expected, atol):
    for name, value in zip(NAMES + OWN, means, strict=False):
        if name in expected:
            np.testing.assert_allclose(
                value, expected[name], rtol=1e-10, atol=atol, err_msg=name
            )
        else:
            assert value is None or value.size == 0


@pytest.mark.slow
@settings(max_examples=120)
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


@settings(max_examples=100)
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
    # large scores that cancel leave the rounding of their size
    tables = [np.asarray(table, dtype=float) for table in problem.values()]
    largest = max(np.abs(t[np.isfinite(t)]).max(initial=1.0) for t in tables)
    assert result.log_partition == pytest.approx(
        logsumexp(scores / mu), rel=1e-12, abs=1e-15 * size * largest / mu + 1e-12
    )
    weights = np.exp(scores / mu - logsumexp(scores / mu))
    assert_means(problem, means_of(result), weighted(problem, picked, weights), 1e-9)
    over = tuple(range(1, result.nodes.ndim))
    np.testing.assert_allclose(result.nodes.sum(axis=over), 1.0, rtol=1e-12)
    expected = dict.fromkeys(everything, 0.0)
    for segments, weight in zip(segmentations, weights, strict=True):
        for segment in segments:
            expected[segment] += weight
    np.testing.assert_allclose(result.segments, list(expected.values()), atol=1e-9)


@pytest.mark.slow
@settings(max_examples=60)
@given(problems(size=4))
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
        means = potentials.indicator(labeling, -2.0)
        assert_means(problem, means, weighted(problem, [picked], [-2.0]), 0.0)


@settings(max_examples=100)
@given(problems(size=4), st.floats(-2, 2))
def test_weights_of_means(problem, weight):
    """What a gradient adds up."""
    potentials, none = as_potentials(problem), np.zeros((0, 3), dtype=int)
    log_partition, means, _ = potentials.sums(1.0, none)
    assert log_partition == potentials.sums(1.0, none, weight)[0]
    for one, other in zip(means, potentials.sums(1.0, none, weight)[1], strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(other, weight * one, atol=1e-14)


def without_tail(problem):
    """The same problem with a row for each length."""
    out = {**problem}
    for name in "", "boundary_":
        if f"{name}tail" in problem:
            lengths, tail = np.asarray(out[f"{name}lengths"]), out.pop(f"{name}tail")
            more = np.arange(1, len(problem["nodes"]) - len(lengths) + 1)[:, None]
            out[f"{name}lengths"] = np.vstack([lengths, lengths[-1] + more * tail])
    return out


def dynamic_program(problem, add):
    """The value of the best segmentation, or the log-partition, by plain recursion."""
    problem = without_tail(problem)
    nodes, lengths = problem["nodes"], problem["lengths"]
    size, n_labels = len(nodes), nodes.shape[-1]
    roles = nodes if nodes.ndim == 3 else np.repeat(nodes[:, None], 4, axis=1)
    closed = np.full((size + 1, n_labels), -np.inf)
    entries = np.full((size, n_labels), -np.inf)
    entries[0] = problem.get("first", np.zeros(n_labels))
    spans = {}
    for span, row in zip(
        problem.get("spans", ()), problem.get("span_scores", ()), strict=True
    ):
        spans[tuple(span)] = spans.get(tuple(span), 0.0) + row
    for stop in range(1, size + 1):
        terms = []
        for length in range(1, min(stop, len(lengths)) + 1):
            start = stop - length
            own = roles[start, 3]
            if length > 1:
                inside = roles[start + 1 : stop - 1, 1].sum(axis=0)
                own = roles[start, 0] + inside + roles[stop - 1, 2]
            own = own + spans.get((start, stop), 0.0)
            boundary = start == 0 or stop == size
            scores = problem.get("boundary_lengths", lengths) if boundary else lengths
            terms.append(entries[start] + own + scores[length - 1])
        closed[stop] = add(np.array(terms), axis=0)
        if stop < size:
            before = closed[stop][:, None] + problem["transitions"]
            entries[stop] = add(before, axis=0)
    return add(closed[size] + problem.get("last", 0.0), axis=0)


def random_problem(rng, size, n_labels, max_length, spread=1.0, tail=False):
    """A problem with all there can be, some of it forbidden."""
    shapes = {
        "nodes": (size, 4, n_labels),
        "lengths": (max_length, n_labels),
        "transitions": (n_labels, n_labels),
        "first": (n_labels,),
        "last": (n_labels,),
        "span_scores": (size, n_labels),
    }
    problem = {name: spread * rng.normal(size=shape) for name, shape in shapes.items()}
    if tail:
        problem["tail"] = 0.1 * spread * rng.normal(size=n_labels)
    # some labels have single positions only, and some transitions are forbidden
    problem["lengths"][1:, ::3] = -np.inf
    problem["transitions"][rng.rand(n_labels, n_labels) < 0.1] = -np.inf
    start = rng.randint(size, size=size)
    stop = np.minimum(start + rng.randint(1, max_length + 2, size=size), size)
    problem["spans"] = np.column_stack((start, stop))
    return problem


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize("spread", [1.0, 300.0])
@pytest.mark.parametrize(
    "shape", [(7, 1, 3), (9, 2, 9), (9, 4, 1), (8, 5, 20), (8, 9, 4), (6, 22, 3),
              (5, 33, 5), (300, 9, 50)]
)  # fmt: skip
def test_all_row_widths(shape, spread, tail):
    """Against plain recursions, and the derivative in a random direction."""
    rng = np.random.RandomState(sum(shape))
    problem = random_problem(rng, *shape, spread, tail)
    segments, score = segment_viterbi(**problem)
    assert score == pytest.approx(dynamic_program(problem, np.max), rel=1e-12)
    labeling = segments_labeling(segments, shape[0])
    assert as_potentials(problem).score(labeling) == pytest.approx(score, rel=1e-12)
    found, scores = segment_topk(**problem, k=3)
    assert scores[0] == score and np.all(np.diff(scores) <= 0.0)
    np.testing.assert_array_equal(found[0], segments)
    value = dynamic_program(problem, logsumexp)
    result = segment_sum_product(**problem)
    assert result.log_partition == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(result.nodes.sum(axis=(1, 2)), 1.0, rtol=1e-11)
    names = [name for name in NAMES if name in problem]
    direction = {name: rng.normal(size=problem[name].shape) for name in names}
    step, moved = 1e-4, []
    for sign in 1.0, -1.0:
        other = {k: problem[k] + sign * step * direction[k] for k in names}
        other["spans"] = problem["spans"]
        moved.append(segment_sum_product(**other).log_partition)
    means = zip(names, means_of(result), strict=False)
    slope = sum((direction[name] * mean).sum() for name, mean in means)
    assert slope == pytest.approx((moved[0] - moved[1]) / (2 * step), rel=1e-4)


def in_log_space(problem):
    """The same problem, with spans of scores that cancel, but are too far apart."""
    n_labels = np.shape(problem["nodes"])[-1]
    spans = np.array(problem.get("spans", np.zeros((0, 2), dtype=int)), dtype=int)
    scores = problem.get("span_scores", np.zeros((0, n_labels)))
    apart = np.full((2, n_labels), 60.0) * [[1.0], [-1.0]]
    return {
        **problem,
        "spans": np.vstack([spans, [[0, 1], [0, 1]]]),
        "span_scores": np.vstack([scores, apart]),
    }


def assert_as_in_log_space(problem, rtol=1e-10, atol=1e-12):
    """Products of vectors and sums of logarithms: the same counts and probabilities."""
    size, n_labels = len(problem["nodes"]), np.shape(problem["nodes"])[-1]
    rng = np.random.RandomState(0)
    ends = np.sort(rng.randint(0, size + 1, size=(40, 2)), axis=1)
    rows = np.column_stack([ends, rng.randint(n_labels, size=40)])
    rows = rows[rows[:, 0] < rows[:, 1]]
    other = as_potentials(in_log_space(problem)).sums(1.0, rows)
    log_partition, means, probabilities = as_potentials(problem).sums(1.0, rows)
    assert log_partition == pytest.approx(other[0], rel=1e-12, abs=1e-12)
    for name, one, two in zip(NAMES + OWN, means, other[1], strict=True):
        if one is not None:
            two = two[: len(one)]
            np.testing.assert_allclose(one, two, rtol=rtol, atol=atol, err_msg=name)
    np.testing.assert_allclose(probabilities, other[2], rtol=rtol, atol=atol)


FAR_APART = st.sampled_from([-np.inf, -1e3, -200.0, -30.0, -2.0, 0.0, 1.0, 40.0, 300.0])


@settings(max_examples=150)
@given(st.data(), st.sampled_from([SCORES, FAR_APART]))
def test_products_of_vectors(data, scores):
    """Blocks that begin at any stop: many positions, and lengths of up to 30."""
    problem = data.draw(problems(scores, size=40))
    seed, longest = data.draw(st.integers(0, 99)), data.draw(st.integers(1, 30))
    rng = np.random.RandomState(seed)
    lengths = rng.uniform(-4.0, 4.0, (longest, np.shape(problem["nodes"])[-1]))
    lengths[rng.rand(*lengths.shape) < 0.2] = -np.inf
    problem["lengths"] = lengths
    if "span_scores" in problem:
        problem["span_scores"] = np.clip(problem["span_scores"], -20.0, 20.0)
    assert_as_in_log_space(problem, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("spread", [0.1, 3.0, 30.0, 300.0])
@pytest.mark.parametrize("shape", [(300, 3, 120), (300, 1, 400), (120, 6, 2)])
def test_long_segments(shape, spread):
    """Dense scores, whose sums inside a segment are out of the range of exp."""
    rng = np.random.RandomState(len(str(spread)) + shape[1])
    problem = random_problem(rng, *shape)
    problem["nodes"] = spread * rng.uniform(-1.0, 1.0, problem["nodes"].shape)
    # one label is bad for long, and good again
    problem["nodes"][100:250, :, -1] -= spread
    problem["lengths"] = rng.normal(size=problem["lengths"].shape)
    problem["lengths"][3:40, 0] = -np.inf
    value = dynamic_program(problem, logsumexp)
    result = segment_sum_product(**problem)
    assert result.log_partition == pytest.approx(value, rel=1e-12)
    assert min(table.min() for table in result[1:7]) >= 0.0
    # sums of large scores have fewer digits
    assert_as_in_log_space(problem, 1e-10, 1e-12 * max(spread, 1.0))
    score = segment_viterbi(**problem)[1]
    assert score == pytest.approx(dynamic_program(problem, np.max), rel=1e-12)


@pytest.mark.parametrize("roles", [False, True])
def test_positions_that_are_nearly_forbidden(roles):
    """A large score of what is not chosen takes no digits of what is."""
    rng = np.random.RandomState(roles)
    problem = random_problem(rng, 60, 3, 12)
    problem["transitions"] = rng.normal(size=(3, 3))
    problem["lengths"] = rng.normal(size=(12, 3))
    if not roles:
        problem["nodes"] = problem["nodes"][:, 0]
    found = []
    for bad in -np.inf, -1e16:
        # never all labels of a position
        problem["nodes"][10:30, ..., 0] = problem["nodes"][40:43, ..., 1] = bad
        found.append(segment_viterbi(**problem))
        found.append(segment_sum_product(**problem))
    assert found[0][1] == pytest.approx(found[2][1], rel=1e-13)
    np.testing.assert_array_equal(found[0][0], found[2][0])
    assert found[1][0] == pytest.approx(found[3][0], rel=1e-13)
    for name, one, two in zip(NAMES[:6], found[1][1:7], found[3][1:7], strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-11, atol=1e-13, err_msg=name)
    assert not found[1].nodes[10:30, ..., 0].any()


@settings(max_examples=60)
@given(problems(size=5))
def test_lengths_of_one_are_chains(problem):
    nodes, table = problem["nodes"], problem["transitions"]
    nodes = nodes[:, 3] if nodes.ndim == 3 else nodes
    flat = np.zeros((1, nodes.shape[1]))
    labeling, score = viterbi(nodes, table)
    segments, value = segment_viterbi(nodes, flat, table)
    assert value == score
    _, scores = enumerate_chain(nodes, table)
    if scores.max() == -np.inf:
        return
    assert segments[:, 2].tolist() == labeling.tolist()
    log_partition, chain_nodes, edges = forward_backward(nodes, table)
    result = segment_sum_product(nodes, flat, table)
    assert result.log_partition == pytest.approx(log_partition, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(result.nodes, chain_nodes, atol=1e-12)
    np.testing.assert_allclose(result.transitions, edges.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(result.lengths, chain_nodes.sum(axis=0)[None])


def test_no_temperature_is_the_maximum():
    problem = random_problem(np.random.RandomState(3), 20, 5, 6)
    segments, score = segment_viterbi(**problem)
    distances = []
    for mu in 1.0, 0.1, 1e-2, 1e-3, 1e-8:
        result = segment_sum_product(**problem, mu=mu, segments=segments)
        distances.append(mu * result.log_partition - score)
    assert np.all(np.diff(distances) < 1e-9) and abs(distances[-1]) < 1e-6
    np.testing.assert_allclose(result.segments, 1.0)
    potentials = as_potentials(problem)
    means = potentials.indicator(segments_labeling(segments, 20))
    for found, expected in zip(result[1:7], means[:6], strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("spread", [1e4, 1e12, 1e15])
def test_probabilities_of_large_scores_sum_to_one(spread):
    problem = random_problem(np.random.RandomState(5), 50, 6, 8, spread)
    result = segment_sum_product(**problem)
    np.testing.assert_allclose(result.nodes.sum(axis=(1, 2)), 1.0)
    assert result.first.sum() == pytest.approx(1.0)
    n_segments = result.lengths.sum()
    assert result.transitions.sum() == pytest.approx(n_segments - 1)


def test_segments_that_cover_a_position():
    problem = random_problem(np.random.RandomState(1), 12, 3, 5)
    every = [
        (a, a + n, k) for n in range(1, 7) for a in range(13 - n) for k in range(3)
    ]
    result = segment_sum_product(**problem, segments=every)
    cover = np.zeros(12)
    for (start, stop, _), probability in zip(every, result.segments, strict=True):
        cover[start:stop] += probability
    np.testing.assert_allclose(cover, 1.0)


def test_a_path_that_seems_hopeless():
    """Products of exponentials that vanish, on the only way to the end."""
    nodes = np.zeros((6, 2))
    lengths = np.array([[0.0, -400.0], [-np.inf, 0.0]])
    transitions = np.array([[0.0, -500.0], [-np.inf, -700.0]])
    last = np.array([-np.inf, 0.0])
    problem = {
        "nodes": nodes, "lengths": lengths, "transitions": transitions, "last": last
    }  # fmt: skip
    result = segment_sum_product(**problem)
    _, scores, picked = enumerate_segmentations(problem)
    assert result.log_partition == pytest.approx(logsumexp(scores), rel=1e-14)
    weights = np.exp(scores - logsumexp(scores))
    assert_means(problem, means_of(result), weighted(problem, picked, weights), 1e-12)


@pytest.mark.parametrize("low", [-250.0, -400.0, -700.0])
def test_products_that_vanish_where_no_factor_does(low):
    """exp(low) is a number, and its square is zero if low is less than -373."""
    problem = {
        "nodes": np.array([[0.0, low], [0.0, 0.0], [0.0, 0.0]]),
        "lengths": np.zeros((1, 2)),
        "transitions": np.array([[0.0, -np.inf], [-np.inf, low]]),
        "last": np.array([-np.inf, 0.0]),
    }
    result = segment_sum_product(**problem)
    assert result.log_partition == pytest.approx(3.0 * low, rel=1e-14)


def test_a_large_k_costs_nothing():
    segmentations, scores = segment_topk(np.zeros((3, 1)), [[0], [0]], [[0]], 10**12)
    assert len(segmentations) == 3 and not scores.any()


CASE = {
    "nodes": np.zeros((3, 2)),
    "lengths": np.zeros((2, 2)),
    "transitions": np.eye(2),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": np.zeros((0, 2))}, "nodes must have shape"),
        ({"nodes": np.zeros((3, 3, 2))}, "nodes must have shape"),
        ({"nodes": [[np.nan, 0.0]]}, r"nodes\[0, 0\] must be finite"),
        ({"nodes": [[1e300, 0.0]]}, "too large"),
        ({"lengths": np.zeros((0, 2))}, "lengths must have shape"),
        ({"lengths": np.zeros((2, 3))}, "lengths must have shape"),
        ({"transitions": np.zeros((2, 3))}, "transitions must have shape"),
        ({"first": np.zeros(3)}, "first must have shape"),
        ({"last": np.zeros((2, 2))}, "last must have shape"),
        ({"spans": [(0, 1)]}, "must be given together"),
        ({"spans": [(0.0, 1.0)], "span_scores": [[0, 0]]}, "spans must be integers"),
        ({"spans": [(0, 1)], "span_scores": [[0]]}, "span_scores must have shape"),
        ({"spans": [(1, 4)], "span_scores": [[0, 0]]}, r"spans\[0\] is \(1, 4\)"),
        ({"spans": [(2, 2)], "span_scores": [[0, 0]]}, r"spans\[0\] is \(2, 2\)"),
    ],
)
def test_bad_potentials(change, message):
    for function in segment_viterbi, segment_sum_product:
        with pytest.raises(ValueError, match=message):
            function(**{**CASE, **change})
    with pytest.raises(ValueError, match=message):
        segment_topk(**{**CASE, **change}, k=2)


def test_bad_arguments():
    with pytest.raises(ValueError, match="k must be an integer of at least 1"):
        segment_topk(**CASE, k=0)
    for mu in (0.0, -1.0, np.inf, True, "1"):
        with pytest.raises(ValueError, match="mu must be a positive number"):
            segment_sum_product(**CASE, mu=mu)
    with pytest.raises(ValueError, match="too large"):
        segment_sum_product(**{**CASE, "nodes": np.ones((3, 2))}, mu=1e-300)
    with pytest.raises(ValueError, match="segments must be integers"):
        segment_sum_product(**CASE, segments=[(0, 1)])
    for segment in (0, 4, 0), (1, 1, 0), (-1, 1, 0), (0, 1, 2), (0, 1, -1):
        with pytest.raises(ValueError, match=r"segments\[0\] is"):
            segment_sum_product(**CASE, segments=[segment])


def assert_as_without_tail(problem, rtol=1e-10, atol=1e-12):
    """A score for each further position, and a row for each length, are the same."""
    whole, n_rows = without_tail(problem), len(problem["lengths"])
    segments, score = segment_viterbi(**problem)
    expected, best = segment_viterbi(**whole)
    assert score == pytest.approx(best, rel=1e-12)
    np.testing.assert_array_equal(segments, expected)
    found, scores = segment_topk(**problem, k=7)
    expected, best = segment_topk(**whole, k=7)
    np.testing.assert_allclose(scores, best, rtol=1e-12)
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, two)
    rows = np.array([(a, b, k) for k in range(problem["nodes"].shape[-1])
                     for a, b in [(0, 1), (3, 40), (10, 59), (0, len(problem["nodes"]))]
                     if b <= len(problem["nodes"])])  # fmt: skip
    result = segment_sum_product(**problem, segments=[*segments, *rows])
    other = segment_sum_product(**whole, segments=[*segments, *rows])
    assert result.log_partition == pytest.approx(other.log_partition, rel=1e-12)
    lengths, tail = other.lengths[:n_rows].copy(), np.zeros(rows[-1, 2] + 1)
    for over, row in enumerate(other.lengths[n_rows:], 1):
        lengths[-1] += row
        tail += over * row
    tables = ("nodes", "transitions", "first", "last", "spans", "segments")
    pairs = [(getattr(result, name), getattr(other, name)) for name in tables]
    for one, two in [*pairs, (result.lengths, lengths), (result.tail, tail)]:
        np.testing.assert_allclose(one, two, rtol=rtol, atol=atol)


@pytest.mark.parametrize("spread", [0.1, 3.0, 30.0, 300.0])
@pytest.mark.parametrize("shape", [(300, 3, 20), (300, 1, 1), (120, 6, 2), (60, 9, 30)])
def test_tails(shape, spread):
    """Long runs, forbidden positions, and labels whose lengths have a limit."""
    rng = np.random.RandomState(len(str(spread)) + shape[1])
    problem = random_problem(rng, *shape, tail=True)
    problem["nodes"] = spread * rng.uniform(-1.0, 1.0, problem["nodes"].shape)
    # one label is better for long, also where another one is forbidden
    problem["nodes"][:50, 1, -1] += 2.0 * spread + 3.0
    problem["nodes"][30:33, 1:3, 0] = problem["nodes"][40, :, :-1] = -np.inf
    problem["lengths"] = rng.normal(size=problem["lengths"].shape)
    if shape[1] > 3:
        problem["tail"][1], problem["lengths"][-1, 2] = -np.inf, -np.inf
    assert_as_without_tail(problem, 1e-10, 1e-11 * max(spread, 1.0))
    assert_as_in_log_space(problem, 1e-10, 1e-11 * max(spread, 1.0))
    assert segment_sum_product(**problem).tail.max() > 1.0


@pytest.mark.parametrize("slope", [-40.0, -3.0, 2.0])
def test_tails_that_rise_or_fall(slope):
    """A score of further positions that lengths do not have, of any size."""
    rng = np.random.RandomState(2)
    problem = random_problem(rng, 200, 3, 10, tail=True)
    problem["lengths"] = rng.normal(size=(10, 3))
    problem["tail"] += slope
    assert_as_without_tail(problem)
    # only segments of some length are allowed, which are hopeless at first
    problem["lengths"][:9], problem["nodes"][:80, 3] = -np.inf, 500.0
    problem["nodes"][:60, 1] = -300.0
    assert_as_without_tail(problem)


def with_boundaries(problem, table):
    """The problem with other scores of lengths of the first and the last segment."""
    problem["boundary_lengths"] = table(np.shape(problem["lengths"]))
    if "tail" in problem:
        problem["boundary_tail"] = table(np.shape(problem["tail"]))
    return problem


@settings(max_examples=150)
@given(st.data(), st.sampled_from([SCORES, WILD]), st.sampled_from([0.3, 1.0, 7.0]))
def test_boundaries(data, scores, mu):
    """All oracles against enumeration, the score, and its entries."""

    def table(shape):
        return data.draw(hnp.arrays(np.float64, shape, elements=scores))

    problem = with_boundaries(data.draw(problems(scores, size=5)), table)
    potentials, size = as_potentials(problem), len(problem["nodes"])
    expected, values, picked = enumerate_segmentations(problem)
    rows = [row for segments in expected for row in segments]
    rows = np.array(rows, dtype=int).reshape(-1, 3)
    log_partition, means, shares = potentials.sums(1.0 / mu, rows)
    labeling, score = potentials.best()
    if not len(values):
        assert score == log_partition == -np.inf
        return
    tables = [
        np.abs(np.asarray(problem[k], dtype=float)) for k in NAMES if k in problem
    ]
    largest = max(each[np.isfinite(each)].max(initial=1.0) for each in tables)
    assert score == pytest.approx(values[0], rel=1e-13, abs=1e-15 * largest)
    if scores is SCORES:
        labelings, found = potentials.best_k(7)
        assert score == values[0]
        np.testing.assert_array_equal(found, values[:7])
        for each, segments in zip(labelings, expected, strict=False):
            assert [tuple(row) for row in labeling_segments(each).tolist()] == segments
        assert (labeling == labelings[0]).all()
    weights = np.exp(values / mu - logsumexp(values / mu))
    assert log_partition == pytest.approx(
        logsumexp(values / mu), rel=1e-12, abs=1e-15 * size * largest / mu + 1e-12
    )
    assert_means(problem, means, weighted(problem, picked, weights), 1e-9)
    probability = dict.fromkeys(map(tuple, rows.tolist()), 0.0)
    for segments, weight in zip(expected, weights, strict=True):
        for row in segments:
            probability[row] += weight
    np.testing.assert_allclose(
        shares, [probability[tuple(row)] for row in rows.tolist()], atol=1e-9
    )
    for segments, entries_of in zip(expected[:5], picked[:5], strict=True):
        labeling = segments_labeling(segments, size)
        value = sum(problem[name][index] for name, index in entries_of)
        assert potentials.score(labeling) == pytest.approx(value, abs=1e-12 * largest)
        found = potentials.indicator(labeling, -2.0)
        assert_means(problem, found, weighted(problem, [entries_of], [-2.0]), 0.0)


@pytest.mark.parametrize("spread", [0.1, 3.0, 300.0])
@pytest.mark.parametrize("shape", [(300, 3, 20), (300, 1, 1), (90, 9, 30), (40, 2, 60)])
def test_long_segments_at_boundaries(shape, spread):
    """Against plain recursions, and in logarithms; and the derivative."""
    rng = np.random.RandomState(len(str(spread)) + shape[1])
    problem = random_problem(rng, *shape, tail=True)
    problem["nodes"] = spread * rng.uniform(-1.0, 1.0, problem["nodes"].shape)
    problem["nodes"][:, 1] += 0.5 * spread
    if shape[1] > 1:
        problem["nodes"][30:33, 1:3, 0] = problem["lengths"][:3, -1] = -np.inf
    problem = with_boundaries(problem, lambda shape: rng.normal(size=shape))
    potentials, none = as_potentials(problem), np.zeros((0, 3), dtype=int)
    labeling, score = potentials.best()
    assert score == pytest.approx(dynamic_program(problem, np.max), rel=1e-12)
    assert potentials.score(labeling) == score
    labelings, scores = potentials.best_k(3)
    assert scores[0] == pytest.approx(score, rel=1e-12)
    np.testing.assert_array_equal(labelings[0], labeling)
    value, means, _ = potentials.sums(1.0, none)
    assert value == pytest.approx(dynamic_program(problem, logsumexp), rel=1e-12)
    assert_as_in_log_space(problem, 1e-10, 1e-11 * max(spread, 1.0))
    names, step, moved = NAMES + OWN, 1e-4, []
    direction = {name: rng.normal(size=problem[name].shape) for name in names}
    for sign in 1.0, -1.0:
        other = {k: problem[k] + sign * step * direction[k] for k in names}
        other["spans"] = problem["spans"]
        moved.append(as_potentials(other).sums(1.0, none)[0])
    pairs = zip(names, means, strict=True)
    slope = sum((direction[name] * mean).sum() for name, mean in pairs)
    assert slope == pytest.approx((moved[0] - moved[1]) / (2 * step), rel=1e-4)


@pytest.mark.parametrize("slope", [-3.0, 2.0])
def test_lengths_that_rise_or_fall(slope):
    """Scores of lengths are out of the range of exp; what they rise by is not."""
    rng = np.random.RandomState(4)
    problem = random_problem(rng, 400, 3, 400)
    problem["lengths"] = rng.normal(size=(400, 3)) + slope * np.arange(400)[:, None]
    problem["lengths"][[0, 5, 399], [0, 1, 2]] = -np.inf
    value = dynamic_program(problem, logsumexp)
    assert segment_sum_product(**problem).log_partition == pytest.approx(value, 1e-12)
    assert_as_in_log_space(problem)
