"""Arrays of triples of consecutive labels that have a weight."""

import numpy as np

from sksstruct.utils._layout import padded_length


def triple_arrays(keys, n_labels):
    """Return `ld`, the number of rows, and the arrays of `LabelTriples`."""
    ld = padded_length(n_labels)
    pair_of, c = np.divmod(keys, n_labels)
    pairs, begin, count = np.unique(pair_of, return_index=True, return_counts=True)
    a, b = np.divmod(pairs, n_labels)
    # Rows are ordered by b, then by a. The rows of each b end with one more row, for
    # the pairs (a, b) without weights.
    order = np.lexsort([a, b])
    row_of = np.empty(len(pairs), dtype=np.int64)
    row_of[order] = np.arange(len(pairs)) + b[order]
    n_rows = len(pairs) + n_labels
    if n_rows * ld > np.iinfo(np.int32).max:
        raise ValueError(
            f"{len(pairs)} pairs of {n_labels} labels with weights of triples are "
            "more than 32-bit indices can tell apart"
        )
    start, stop = np.zeros((2, n_rows), dtype=np.int32)
    start[row_of], stop[row_of] = begin, begin + count
    table = np.full(n_labels**2, -1)
    table[pairs] = row_of
    ends = np.cumsum(np.bincount(b, minlength=n_labels) + 1)
    place = np.repeat(row_of, count) * ld + c
    has_none = table.reshape(n_labels, n_labels).T < 0
    before = np.argsort(has_none, axis=1, kind="stable").ravel()
    turned, first_row = c * ld + np.repeat(b, count), np.append(0, ends)
    arrays = start, stop, table, c, place, turned, first_row, before
    return ld, n_rows, [np.ascontiguousarray(array, np.int32) for array in arrays]
