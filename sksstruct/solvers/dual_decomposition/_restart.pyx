"""Export of the state of GDMM to arrays and import from arrays that `restart.py` makes.

`_state.pyx` states the notation. Multipliers are stored as rho u, in units of the
scores.
"""

from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.solvers.dual_decomposition._active_sets cimport (
    ActiveLabels, ActiveOutcomes, PairEnd, activate_label, activate_outcome, fit_ends,
)
from sksstruct.solvers.dual_decomposition._clique_state cimport (
    CliqueGDMMState, CliqueOutcomes, place_of,
)
from sksstruct.solvers.dual_decomposition._state cimport GDMMState
from sksstruct.utils._pointers cimport (
    const_doubles, const_int32s, const_intps, doubles, int32s, intps,
)


def sizes(GDMMState state):
    """Return the numbers of active labels, of active outcomes, and of multipliers."""
    cdef Py_ssize_t variable, pair, n = 0, m = 0, s = 0
    cdef ActiveOutcomes* outcomes
    for variable in range(state.model.n_variables):
        n += state._labels[variable].size
    for pair in range(state.model.n_pairs):
        outcomes = &state._outcomes[pair]
        # labels activated since the last visit of the pair get multipliers of zero
        fit_ends(state._arena, outcomes)
        m += outcomes.size
        s += outcomes.ends[0].labels.size + outcomes.ends[1].labels.size
    return n, m, s


def read_labels(GDMMState state, counts_, labels_, q_):
    """Write the numbers of active labels of variables, the labels and their q."""
    cdef int32_t* counts = int32s(counts_)
    cdef int32_t* label = int32s(labels_)
    cdef double* q = doubles(q_)
    cdef Py_ssize_t variable, k, n = 0
    cdef ActiveLabels* labels
    for variable in range(state.model.n_variables):
        labels = &state._labels[variable]
        counts[variable] = labels.size
        for k in range(labels.size):
            label[n + k], q[n + k] = labels.label[k], labels.q[k]
        n += labels.size


def read_outcomes(GDMMState state, counts_, left_, right_, q_, multipliers_):
    """Write active outcomes of pairs (count, places of labels, q), and multipliers."""
    cdef int32_t* counts = int32s(counts_)
    cdef int32_t* left = int32s(left_)
    cdef int32_t* right = int32s(right_)
    cdef double* q = doubles(q_)
    cdef double* multipliers = doubles(multipliers_)
    cdef Py_ssize_t pair, k, last, m = 0, s = 0
    cdef int side
    cdef ActiveOutcomes* outcomes
    for pair in range(state.model.n_pairs):
        outcomes = &state._outcomes[pair]
        counts[pair] = outcomes.size
        for k in range(outcomes.size):
            left[m + k] = outcomes.ends[0].place[k]
            right[m + k] = outcomes.ends[1].place[k]
            q[m + k] = outcomes.q[k]
        m += outcomes.size
        for side in range(2):
            last = outcomes.ends[side].labels.size
            for k in range(last):
                multipliers[s + k] = state.rho * outcomes.ends[side].u[k]
            s += last


def write_state(GDMMState state, counts_, labels_, first_, q_, outcome_counts_, left_,
                right_, outcome_q_, multipliers_):
    """Set the distributions and multipliers, and add w(q) (10) to the model's weights.

    `first_` has the offsets of the labels of each variable in `labels_`.
    """
    cdef const int32_t* counts = const_int32s(counts_)
    cdef const int32_t* label = const_int32s(labels_)
    cdef const Py_ssize_t* first = const_intps(first_)
    cdef const double* q = const_doubles(q_)
    cdef const int32_t* outcome_counts = const_int32s(outcome_counts_)
    cdef const int32_t* places[2]
    cdef const double* outcome_q = const_doubles(outcome_q_)
    cdef const double* multipliers = const_doubles(multipliers_)
    cdef Py_ssize_t i, variable, pair, m = 0, s = 0
    cdef double C
    places[0], places[1] = const_int32s(left_), const_int32s(right_)
    with nogil:
        for variable in range(state.model.n_variables):
            restore_labels(
                state, variable, counts[variable], label, q, first[variable])
            # Algorithm 3 visits active factors only. A factor is active if its q is not
            # that of a new state.
            state._active_factors[variable] = state._labels[variable].q[0] < 1.0
        for pair in range(state.model.n_pairs):
            restore_outcomes(state, pair, outcome_counts[pair], label, first, places,
                             outcome_q, m)
            m += outcome_counts[pair]
            state._active_factors[state.model.n_variables + pair] = (
                state._outcomes[pair].q[0] < 1.0)
            s = restore_multipliers(state, pair, label, first, multipliers, s)
        for i in range(state.model.n_examples):
            C = state.model._example_weights[i] / state.alpha
            for variable in range(state.model._first_variable[i],
                                  state.model._first_variable[i + 1]):
                add_label_weights(state, variable, C)
            for pair in range(state.model._first_pair[i],
                              state.model._first_pair[i + 1]):
                add_pair_weights(state, pair, C)


