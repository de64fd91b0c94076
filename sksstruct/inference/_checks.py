"""Checks of potentials, the same for every oracle."""

from collections.abc import Sized

import numpy as np


def convert_scores(name, scores, ndim=None):
    """Convert scores to float64; entries are not checked."""
    try:
        scores = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of numbers") from None
    if ndim is not None and scores.ndim != ndim:
        raise ValueError(f"{name} must be {ndim}-D, got {scores.ndim}-D")
    return scores


def check_scores(name, scores, ndim=None):
    """Convert scores to float64, and raise an error for NaN and +inf."""
    scores = convert_scores(name, scores, ndim)
    # a single pass finds NaN and +inf: the maximum of an array with NaN is NaN
    if scores.size and not scores.max() < np.inf:
        at = np.argwhere(~(scores < np.inf))[0].tolist()
        raise ValueError(
            f"{name}{at or ''} must be finite or -inf, got {scores[tuple(at)]}"
        )
    return scores


def check_sums(name, terms, *tables):
    """Raise an error if sums of `terms` entries of the tables could overflow."""
    largest = 0.0
    for table in tables:
        if table.size:
            high, low = table.max(), table.min()
            # -inf can be added to any finite score: only the finite scores count
            if low == -np.inf:
                low = table.min(where=table > -np.inf, initial=0.0)
                high = max(high, low)
            largest = max(largest, high, -low)
    if largest > 1e300 / terms:
        raise ValueError(
            f"{name}: the scores are too large for sums in float64, the largest has "
            f"the size {largest:.3g}: scale them"
        )


def check_positions(unary):
    """Check scores of labels at the positions of a chain: (T, K)."""
    unary = check_scores("unary", unary)
    if unary.ndim != 2 or unary.shape[0] < 1 or unary.shape[1] < 1:
        raise ValueError(
            f"unary must have shape (T, K) with T >= 1 and K >= 1, got {unary.shape}"
        )
    return unary


def check_chain(unary, pairwise):
    """Check potentials of a chain: (T, K), and (K, K) or (T - 1, K, K)."""
    unary = check_positions(unary)
    pairwise = check_scores("pairwise", pairwise)
    size, n_states = unary.shape
    square = (n_states, n_states)
    if pairwise.shape != square and pairwise.shape != (size - 1, *square):
        raise ValueError(
            f"pairwise must have shape {square} or {(size - 1, *square)} for unary of "
            f"shape {unary.shape}, got {pairwise.shape}"
        )
    check_sums("unary and pairwise", 4 * size, unary, pairwise)
    return unary, pairwise


