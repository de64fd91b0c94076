"""Lists that lie one after the other: where each begins, and who is in which."""

import numpy as np
from scipy import sparse


def offsets(sizes):
    """Where each list begins, and where the last one ends.

    Parameters
    ----------
    sizes : sequence of int
        Sizes of the lists.

    Returns
    -------
    first : ndarray of shape (len(sizes) + 1,), intp
        The first index of each list, and the sum of all sizes.
    """
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)


def places_by(keys, n):
    """Where each of the keys 0, ..., n - 1 stands, in increasing order.

    Parameters
    ----------
    keys : ndarray of int
        Keys.
    n : int
        Number of different keys.

    Returns
    -------
    first : ndarray of shape (n + 1,), intp
        Where the places of each key begin.
    places : ndarray of shape (len(keys),), int32
        Those of key 0, then those of key 1, and so on.
    """
    # counting, as SciPy does, takes a tenth of the time of sorting
    m = len(keys)
    table = sparse.csr_matrix((np.ones(m, dtype=bool), (keys, np.arange(m))), (n, m))
    return table.indptr.astype(np.intp), table.indices.astype(np.int32)
