"""Ordered tables of scores against tables that are written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sksstruct.inference.chains._ordered_table import IndicatorTable

VALUES = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])


def best(dense, rows, row_messages, columns, column_messages):
    scores = dense.copy()
    scores[rows] += np.asarray(row_messages)[:, None]
    scores[:, columns] += column_messages
    return scores


@st.composite
def problems(draw):
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    entry = st.tuples(st.integers(0, n - 1), st.integers(0, m - 1), VALUES)
    changes = draw(st.lists(entry, max_size=25))
    rows = draw(st.lists(st.integers(0, n - 1), max_size=n, unique=True))
    columns = draw(st.lists(st.integers(0, m - 1), max_size=m, unique=True))
    row_messages = [draw(VALUES) for _ in rows]
    column_messages = [draw(VALUES) for _ in columns]
    return n, m, changes, rows, row_messages, columns, column_messages


@given(problems())
def test_maximum_is_that_of_the_whole_table(problem):
    n, m, changes, rows, row_messages, columns, column_messages = problem
    table, dense = IndicatorTable(n, m), np.zeros((n, m))
    for a, b, amount in changes:
        table.add([a], [b], [amount])
        dense[a, b] += amount
    scores = best(dense, rows, row_messages, columns, column_messages)
    for linear in (False, True):
        a, b, value = table.maximum(
            rows, row_messages, columns, column_messages, linear=linear
        )
        assert value == scores.max() == scores[a, b]
    a, b, values = table.entries()
    found = np.zeros((n, m))
    found[a, b] = values
    np.testing.assert_array_equal(found, dense)
    assert table.n_stored == len({(a, b) for a, b, _ in changes})


def test_few_entries_are_visited():
    rng = np.random.RandomState(0)
    K = 300
    table = IndicatorTable(K, K)
    table.add(*rng.randint(K, size=(2, 5000)), rng.standard_normal(5000))
    rows, columns = np.arange(5), np.arange(10, 15)
    messages = rng.standard_normal(5)
    table.visited = 0
    found = table.maximum(rows, messages, columns, messages)
    visited = table.visited
    table.visited = 0
    assert table.maximum(rows, messages, columns, messages, linear=True) == found
    assert table.visited >= K * K
    assert visited < 100


def test_entries_that_are_not_there():
    table = IndicatorTable(2, 3)
    with pytest.raises(ValueError, match=r"no entry \(2, 0\)"):
        table.add([2], [0], [1.0])
    with pytest.raises(ValueError, match="differ in length"):
        table.add([1], [0], [1.0, 2.0])
    with pytest.raises(ValueError, match="0 x 3"):
        IndicatorTable(0, 3)
