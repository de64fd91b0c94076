"""The multipliers of dual decomposed training, from which objectives are evaluated.

Notation as in `_state.pyx`: the multiplier lambda_vf = rho u_vf is added to the score
of a label of variable v, and subtracted from the scores of the outcomes of pair f with
this label. Any lambda gives an upper bound of the relaxed loss (8); the optimal lambda
gives the loss itself.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.solvers.dual_decomposition._active_sets cimport PairEnd
from sksstruct.solvers.dual_decomposition._clique_state cimport CliqueGDMMState
from sksstruct.solvers.dual_decomposition._state cimport GDMMState


def scaled_multipliers(GDMMState state):
    """Return the multipliers lambda of active labels, at all ends of pairs and cliques.

    All other labels have lambda = 0.

    Returns
    -------
    first : ndarray of shape (2 * n_pairs + 1,), intp
        Where the entries of each end begin in `labels` and `values`; the ends are the
        first and the second end of each pair in turn.
    labels : ndarray of shape (n,), int32
        Labels of the variable at each end.
    values : ndarray of shape (n,)
        Lambda of these labels.
    cliques : ndarray of shape (n,) or None
        Lambda of every label at all ends of cliques, if there are any.
    """
    cdef Py_ssize_t n = 2 * state.model.n_pairs, end, k, n_written = 0
    cdef Py_ssize_t[::1] first = np.zeros(n + 1, dtype=np.intp)
    cdef const PairEnd* pair_end
    for end in range(n):
        first[end + 1] = first[end] + known_labels(
            &state._outcomes[end // 2].ends[end % 2])
    # one entry is spare, so that a model without pairs does not make an empty buffer
    cdef int32_t[::1] labels = np.empty(first[n] + 1, dtype=np.int32)
    cdef double[::1] values = np.empty(first[n] + 1)
    with nogil:
        for end in range(n):
            pair_end = &state._outcomes[end // 2].ends[end % 2]
            for k in range(known_labels(pair_end)):
                labels[n_written] = pair_end.labels.label[k]
                values[n_written] = state.rho * pair_end.u[k]
                n_written += 1
    cliques = state.multipliers() if isinstance(state, CliqueGDMMState) else None
    return (
        np.asarray(first), np.asarray(labels)[:n_written],
        np.asarray(values)[:n_written], cliques)


cdef inline Py_ssize_t known_labels(const PairEnd* end) noexcept nogil:
    """Return the number of labels with a stored multiplier at an end of a pair.

    Labels that were activated later have lambda = 0.
    """
    return end.capacity if end.capacity < end.labels.size else end.labels.size
