"""A feasible dual point near the iterate of dual decomposed training.

The distributions of variables and pairs agree only in the limit. This file keeps the
q_v and replaces each q_f by a distribution with these marginals, so that the dual (10)
of Yen et al. (2016) has a value, a lower bound of the optimum:

    sum_i p_i sum_v <loss_v, q_v>  -  alpha/2 |w + changes|^2

To build the new q_f, the entries of q_f are scaled down until no marginal exceeds q_v.
The lack of a label is q_v minus the scaled marginal. The product of the lacks of both
ends, divided by the sum of lacks, which both ends share, is added to the scaled q_f: a
transport plan that moves little probability if the marginals nearly agree. For a clique
of r variables, the product of r lacks is divided by the sum to the power r - 1.
`_state.pyx` states the notation.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.solvers.dual_decomposition._active_sets cimport (
    ActiveLabels, ActiveOutcomes, PairEnd, fit_ends,
)
from sksstruct.solvers.dual_decomposition._clique_state cimport (
    CliqueGDMMState, CliqueOutcomes,
)
from sksstruct.solvers.dual_decomposition._state cimport GDMMState, Scratch


cdef struct Changes:
    # A list of changes of the scores of outcomes, which are entries of w_F. The caller
    # allocates the arrays, long enough for all changes.
    Py_ssize_t size
    Py_ssize_t* pair
    int32_t* labels[2]
    double* amount


def expected_loss(GDMMState state):
    """Return sum_i p_i sum_v <loss_v, q_v>."""
    cdef Py_ssize_t i, variable
    cdef double total = 0.0
    for i in range(state.model.n_examples):
        for variable in range(state.model._first_variable[i],
                              state.model._first_variable[i + 1]):
            # the observed label, at place 0, has no loss
            total += (state.model._example_weights[i] * state.model._cost[variable]
                      * (1.0 - state._labels[variable].q[0]))
    return total


def feasible_changes(GDMMState state):
    """Return the weight changes that make pairs consistent with their variables.

    Returns
    -------
    pairs : ndarray of shape (n,), intp
        Pairs of variables.
    left, right : ndarray of shape (n,), int32
        Labels of their variables.
    amounts : ndarray of shape (n,)
        Changes of the scores of these outcomes; an outcome may be listed twice.
    """
    cdef Py_ssize_t i, pair, limit = 0
    cdef double C
    cdef Changes changes
    # the number of changes is bounded first, so that the arrays need not grow
    for pair in range(state.model.n_pairs):
        limit += most_changes(&state._outcomes[pair])
    # one entry is spare, so that a list without changes does not make empty buffers
    cdef Py_ssize_t[::1] pairs = np.empty(limit + 1, dtype=np.intp)
    cdef int32_t[:, ::1] labels = np.empty((2, limit + 1), dtype=np.int32)
    cdef double[::1] amounts = np.empty(limit + 1)
    changes.size = 0
    changes.pair, changes.amount = &pairs[0], &amounts[0]
    changes.labels[0], changes.labels[1] = &labels[0, 0], &labels[1, 0]
    with nogil:
        for i in range(state.model.n_examples):
            # by (10), the weights contain -C_i q_f times the features of the outcomes
            C = state.model._example_weights[i] / state.alpha
            for pair in range(state.model._first_pair[i],
                              state.model._first_pair[i + 1]):
                change_pair(state, pair, C, &changes)
    return (np.asarray(pairs)[:changes.size], np.asarray(labels)[0, :changes.size],
            np.asarray(labels)[1, :changes.size], np.asarray(amounts)[:changes.size])


cdef int change_pair(GDMMState state, Py_ssize_t pair, double C,
                     Changes* changes) except -1 nogil:
    """Append to `changes` the weight changes that make one pair consistent."""
    cdef ActiveOutcomes* outcomes = &state._outcomes[pair]
    # the variables may have labels that are newer than the pair's last visit
    fit_ends(state._arena, outcomes)
    state._reserve(max(outcomes.size, outcomes.ends[0].labels.size,
                       outcomes.ends[1].labels.size))
    list_reductions(&state._scratch, outcomes, pair, C, changes)
    list_additions(&state._scratch, outcomes, pair, C, changes)
    return 0


cdef void scale_down(Scratch* scratch, const ActiveOutcomes* outcomes) noexcept nogil:
    """Scale the q_f of a pair down until no marginal exceeds q_v.

    The scaled q_f are written to `target` of the scratch, and the scale factors to
    `previous`.
    """
    cdef const PairEnd* end
    cdef const int32_t* first = outcomes.ends[0].place
    cdef const int32_t* second = outcomes.ends[1].place
    cdef double* scale
    cdef double factor
    cdef Py_ssize_t k
    cdef int side
    for side in range(2):
        end = &outcomes.ends[side]
        # the memory of messages holds the scale of each label
        scale = scratch.message[side]
        for k in range(end.labels.size):
            scale[k] = 1.0
            # the scale is 1 if the marginal is at most q_v; division by zero is avoided
            if end.marginal[k] > 0.0 and end.marginal[k] > end.labels.q[k]:
                scale[k] = end.labels.q[k] / end.marginal[k]
    for k in range(outcomes.size):
        # with the smaller of the two scales, no marginal exceeds q_v at either end
        factor = scratch.message[0][first[k]]
        if scratch.message[1][second[k]] < factor:
            factor = scratch.message[1][second[k]]
        scratch.previous[k], scratch.target[k] = factor, factor * outcomes.q[k]


cdef void list_reductions(Scratch* scratch, const ActiveOutcomes* outcomes,
                          Py_ssize_t pair, double C, Changes* changes) noexcept nogil:
    """Scale the q_f of a pair down, and append the score changes to `changes`."""
    cdef double factor
    cdef Py_ssize_t k
    scale_down(scratch, outcomes)
    for k in range(outcomes.size):
        factor = scratch.previous[k]
        # the weights contain -C q_f (10), hence the minus sign
        if factor < 1.0 and outcomes.q[k] > 0.0:
            add_change(changes, outcomes, pair, outcomes.ends[0].place[k],
                       outcomes.ends[1].place[k], -C * (factor - 1.0) * outcomes.q[k])


cdef void list_additions(Scratch* scratch, const ActiveOutcomes* outcomes,
                         Py_ssize_t pair, double C, Changes* changes) noexcept nogil:
    """Append the changes from adding the product of both ends' lacks to q_f.

    The lack of a label is q_v minus its scaled marginal.
    """
    cdef double* left = scratch.message[0]
    cdef double* right = scratch.message[1]
    cdef double lack = 0.0
    cdef Py_ssize_t j, k
    write_lacks(scratch, outcomes)
    # rounding may make lacks negative, which count as zero
    for j in range(outcomes.ends[0].labels.size):
        lack += left[j] if left[j] > 0.0 else 0.0
    # without lacks, the marginals agree already, as at the optimum
    if lack <= 0.0:
        return
    # both ends have the same sum of lacks, so that the lacks are the marginals of the
    # product divided by this sum
    for j in range(outcomes.ends[0].labels.size):
        if left[j] <= 0.0:
            continue
        # the product is zero if either lack is zero
        for k in range(outcomes.ends[1].labels.size):
            if right[k] > 0.0:
                add_change(changes, outcomes, pair, j, k,
                           -C * left[j] * right[k] / lack)


cdef void write_lacks(Scratch* scratch, const ActiveOutcomes* outcomes) noexcept nogil:
    """Write the lack of each label at both ends: q_v minus the scaled marginal."""
    cdef const PairEnd* end
    cdef double* lack
    cdef Py_ssize_t k
    cdef int side
    for side in range(2):
        end = &outcomes.ends[side]
        lack = scratch.message[side]
        for k in range(end.labels.size):
            lack[k] = end.labels.q[k]
        # `target` holds all outcomes, including those with scale 1
        for k in range(outcomes.size):
            lack[end.place[k]] -= scratch.target[k]
        # Away steps leave rounding errors: a negative marginal must not make a label
        # with q_v = 0 lack probability.
        for k in range(end.labels.size):
            if end.labels.q[k] <= 0.0:
                lack[k] = 0.0


cdef inline void add_change(Changes* changes, const ActiveOutcomes* outcomes,
                            Py_ssize_t pair, Py_ssize_t first_place,
                            Py_ssize_t second_place, double amount) noexcept nogil:
    """Append a change to the list, whose length `most_changes` bounds."""
    changes.pair[changes.size] = pair
    # callers need labels, as places are internal to the state
    changes.labels[0][changes.size] = outcomes.ends[0].labels.label[first_place]
    changes.labels[1][changes.size] = outcomes.ends[1].labels.label[second_place]
    changes.amount[changes.size] = amount
    changes.size += 1


cdef Py_ssize_t most_changes(const ActiveOutcomes* outcomes) noexcept nogil:
    """Bound the number of changes of a pair: its outcomes plus all pairs of labels.

    Only labels with q_v > 0 can lack probability.
    """
    return (outcomes.size + support(outcomes.ends[0].labels)
            * support(outcomes.ends[1].labels))


cdef Py_ssize_t support(const ActiveLabels* labels) noexcept nogil:
    """Return the number of labels with q > 0."""
    cdef Py_ssize_t k, count = 0
    for k in range(labels.size):
        count += labels.q[k] > 0.0
    return count


# ---- cliques ----

def clique_changes(CliqueGDMMState state):
    """Return the weight changes that make cliques consistent with their variables.

    Returns
    -------
    changes : ndarray of shape (n_weights,)
        Changes of the weights of cliques.
    """
    cdef Py_ssize_t i, clique
    cdef double[::1] changes = np.zeros(len(state.cliques.weights))
    # scratch: lacks of the labels at all ends, and their products
    cdef double[::1] lack = np.zeros(state.cliques.most_nodes * state.cliques.n_labels)
    cdef double[::1] products = np.zeros(state.cliques.most_outcomes)
    with nogil:
        for i in range(state.model.n_examples):
            for clique in range(state.cliques._first_clique[i],
                                state.cliques._first_clique[i + 1]):
                change_clique(
                    state, clique, state.model._example_weights[i] / state.alpha,
                    &lack[0], &products[0],
                    &changes[state.cliques._first_weight[clique]])
    return np.asarray(changes)


cdef void change_clique(CliqueGDMMState state, Py_ssize_t clique, double C,
                        double* lack, double* products, double* changes) noexcept nogil:
    """Add the weight changes of one clique to `changes`, the entries of its table."""
    cdef CliqueOutcomes* outcomes = &state._cliques[clique]
    cdef Py_ssize_t K = state.cliques.n_labels, order = outcomes.order
    cdef Py_ssize_t k, j, label, node
    cdef double q, share, scale, total = 0.0
    # the weights contain -C q_f (10), hence the minus sign
    C *= -state.cliques._factor[clique]
    for j in range(order):
        node = state.cliques._scope[state.cliques._first_node[clique] + j]
        for label in range(K):
            lack[j * K + label] = state._node_q(node, label)
    # with the smallest scale of all ends, no marginal exceeds q_v at any end
    for k in range(outcomes.size):
        share = 1.0
        for j in range(order):
            label = j * K + outcomes.labels[k * order + j]
            node = state.cliques._scope[state.cliques._first_node[clique] + j]
            q = state._node_q(node, label - j * K)
            # the scale is 1 if the marginal is at most q_v; division by zero is avoided
            if outcomes.marginal[label] > 0.0 and outcomes.marginal[label] > q:
                scale = q / outcomes.marginal[label]
                share = scale if scale < share else share
        changes[outcomes.entry[k]] += C * (share - 1.0) * outcomes.q[k]
        for j in range(order):
            lack[j * K + outcomes.labels[k * order + j]] -= share * outcomes.q[k]
    for label in range(K):
        total += lack[label] if lack[label] > 0.0 else 0.0
    if total > 0.0:
        multiply_lacks(K, order, lack, total, products)
        for k in range(outcomes.n_outcomes):
            changes[k] += C * products[k]


cdef void multiply_lacks(Py_ssize_t n_labels, Py_ssize_t order, const double* lack,
                         double total, double* products) noexcept nogil:
    """Write, for each outcome, the product of its labels' lacks / total^(order - 1)."""
    cdef Py_ssize_t j, a, b, n = 1
    cdef double head, part
    products[0] = total
    for j in range(order):
        # products are extended by one node in place, from the last entry to the first,
        # so that none is overwritten before it is read
        for a in range(n - 1, -1, -1):
            head = products[a] / total
            for b in range(n_labels - 1, -1, -1):
                part = lack[j * n_labels + b]
                # rounding may make lacks negative, which count as zero
                products[a * n_labels + b] = head * part if part > 0.0 else 0.0
        n *= n_labels
