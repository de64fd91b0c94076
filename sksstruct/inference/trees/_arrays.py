"""Allocation and layout of the arrays of the tree kernels."""

import numpy as np

from sksstruct.inference._checks import check_sums, check_tables
from sksstruct.utils._layout import aligned_zeros, padded_length


def starts_of(lengths):
    """Return the offsets of consecutive pieces of given lengths, and the total."""
    starts = np.zeros(len(lengths) + 1, dtype=np.intp)
    np.cumsum(lengths, out=starts[1:])
    return starts


def tree_arrays(n):
    """Return a zero array of branches, and the index arrays of a `Tree`."""
    rows = np.empty((5, n + 1), dtype=np.int32)
    return np.zeros((n + 1, 4), dtype=np.int32), (*rows, np.empty(n + 2, np.int32))


def leaders(n):
    """Return the initial leaders of union-find: each variable leads itself."""
    return np.arange(n, dtype=np.intp)


def list_children(parents, root):
    """Return the start of each variable's list of children, and the joined lists."""
    parents = parents[:root]
    first = starts_of(np.bincount(parents, minlength=root + 1))
    return first, np.argsort(parents, kind="stable").astype(np.intp)


# ---- arrays of `Forest`, whose variables are numbered in the order of messages ----


def place_rows(sizes, order):
    """Return offsets of the variables' scores, and the arrays of padded rows.

    The arrays are the number of states of each variable, the length of each row, the
    offset of each row, and the rows, which are zero.
    """
    # the root of roots has one state, whose score is 0
    size = np.append(sizes, 1)[order].astype(np.int32)
    padded = [padded_length(n) for n in range(size.max() + 1)]
    ld = np.array(padded, dtype=np.int32)[size]
    first = starts_of(ld)
    return starts_of(sizes), (size, ld, first, aligned_zeros(first[-1]))


def forest_arrays(edges, flat, sizes, pairwise):
    """Return checked tables, the table number of each edge, and keys, all -1.

    There are two keys for each variable: of the tables for messages to its parent, and
    from its parent; see `pack_tables`.
    """
    tables, which = check_tables(pairwise, edges, sizes)
    # no sum has more terms than twice the number of variables and edges
    check_sums("unary and pairwise", 4 * len(sizes), flat, *tables)
    return tables, which, np.full((2, len(sizes) + 1), -1, dtype=np.intp)


def pack_tables(tables, up, down, most):
    """Return an array of the tables whose keys are in up or down, with padded rows.

    The key of a table is twice its number, plus one if the table is transposed. Keys in
    up and down are replaced by offsets in the array. `most` is the largest number of
    states.
    """
    # offset 0 has zeros: the table of edges to the root of roots, whose key is -1
    place, packed = max(4 * most, padded_length(most)), []
    offset = np.zeros(2 * len(tables) + 1, dtype=np.intp)
    for key in dict.fromkeys(up.tolist() + down.tolist()):
        if key < 0:
            continue
        table = tables[key // 2].T if key % 2 else tables[key // 2]
        packed.append((place, table))
        offset[key] = place
        place += table.shape[0] * padded_length(table.shape[1])
    up[:], down[:] = offset[up], offset[down]
    memory = aligned_zeros(place)
    for start, table in packed:
        rows, columns = table.shape
        ld = padded_length(columns)
        memory[start : start + rows * ld].reshape(rows, ld)[:, :columns] = table
    return memory


def split_rows(flat, order, size, ld, first, theta):
    """Return the rows of all variables, in original order and without padding."""
    rows = [None] * (len(order) - 1)
    places = zip(order.tolist(), first.tolist(), size.tolist(), strict=False)
    next(places)
    for variable, start, n in places:
        rows[variable] = flat[start : start + n]
    return rows


def labeling_arrays(n):
    """Return an empty array for a labeling, and zeros for labels in message order."""
    return np.empty(n, dtype=np.int32), np.zeros(n + 1, dtype=np.int32)


def tree_results(count):
    """Return empty arrays for the roots of `count` trees and for their scores."""
    return np.empty(count, dtype=np.intp), np.empty(count)


def sweep_starts(n):
    """Return zero offsets of messages, and offsets of pair scores, which are -1."""
    return np.zeros(n + 2, dtype=np.intp), np.full(n + 1, -1, dtype=np.intp)


def sweep_arrays(theta, n_messages, n_pairs, n_scratch):
    """Return two copies of the scores, and arrays for messages, pairs and scratch."""
    messages, scratch = aligned_zeros(n_messages), aligned_zeros(n_scratch)
    return theta.copy(), theta.copy(), messages, np.empty(n_pairs), scratch


def split_pairs(flat, first_pair, edges, arrays, rows):
    """Return the pair scores of each edge: a table from first to second variable."""
    tables = [None] * len(edges)
    _, _, order, above, edge_above, _ = map(np.ndarray.tolist, arrays)
    size, heads = rows[0].tolist(), edges[:, 0].tolist()
    for child, start in enumerate(first_pair.tolist()):
        if start >= 0:
            edge, shape = edge_above[child], (size[child], size[above[child]])
            table = flat[start : start + shape[0] * shape[1]].reshape(shape)
            # the table has the child's states as rows, whichever end of the edge the
            # child is
            tables[edge] = table if heads[edge] == order[child] else table.T
    return tables


def list_arrays(above, ld):
    """Return an array with a row for each variable's parent, and the rows' offsets."""
    first = starts_of(np.append(0, ld[above[1:]]))
    return np.empty(first[-1]), first


def topk_results(count, n):
    """Return empty arrays for `count` labelings of n variables and for their scores."""
    return np.empty((count, n), dtype=np.int32), np.empty(count)
