"""A feasible dual point next to the iterate of dual decomposed training.

The distributions of variables and pairs agree only in the limit. Here those of the
variables are kept, and each pair is given the nearest marginals that agree with them,
so that (10) of Yen et al. (2016) has a value that is a lower bound of the optimum:

    sum_i p_i sum_v <loss_v, q_v>  -  alpha/2 |w + changes|^2
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.solvers.dual_decomposition._state cimport GDMMState, Pair, Variable


def expected_loss(GDMMState state):
    """sum_i p_i sum_v <loss_v, q_v>"""
    cdef Py_ssize_t i, v
    cdef double total = 0.0
    for i in range(state.model.n_examples):
        for v in range(state.model._first_variable[i],
                       state.model._first_variable[i + 1]):
            # the observed label is the first of the list
            total += (state.model._example_weights[i] * state.model._cost[v]
                      * (1.0 - state._variables[v].q[0]))
    return total


def feasible_changes(GDMMState state):
    """What pairs have to change so that they agree with their variables.

    Each distribution of a pair is cut down to the marginals of its variables, and
    what is missing is spread over the labels that lack it, so that it is feasible.

    Returns
    -------
    factors : ndarray of shape (n,), intp
        Pairs of variables.
    left, right : ndarray of shape (n,), int32
        Labels of theirs.
    amounts : ndarray of shape (n,)
        Changes of their scores, those of the weights w_F.
    """
    cdef Py_ssize_t i, f, k, j, count = 0, limit = 0
    cdef double factor, lack, share
    cdef Pair* pair
    cdef Variable* ends[2]
    cdef int s
    for f in range(state.model.n_pairs):
        limit += (state._pairs[f].n
                  + support(&state._variables[state.model._pairs[f, 0]])
                  * support(&state._variables[state.model._pairs[f, 1]]))
    cdef Py_ssize_t[::1] factors = np.empty(limit, dtype=np.intp)
    cdef int32_t[::1] rows = np.empty(limit, dtype=np.int32)
    cdef int32_t[::1] columns = np.empty(limit, dtype=np.int32)
    cdef double[::1] amounts = np.empty(limit)
    cdef double* room[2]
    with nogil:
        for i in range(state.model.n_examples):
            factor = state.model._example_weights[i] / state.alpha
            for f in range(state.model._first_pair[i],
                           state.model._first_pair[i + 1]):
                pair = &state._pairs[f]
                state._fit_sides(f)
                state._widen(state._variables[state.model._pairs[f, 0]].n
                             + state._variables[state.model._pairs[f, 1]].n + pair.n)
                room[0], room[1] = state._room.left, state._room.right
                for s in range(2):
                    ends[s] = &state._variables[state.model._pairs[f, s]]
                    for k in range(ends[s].n):
                        room[s][k] = pair.sides[s].marginal[k]
                        if room[s][k] > 0.0 and room[s][k] > ends[s].q[k]:
                            room[s][k] = ends[s].q[k] / room[s][k]
                        else:
                            room[s][k] = 1.0
                for k in range(pair.n):
                    share = room[0][pair.left[k]]
                    if room[1][pair.right[k]] < share:
                        share = room[1][pair.right[k]]
                    state._room.z[k] = share * pair.q[k]
                    if share < 1.0 and pair.q[k] > 0.0:
                        factors[count] = f
                        rows[count] = ends[0].label[pair.left[k]]
                        columns[count] = ends[1].label[pair.right[k]]
                        amounts[count] = -factor * (share - 1.0) * pair.q[k]
                        count += 1
                for s in range(2):
                    for k in range(ends[s].n):
                        room[s][k] = ends[s].q[k]
                for k in range(pair.n):
                    room[0][pair.left[k]] -= state._room.z[k]
                    room[1][pair.right[k]] -= state._room.z[k]
                lack = 0.0
                for k in range(ends[0].n):
                    lack += room[0][k] if room[0][k] > 0.0 else 0.0
                if lack <= 0.0:
                    continue
                for k in range(ends[0].n):
                    if room[0][k] <= 0.0:
                        continue
                    for j in range(ends[1].n):
                        if room[1][j] <= 0.0:
                            continue
                        factors[count] = f
                        rows[count] = ends[0].label[k]
                        columns[count] = ends[1].label[j]
                        amounts[count] = -factor * room[0][k] * room[1][j] / lack
                        count += 1
    return (np.asarray(factors)[:count], np.asarray(rows)[:count],
            np.asarray(columns)[:count], np.asarray(amounts)[:count])


cdef Py_ssize_t support(Variable* variable) noexcept nogil:
    cdef Py_ssize_t k, n = 0
    for k in range(variable.n):
        n += variable.q[k] > 0.0
    return n
