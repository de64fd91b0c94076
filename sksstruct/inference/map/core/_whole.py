"""Whole scores: upper bounds on the scores of labelings can be rounded down."""

import numpy as np

from sksstruct.factor_graphs import DenseTable, Logic

# Largest rounding error of a bound, relative to the largest sum of scores.
_ERROR = 1e-9
# Largest rounding error with which bounds are rounded down.
_MOST_ERROR = 0.1
# Tables of at most `_SMALL` entries are checked together, `_BATCH` at a time.
_SMALL, _BATCH = 1000, 1000


def whole_error(reduced):
    """Return the largest rounding error of a bound on whole scores.

    Parameters
    ----------
    reduced : Reduced
        The graph; scores of -inf count as whole.

    Returns
    -------
    error : float or None
        The allowed labelings of the graph have whole scores; labelings with penalties
        need not. A computed bound can be below the true bound by at most `error`. None
        if a score is not whole, or if scores are so large that rounding errors hide
        their last digit.
    """
    graph = reduced.plain
    if not _all_whole(graph.unaries) or not _all_whole(graph.edge_weights):
        return None
    if not all(map(_all_whole, _entries(graph.tables))):
        return None
    error = _ERROR * max(map(abs, reduced.plain_range))
    return error if error <= _MOST_ERROR else None


def _all_whole(values):
    """Whether all numbers are whole or infinite; true for None."""
    return values is None or bool((values == np.rint(values)).all())


def _entries(tables):
    """Yield arrays of the entries, or of the parameters that determine the entries."""
    batch = []
    for table in tables:
        if isinstance(table, DenseTable):
            values = table.values.reshape(-1)
        elif isinstance(table, Logic):
            # the scores of conditions are 0 and -inf
            continue
        else:
            values = np.array(table.parameters, dtype=np.float64)
        if len(values) > _SMALL:
            yield values
        else:
            batch.append(values)
        if len(batch) == _BATCH:
            yield np.concatenate(batch)
            batch = []
    if batch:
        yield np.concatenate(batch)
