"""A feasible dual point next to the iterate of dual decomposed training.

The distributions of variables and pairs agree only in the limit. Here the q_v are kept,
and each q_f is given marginals that agree with them, so that (10) of Yen et al. (2016)
has a value that is a lower bound of the optimum:

    sum_i p_i sum_v <loss_v, q_v>  -  alpha/2 |w + changes|^2

The new q_f is the old one cut down until no marginal is above q_v, plus the product of
what the two ends then lack, divided by its sum: a transport plan that moves little
where the marginals agree already. Cliques of r variables are treated alike: what their
ends lack is the same in all, so that the product is divided by its power r - 1.
Notation as in `_state.pyx`.
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
    # A list of changes of the scores of outcomes, which are those of the weights w_F.
    # The arrays belong to the caller, and are long enough.
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
            # the observed label is the first of the list, and costs nothing
            total += (state.model._example_weights[i] * state.model._cost[variable]
                      * (1.0 - state._labels[variable].q[0]))
    return total


def feasible_changes(GDMMState state):
    """Return changes of pairs that make them agree with their variables.

    Returns
    -------
    pairs : ndarray of shape (n,), intp
        Pairs of variables.
    left, right : ndarray of shape (n,), int32
        Labels of their variables.
    amounts : ndarray of shape (n,)
        Changes of their scores, which are weights in w_F. An outcome may have two.
    """
    cdef Py_ssize_t i, pair, limit = 0
    cdef double C
    cdef Changes changes
    # counted before, so that nothing has to grow in the loop below
    for pair in range(state.model.n_pairs):
        limit += most_changes(&state._outcomes[pair])
    # one too many, so that no changes at all are no empty buffers
    cdef Py_ssize_t[::1] pairs = np.empty(limit + 1, dtype=np.intp)
    cdef int32_t[:, ::1] labels = np.empty((2, limit + 1), dtype=np.int32)
    cdef double[::1] amounts = np.empty(limit + 1)
    changes.size = 0
    changes.pair, changes.amount = &pairs[0], &amounts[0]
    changes.labels[0], changes.labels[1] = &labels[0, 0], &labels[1, 0]
    with nogil:
        for i in range(state.model.n_examples):
            # changes of q_f count for the weights by C_i (10)
            C = state.model._example_weights[i] / state.alpha
            for pair in range(state.model._first_pair[i],
                              state.model._first_pair[i + 1]):
                change_pair(state, pair, C, &changes)
    return (np.asarray(pairs)[:changes.size], np.asarray(labels)[0, :changes.size],
            np.asarray(labels)[1, :changes.size], np.asarray(amounts)[:changes.size])


cdef int change_pair(GDMMState state, Py_ssize_t pair, double C,
                     Changes* changes) except -1 nogil:
    """List the changes of one pair."""
    cdef ActiveOutcomes* outcomes = &state._outcomes[pair]
    # a variable may have labels that are newer than the pair's last visit
    fit_ends(state._arena, outcomes)
    state._reserve(max(outcomes.size, outcomes.ends[0].labels.size,
                       outcomes.ends[1].labels.size))
    cut_down(&state._scratch, outcomes, pair, C, changes)
    fill_up(&state._scratch, outcomes, pair, C, changes)
    return 0


cdef void cut(Scratch* scratch, const ActiveOutcomes* outcomes) noexcept nogil:
    """Scale outcomes until no marginal is above q_v.

    The q_f that are left are in `target` of the scratch after this, and their shares of
    the old ones in `previous`.
    """
    cdef const PairEnd* end
    cdef const int32_t* first = outcomes.ends[0].place
    cdef const int32_t* second = outcomes.ends[1].place
    cdef double* scale
    cdef double share
    cdef Py_ssize_t k
    cdef int side
    for side in range(2):
        end = &outcomes.ends[side]
        # the places of the messages, which are not needed here
        scale = scratch.message[side]
        for k in range(end.labels.size):
            scale[k] = 1.0
            # without weight, or below q_v, nothing is to be cut
            if end.marginal[k] > 0.0 and end.marginal[k] > end.labels.q[k]:
                scale[k] = end.labels.q[k] / end.marginal[k]
    for k in range(outcomes.size):
        # the stronger cut of the two ends is enough for both
        share = scratch.message[0][first[k]]
        if scratch.message[1][second[k]] < share:
            share = scratch.message[1][second[k]]
        scratch.previous[k], scratch.target[k] = share, share * outcomes.q[k]


cdef void cut_down(Scratch* scratch, const ActiveOutcomes* outcomes, Py_ssize_t pair,
                   double C, Changes* changes) noexcept nogil:
    """Cut a pair down, and list what changes."""
    cdef double share
    cdef Py_ssize_t k
    cut(scratch, outcomes)
    for k in range(outcomes.size):
        share = scratch.previous[k]
        # weights go by e_truth - q, hence the sign
        if share < 1.0 and outcomes.q[k] > 0.0:
            add_change(changes, outcomes, pair, outcomes.ends[0].place[k],
                       outcomes.ends[1].place[k], -C * (share - 1.0) * outcomes.q[k])


cdef void fill_up(Scratch* scratch, const ActiveOutcomes* outcomes, Py_ssize_t pair,
                  double C, Changes* changes) noexcept nogil:
    """Spread what is missing over all pairs of labels that both lack some."""
    cdef double* left = scratch.message[0]
    cdef double* right = scratch.message[1]
    cdef double lack = 0.0
    cdef Py_ssize_t j, k
    missing(scratch, outcomes)
    # what rounding makes negative is no lack
    for j in range(outcomes.ends[0].labels.size):
        lack += left[j] if left[j] > 0.0 else 0.0
    # the two agreed before, as at the optimum all do
    if lack <= 0.0:
        return
    # both ends lack the same in all, so that the product over it has these marginals
    for j in range(outcomes.ends[0].labels.size):
        if left[j] <= 0.0:
            continue
        # where one of the two lacks nothing the product is zero
        for k in range(outcomes.ends[1].labels.size):
            if right[k] > 0.0:
                add_change(changes, outcomes, pair, j, k,
                           -C * left[j] * right[k] / lack)


cdef void missing(Scratch* scratch, const ActiveOutcomes* outcomes) noexcept nogil:
    """Write what the labels of both ends lack: q_v less the marginal that is left."""
    cdef const PairEnd* end
    cdef double* lack
    cdef Py_ssize_t k
    cdef int side
    for side in range(2):
        end = &outcomes.ends[side]
        lack = scratch.message[side]
        for k in range(end.labels.size):
            lack[k] = end.labels.q[k]
        # those that `cut_down` left alone are in `target` too, as they are
        for k in range(outcomes.size):
            lack[end.place[k]] -= scratch.target[k]
        # Away-steps leave negative rounding errors, and a label without weight would
        # seem to lack what they are.
        for k in range(end.labels.size):
            if end.labels.q[k] <= 0.0:
                lack[k] = 0.0


cdef inline void add_change(Changes* changes, const ActiveOutcomes* outcomes,
                            Py_ssize_t pair, Py_ssize_t first_place,
                            Py_ssize_t second_place, double amount) noexcept nogil:
    """Add to the list, which is long enough: see `most_changes`."""
    changes.pair[changes.size] = pair
    # labels and not places: the places are of no use outside
    changes.labels[0][changes.size] = outcomes.ends[0].labels.label[first_place]
    changes.labels[1][changes.size] = outcomes.ends[1].labels.label[second_place]
    changes.amount[changes.size] = amount
    changes.size += 1


cdef Py_ssize_t most_changes(const ActiveOutcomes* outcomes) noexcept nogil:
    """Bound the changes of a pair: one of each outcome, and of each pair of labels.

    Only labels with q_v > 0 can lack something.
    """
    return (outcomes.size + support(outcomes.ends[0].labels)
            * support(outcomes.ends[1].labels))


cdef Py_ssize_t support(const ActiveLabels* labels) noexcept nogil:
    """Count the labels with weight."""
    cdef Py_ssize_t k, count = 0
    for k in range(labels.size):
        count += labels.q[k] > 0.0
    return count


# ---- cliques ----

def clique_changes(CliqueGDMMState state):
    """Return changes of the tables of cliques that make them agree with variables.

    Returns
    -------
    changes : ndarray of shape (n_weights,)
        Changes of the weights of cliques.
    """
    cdef Py_ssize_t i, clique
    cdef double[::1] changes = np.zeros(len(state.cliques.weights))
    # what the labels of all ends lack, and products of it
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
    """Add the changes of one clique to those of its table."""
    cdef CliqueOutcomes* outcomes = &state._cliques[clique]
    cdef Py_ssize_t K = state.cliques.n_labels, order = outcomes.order
    cdef Py_ssize_t k, j, label, node
    cdef double q, share, scale, total = 0.0
    # weights go by e_truth - q, hence the sign
    C *= -state.cliques._factor[clique]
    for j in range(order):
        node = state.cliques._scope[state.cliques._first_node[clique] + j]
        for label in range(K):
            lack[j * K + label] = state._node_q(node, label)
    # the strongest cut of all ends is enough for all
    for k in range(outcomes.size):
        share = 1.0
        for j in range(order):
            label = j * K + outcomes.labels[k * order + j]
            node = state.cliques._scope[state.cliques._first_node[clique] + j]
            q = state._node_q(node, label - j * K)
            # without weight, or below q_v, nothing is to be cut
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
    """Write the product of what all ends lack, over total^(order - 1)."""
    cdef Py_ssize_t j, a, b, n = 1
    cdef double head, part
    products[0] = total
    for j in range(order):
        # from the end, so that no product is overwritten before it was read
        for a in range(n - 1, -1, -1):
            head = products[a] / total
            for b in range(n_labels - 1, -1, -1):
                part = lack[j * n_labels + b]
                # what rounding makes negative is no lack
                products[a * n_labels + b] = head * part if part > 0.0 else 0.0
        n *= n_labels