cdef int restore_labels(GDMMState state, Py_ssize_t variable, Py_ssize_t count,
                        const int32_t* label, const double* q,
                        Py_ssize_t n) except -1 nogil:
    """Set q_v of a variable; its observed label stays at place 0."""
    cdef ActiveLabels* labels = &state._labels[variable]
    cdef Py_ssize_t k
    cdef int32_t place
    labels.q[0] = labels.total[0] = 0.0
    for k in range(n, n + count):
        place = activate_label(state._arena, labels, label[k])
        labels.q[place] = q[k]
    return 0


cdef int restore_outcomes(GDMMState state, Py_ssize_t pair, Py_ssize_t count,
                          const int32_t* label, const Py_ssize_t* first,
                          const int32_t** places, const double* outcome_q,
                          Py_ssize_t m) except -1 nogil:
    """Set q_f of a pair and its marginals; the observed outcome stays at place 0."""
    cdef ActiveOutcomes* outcomes = &state._outcomes[pair]
    cdef const int32_t* ends = &state.model._pairs[pair, 0]
    cdef PairEnd* end
    cdef Py_ssize_t k, entry
    cdef int32_t pair_labels[2]
    cdef int32_t end_places[2]
    cdef int32_t place
    cdef int side
    fit_ends(state._arena, outcomes)
    outcomes.q[0] = 0.0
    for side in range(2):
        outcomes.ends[side].marginal[0] = 0.0
    for k in range(m, m + count):
        for side in range(2):
            pair_labels[side] = label[first[ends[side]] + places[side][k]]
            end_places[side] = activate_label(
                state._arena, outcomes.ends[side].labels, pair_labels[side])
        if not state.model.allows(pair, pair_labels[0], pair_labels[1]):
            raise ValueError(
                f"the state of dual variables is damaged: pair {pair} has an outcome "
                "that is forbidden")
        entry = state.model.entry(pair, pair_labels[0], pair_labels[1])
        # the observed outcome has place 0; the arrays list no outcome of a pair twice
        place = 0
        if outcomes.entry[0] != entry:
            place = outcomes.size
            activate_outcome(state._arena, outcomes, <int32_t> entry, end_places[0],
                             end_places[1])
        outcomes.q[place] = outcome_q[k]
        for side in range(2):
            end = &outcomes.ends[side]
            end.marginal[end_places[side]] += outcome_q[k]
            end.labels.total[end_places[side]] += outcome_q[k]
    return 0


cdef Py_ssize_t restore_multipliers(
    GDMMState state, Py_ssize_t pair, const int32_t* label,
    const Py_ssize_t* first, const double* multipliers, Py_ssize_t s
) except -1 nogil:
    """Set u at both ends of a pair; return the offset of the next pair's entries."""
    cdef PairEnd* end
    cdef Py_ssize_t variable, k
    cdef int32_t place
    cdef int side
    for side in range(2):
        end = &state._outcomes[pair].ends[side]
        variable = state.model._pairs[pair, side]
        for k in range(first[variable], first[variable + 1]):
            place = activate_label(state._arena, end.labels, label[k])
            end.u[place] = multipliers[s] / state.rho
            end.labels.total[place] += end.u[place]
            s += 1
    return s