def check_k(k, name="k"):
    """Check a count, such as a number of labelings; return it as an int."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {k!r}")
    return int(k)


def check_variables(unary):
    """Check scores of states: a list of 1-D arrays, or a 2-D array."""
    # convert data frames and other array-likes
    if hasattr(unary, "shape") and not isinstance(unary, np.ndarray):
        unary = np.asarray(unary)
    if isinstance(unary, np.ndarray) and unary.dtype != object:
        unary = list(check_scores("unary", unary, ndim=2))
    elif isinstance(unary, str) or not isinstance(unary, Sized):
        raise ValueError(f"unary must be a list of 1-D arrays, got {unary!r:.80}")
    else:
        unary = [
            check_scores(f"unary[{v}]", row, ndim=1) for v, row in enumerate(unary)
        ]
    if not unary:
        raise ValueError("unary is empty: at least one variable is required")
    for v, row in enumerate(unary):
        if not len(row):
            raise ValueError(
                f"unary[{v}] is empty: a variable needs at least one state"
            )
    return unary


def check_flat_variables(unary):
    """Check scores of states; return them flat, and each variable's number of states.

    The scores of the states of variable 0 come first.
    """
    if isinstance(unary, np.ndarray) and unary.ndim == 2 and unary.dtype != object:
        rows = check_scores("unary", unary)
        # a 2-D array is not divided into rows, of which there may be many
        if rows.size:
            sizes = np.full(len(rows), rows.shape[1], dtype=np.intp)
            return np.ascontiguousarray(rows).reshape(-1), sizes
    rows = check_variables(unary)
    return np.concatenate(rows), np.array([len(row) for row in rows], dtype=np.intp)


def check_edges(edges, n_variables):
    """Check edges, pairs of different variables, of shape (n_edges, 2)."""
    try:
        # an empty list would become an array of floats
        array = np.asarray(edges if len(edges) else np.zeros((0, 2), dtype=np.intp))
    except (TypeError, ValueError):
        raise ValueError(
            f"edges must be pairs of integers, of shape (n_edges, 2), got {edges!r:.80}"
        ) from None
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ValueError(
            "edges must be pairs of integers, of shape (n_edges, 2), got "
            f"{array.dtype} of shape {array.shape}"
        )
    first, second = array.T
    loops = first == second
    # the edge at fault is searched for only after one of these comparisons fails
    if (
        loops.any()
        or array.min(initial=0) < 0
        or array.max(initial=0) >= max(n_variables, 1)
    ):
        bad = loops | ((array < 0) | (array >= n_variables)).any(axis=1)
        first = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"edges[{first}] is {tuple(array[first].tolist())}: an edge joins two "
            f"different variables between 0 and {n_variables - 1}"
        )
    return np.ascontiguousarray(array, dtype=np.intp)


def check_tables(pairwise, edges, sizes):
    """Check tables of edges; return the distinct tables, and a table index per edge.

    pairwise is one table for all edges, or a list with a table for each edge. A table
    object that occurs several times in the list is stored once.
    """
    if not len(edges):
        return [], np.zeros(0, dtype=np.intp)
    if pairwise is None:
        raise ValueError("pairwise is missing: there are edges, which need tables")
    count = len(edges)
    if isinstance(pairwise, list | tuple) and not is_table(pairwise):
        # tables are distinguished by identity, as comparing entries takes long
        tables, which, index_of = [], np.empty(len(pairwise), dtype=np.intp), {}
        for edge, table in enumerate(pairwise):
            if id(table) not in index_of:
                index_of[id(table)] = len(tables)
                tables.append(check_scores(f"pairwise[{edge}]", table, ndim=2))
            which[edge] = index_of[id(table)]
    else:
        pairwise = check_scores("pairwise", pairwise)
        if pairwise.ndim == 3:
            tables, which = list(pairwise), np.arange(len(pairwise))
        elif pairwise.ndim == 2:
            tables, which = [pairwise], np.zeros(count, dtype=np.intp)
        else:
            raise ValueError(
                "pairwise must be one table or a list of them, got shape "
                f"{pairwise.shape}"
            )
    if len(which) != count:
        raise ValueError(
            f"pairwise has {len(which)} tables, but there are {count} edges"
        )
    sizes = np.asarray(sizes)
    # if all edges share a table, and all variables have the same number of states, one
    # comparison of shapes checks all edges
    least, most = sizes.min(), sizes.max()
    if len(tables) == 1 and least == most and tables[0].shape == (least, most):
        return tables, which
    shapes = np.array([table.shape for table in tables])[which]
    bad = (shapes != sizes[edges]).any(axis=1)
    if bad.any():
        edge = int(np.flatnonzero(bad)[0])
        left, right = edges[edge]
        raise ValueError(
            f"pairwise[{edge}] has shape {tuple(shapes[edge].tolist())}, but "
            f"edges[{edge}] joins variables {left} and {right} with {sizes[left]} and "
            f"{sizes[right]} states"
        )
    return tables, which


def is_table(pairwise):
    """Return whether nested lists are one table of numbers, not a list of tables."""
    if not isinstance(pairwise, list | tuple):
        return False
    # Only the first row is examined. Converting all rows would fail for tables of
    # different shapes, with an error or a warning that depends on NumPy's version.
    rows = pairwise[:1]
    if rows and isinstance(rows[0], list | tuple) and not len(rows[0]):
        return True  # a table whose rows are empty
    return (
        bool(rows)
        and isinstance(rows[0], list | tuple)
        and np.ndim(rows[0]) == 1
        and np.ndim(rows[0][0]) == 0
    )
