"""Changes of weights: the same sums in any form, and by whoever adds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sksstruct.solvers.partitioned import _lines, changes, lines
from sksstruct.solvers.partitioned.changes import (
    SparseChange,
    TreeSum,
    add,
    add_sum,
    compress,
    dense,
)
from sksstruct.solvers.partitioned.executors import Serial, Threads


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(st.just(n), st.permutations(range(n)), st.integers(0, 9))
    ),
    st.sampled_from([0.02, 0.3, 1.0]),
)
@settings(max_examples=60)
def test_sums_depend_on_the_number_of_blocks_alone(case, density):
    n, order, seed = case
    rng = np.random.RandomState(seed)
    changes = rng.normal(size=(n, 256)) * (rng.uniform(size=(n, 256)) < density / 4)

    def tree(first, count):
        """The sum as a recursion, by halves of the next power of two."""
        if count == 1:
            return changes[first]
        half = 1 << (count - 1).bit_length() - 1
        return tree(first, half) + tree(first + half, count - half)

    whole, parts = TreeSum(n), [TreeSum(n), TreeSum(n)]
    halves = TreeSum(n, halves=True)
    for number in order:
        whole.add(compress(changes[number].copy()), number)
        halves.add(compress(changes[number].copy()), number)
        parts[number % 2].add(compress(changes[number].copy()), number)
    # what two workers have added, put together
    together = TreeSum(n)
    for part in parts:
        for node, change in part.nodes.items():
            together.add(change, node=node)
    assert np.array_equal(dense(whole.total()), tree(0, n))
    assert np.array_equal(dense(together.total()), tree(0, n))
    assert len(halves.terms()) == min(n, 2)
    assert np.array_equal(dense(halves.total()), tree(0, n))


@pytest.mark.parametrize("halves", [False, True])
def test_a_sum_lacks_a_block(halves):
    total = TreeSum(3, halves=halves)
    total.add(np.ones(8), 0)
    with pytest.raises(ValueError, match="missing"):
        total.total()
    total.add(np.ones(8), 2)
    with pytest.raises(ValueError, match="missing"):
        total.total()


def sparse_form(vector):
    return SparseChange(*lines.pack(vector), len(vector))


@given(
    st.integers(0, 9),
    st.sampled_from([0.0, 0.02, 0.3, 0.7, 1.0]),
    st.sampled_from([1, 7, 8, 61, 160, 163]),
    st.sampled_from([1, 3]),
    st.booleans(),
)
@settings(max_examples=60)
def test_sums_are_added_with_the_same_bits_in_any_form(
    seed, density, size, n_ranges, has_other
):
    rng = np.random.RandomState(seed)
    one, two = rng.normal(size=(2, size)) * (rng.uniform(size=(2, size)) < density)
    start, other = rng.normal(size=(2, size))
    executor = Threads(2)

    def added(terms, run):
        v, u = start.copy(), other.copy() if has_other else None
        return v, u, add_sum(terms, v, u, 3.0, run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "_LONG", 0)
        patch.setattr(changes, "_RANGES", n_ranges)
        forms = (
            [sparse_form(one), sparse_form(two)],
            [add(sparse_form(one), sparse_form(two))],
            [one + two],
        )
        v, u, (_, squares, risen) = added(
            [one.copy(), sparse_form(two)], Serial().side_by_side
        )
        np.testing.assert_array_equal(v, start + (one + two))
        for form in forms:
            same_v, same_u, found = added(form, executor.side_by_side)
            assert np.array_equal(same_v, v) and found[1:] == (squares, risen)
            assert not has_other or np.array_equal(same_u, u)
        places = added(forms[0], executor.side_by_side)[2][0]
    executor.close()
    assert squares == pytest.approx(((one + two) ** 2).sum())
    assert risen == pytest.approx((v**2).sum() - (start**2).sum(), abs=1e-9)
    if has_other:
        np.testing.assert_allclose(u, other + 3.0 * (one + two), atol=1e-12)
    changed = (one != 0.0) | (two != 0.0)
    n_lines = len(np.unique(np.flatnonzero(changed) // 8))
    if 5 * n_lines + 8 * changed.sum() >= 4 * size:
        assert places is None
        return
    assert len(places) == changed.sum()
    # another vector becomes the same by the places alone, or by their lines
    received, copied = start.copy(), start.copy()
    assert np.array_equal(places.take(v), v[changed])
    places.put(received, places.take(v))
    _lines.copy_lines(v, copied, places.lines)
    assert np.array_equal(received, v) and np.array_equal(copied, v)


@given(st.integers(0, 99), st.integers(1, 40), st.integers(1, 30), st.integers(0, 7))
@settings(max_examples=80)
def test_what_was_changed_in_marked_rows_is_taken_back(seed, width, n_rows, cut):
    # rows may share lines, and the last row and line may be shorter
    size = max(1, width * n_rows - cut)
    rng = np.random.RandomState(seed)
    origin = rng.normal(size=size)
    marks = (rng.uniform(size=-(-size // width)) < 0.3).astype(np.uint8)
    may = np.repeat(marks, width)[:size] * (rng.uniform(size=size) < 0.4)
    vector = origin + may * rng.normal(size=size)
    expected = 0.5 * (vector - origin)
    change = SparseChange(*lines.take_back(vector, origin, marks, 0.5, width), size)
    assert np.array_equal(dense(change), expected)
    assert len(change.values) == np.count_nonzero(expected)
    assert np.array_equal(vector, origin) and not marks.any()
    same = sparse_form(expected)
    for name in ("lines", "masks", "values"):
        assert np.array_equal(getattr(change, name), getattr(same, name))


def test_the_shorter_form_is_chosen():
    one, two = np.zeros((2, 64))
    one[:3], two[8:11] = 1.0, 2.0
    one, two = compress(one), compress(two)
    # a line of three entries: number, mask and entries
    assert isinstance(one, SparseChange) and one.nbytes == 4 + 1 + 3 * 8
    assert add(one, two).nbytes == 2 * one.nbytes
    full = np.arange(64.0)
    assert compress(full) is full
    # as many entries as half of the vector, less than their places take
    half = np.where(full < 32, 1.0, 0.0)
    assert compress(half) is half
    quarter = compress(np.where(full < 16, 1.0, 0.0))
    assert isinstance(quarter, SparseChange)
    other = compress(np.where(full >= 48, 1.0, 0.0))
    assert isinstance(add(quarter, other), np.ndarray)