cdef int add_label_weights(GDMMState state, Py_ssize_t variable,
                           double C) except -1 nogil:
    """Add C Phi_v^T (e_truth - q_v) to the weights."""
    cdef ActiveLabels* labels = &state._labels[variable]
    cdef Py_ssize_t k
    state._reserve(labels.size)
    for k in range(labels.size):
        state._scratch.change[k] = C * ((k == 0) - labels.q[k])
    return state.model.add_labels(
        variable, labels.size, labels.label, state._scratch.change)


cdef int add_pair_weights(GDMMState state, Py_ssize_t pair, double C) except -1 nogil:
    """Add C Phi_f^T (e_truth - q_f) to the weights."""
    cdef ActiveOutcomes* outcomes = &state._outcomes[pair]
    cdef Py_ssize_t k
    state._reserve(outcomes.size)
    for k in range(outcomes.size):
        state._scratch.change[k] = C * ((k == 0) - outcomes.q[k])
    return state.model.add_pairs(
        pair, outcomes.size, outcomes.entry, state._scratch.change)


# ---- cliques ----

def clique_sizes(CliqueGDMMState state, counts_):
    """Write the number of active outcomes of each clique."""
    cdef Py_ssize_t* counts = intps(counts_)
    cdef Py_ssize_t clique
    for clique in range(state.cliques.n_cliques):
        counts[clique] = state._cliques[clique].size


def read_cliques(CliqueGDMMState state, entries_, q_):
    """Write the entries of the active outcomes of all cliques, and their q."""
    cdef Py_ssize_t* entries = intps(entries_)
    cdef double* q = doubles(q_)
    cdef Py_ssize_t clique, k, n = 0
    cdef CliqueOutcomes* outcomes
    for clique in range(state.cliques.n_cliques):
        outcomes = &state._cliques[clique]
        for k in range(outcomes.size):
            entries[n + k], q[n + k] = outcomes.entry[k], outcomes.q[k]
        n += outcomes.size


def write_cliques(CliqueGDMMState state, first_, counts_, entries_, q_):
    """Set the distributions of cliques, and add their part of w(q) (10) to the weights.

    The cliques of example i begin at first_[i].
    """
    cdef const Py_ssize_t* first = const_intps(first_)
    cdef const Py_ssize_t* counts = const_intps(counts_)
    cdef const Py_ssize_t* entries = const_intps(entries_)
    cdef const double* q = const_doubles(q_)
    cdef Py_ssize_t i, clique, n = 0
    for i in range(state.model.n_examples):
        for clique in range(first[i], first[i + 1]):
            restore_clique(state, clique, counts[clique], entries + n, q + n,
                           state.model._example_weights[i] / state.alpha)
            n += counts[clique]


cdef int restore_clique(CliqueGDMMState state, Py_ssize_t clique,
                        Py_ssize_t size, const Py_ssize_t* entries, const double* q,
                        double C) except -1:
    """Set q_f of a clique and its marginals, and add C (e_truth - q_f) to its weights.

    The observed outcome stays at place 0.
    """
    cdef CliqueOutcomes* outcomes = &state._cliques[clique]
    cdef Py_ssize_t first = state.cliques._first_node[clique], n, k, j, node, label
    cdef double* table = &state.cliques._weights[state.cliques._first_weight[clique]]
    # `restore_labels` has set `total` of the observed labels to zero
    outcomes.q[0] = 0.0
    memset(outcomes.marginal, 0, outcomes.order * state.cliques.n_labels
           * sizeof(double))
    for n in range(size):
        # the observed outcome has place 0; the arrays list no outcome of a clique twice
        k = 0
        if outcomes.entry[0] != entries[n]:
            k = outcomes.size
            state._activate(outcomes, entries[n])
        outcomes.q[k] = q[n]
        for j in range(outcomes.order):
            node, label = state.cliques._scope[first + j], outcomes.labels[
                k * outcomes.order + j]
            outcomes.marginal[j * state.cliques.n_labels + label] += q[n]
            state._labels[node].total[
                place_of(label, state.model._y_true[node])] += q[n]
    # by (10), the weights of the clique contain C (e_truth - q_f)
    for k in range(outcomes.size):
        table[outcomes.entry[k]] += (
            C * state.cliques._factor[clique] * ((k == 0) - outcomes.q[k]))
    state._is_active(clique)[0] = outcomes.q[0] < 1.0
    return 0
