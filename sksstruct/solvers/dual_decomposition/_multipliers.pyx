"""The multipliers of dual decomposed training, for whoever evaluates the objective.

Notation as in `_state.pyx`: lambda_vf = rho u_vf is what a label of variable v gains
from pair f, and what the outcomes of f with this label lose. Any lambda gives an upper
bound of the relaxed loss (8), and those of the optimum give the loss itself.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.solvers.dual_decomposition._active_sets cimport PairEnd
from sksstruct.solvers.dual_decomposition._clique_state cimport CliqueGDMMState
from sksstruct.solvers.dual_decomposition._state cimport GDMMState


def scaled_multipliers(GDMMState state):
    """Return lambda of the labels that were active at some time.

    That of other labels is zero.

    Returns
    -------
    first : ndarray of shape (2 * n_pairs + 1,), intp
        Where the entries of each end begin; first and second end of each pair in turn.
    labels : ndarray of shape (n,), int32
        Labels of the variable at this end.
    values : ndarray of shape (n,)
        Their lambda.
    cliques : ndarray of shape (n,) or None
        Lambda of every label at all ends of cliques, if there are any.
    """
    cdef Py_ssize_t n = 2 * state.model.n_pairs, end, k, at = 0
    cdef Py_ssize_t[::1] first = np.zeros(n + 1, dtype=np.intp)
    cdef const PairEnd* pair_end
    for end in range(n):
        first[end + 1] = first[end] + known_labels(
            &state._outcomes[end // 2].ends[end % 2])
    # one too many, so that no pairs at all are no empty buffers
    cdef int32_t[::1] labels = np.empty(first[n] + 1, dtype=np.int32)
    cdef double[::1] values = np.empty(first[n] + 1)
    with nogil:
        for end in range(n):
            pair_end = &state._outcomes[end // 2].ends[end % 2]
            for k in range(known_labels(pair_end)):
                labels[at] = pair_end.labels.label[k]
                values[at] = state.rho * pair_end.u[k]
                at += 1
    cliques = state.multipliers() if isinstance(state, CliqueGDMMState) else None
    return (
        np.asarray(first), np.asarray(labels)[:at], np.asarray(values)[:at], cliques)


cdef inline Py_ssize_t known_labels(const PairEnd* end) noexcept nogil:
    """Count the labels for which a pair has multipliers; newer ones have zeros."""
    return end.capacity if end.capacity < end.labels.size else end.labels.size
