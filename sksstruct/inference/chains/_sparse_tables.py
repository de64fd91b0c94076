"""Stored pairs of a sparse table of transitions, as arrays."""

import numpy as np
from scipy import sparse


def list_pairs(table):
    """Return n_labels, and first labels, second labels and scores of stored pairs."""
    # a copy, as the caller's array must keep its duplicate entries
    csr = sparse.csr_array(table, dtype=np.float64, copy=True)
    csr.sum_duplicates()
    first = np.repeat(np.arange(csr.shape[0], dtype=np.int32), np.diff(csr.indptr))
    values = np.ascontiguousarray(csr.data[: csr.nnz])
    return csr.shape[0], first, csr.indices[: csr.nnz].astype(np.int32), values
