"""The state of GDMM as arrays, from which another run can start.

Distributions and multipliers alone: the weights follow from the distributions (10), for
the features, the example weights and the alpha of the new run. Notation as in
`_state.pyx`. Multipliers are kept as rho u, in units of the scores.
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.models.protocols._factors cimport FactorModel
from sksstruct.solvers.dual_decomposition._active_sets cimport (
    ActiveLabels, ActiveOutcomes, PairEnd, activate_label, activate_outcome, fit_ends,
)
from sksstruct.solvers.dual_decomposition._clique_state cimport (
    CliqueGDMMState, CliqueOutcomes, place_of,
)
from sksstruct.solvers.dual_decomposition._state cimport GDMMState

from sksstruct.utils.entries import Entries

# Probabilities are none below zero, and sum to one, up to rounding errors.
ROUNDING = 1e-6


def signature(FactorModel model):
    """Return what two models share if the state of one fits the other."""
    cliques = model.cliques
    return (model.n_labels, model.first_variable.tobytes(), model.first_pair.tobytes(),
            model.pairs.tobytes(), cliques and cliques.signature())


def export_state(GDMMState state):
    """Return distributions and multipliers as arrays.

    Returns
    -------
    arrays : dict
        ``counts`` and ``outcome_counts`` are the numbers of active labels of each
        variable and of outcomes of each pair. ``labels`` and ``q`` list the labels, one
        variable after the other. ``places`` (2, n) has the places of the labels of the
        outcomes in these lists, and ``outcome_q`` their probabilities. ``multipliers``
        are those of every label at both ends of every pair.
    """
    cdef Py_ssize_t variable, pair, k, n = 0, m = 0, s = 0, last
    cdef int side
    cdef ActiveLabels* labels
    cdef ActiveOutcomes* outcomes
    for pair in range(state.model.n_pairs):
        # labels that came in after the last visit of the pair have no multiplier yet
        fit_ends(state._arena, &state._outcomes[pair])
    arrays = empty_arrays(state)
    cdef int32_t[::1] counts = arrays["counts"], label = arrays["labels"]
    cdef int32_t[::1] outcome_counts = arrays["outcome_counts"]
    cdef int32_t[:, ::1] places = arrays["places"]
    cdef double[::1] q = arrays["q"], outcome_q = arrays["outcome_q"]
    cdef double[::1] multipliers = arrays["multipliers"]
    for variable in range(state.model.n_variables):
        labels = &state._labels[variable]
        counts[variable] = labels.size
        for k in range(labels.size):
            label[n + k], q[n + k] = labels.label[k], labels.q[k]
        n += labels.size
    for pair in range(state.model.n_pairs):
        outcomes = &state._outcomes[pair]
        outcome_counts[pair] = outcomes.size
        for k in range(outcomes.size):
            places[0, m + k] = outcomes.ends[0].place[k]
            places[1, m + k] = outcomes.ends[1].place[k]
            outcome_q[m + k] = outcomes.q[k]
        m += outcomes.size
        for side in range(2):
            last = outcomes.ends[side].labels.size
            for k in range(last):
                multipliers[s + k] = state.rho * outcomes.ends[side].u[k]
            s += last
    return arrays


def empty_arrays(GDMMState state):
    """Allocate the arrays of `export_state`."""
    cdef Py_ssize_t variable, pair, n = 0, m = 0, s = 0
    for variable in range(state.model.n_variables):
        n += state._labels[variable].size
    for pair in range(state.model.n_pairs):
        m += state._outcomes[pair].size
        s += (state._outcomes[pair].ends[0].labels.size
              + state._outcomes[pair].ends[1].labels.size)
    return {
        "counts": np.empty(state.model.n_variables, dtype=np.int32),
        "labels": np.empty(n, dtype=np.int32),
        "q": np.empty(n),
        "outcome_counts": np.empty(state.model.n_pairs, dtype=np.int32),
        "places": np.empty((2, m), dtype=np.int32),
        "outcome_q": np.empty(m),
        "multipliers": np.empty(s),
    }


def check_state(FactorModel model, state):
    """Raise an error if a state holds other numbers than those of distributions.

    Parameters
    ----------
    model : FactorModel
        The model that the state is for.
    state : dict
        What `GDMMRun.export` wrote: with ``arrays``, those of `export_state`, and where
        there are cliques those of `export_cliques`.
    """
    owner = Entries(state, "dual variables")
    if state.get("signature") != signature(model):
        raise ValueError("dual variables of another problem")
    owner.real("rho", np.finfo(float).tiny)
    entries, pairs = owner.part("arrays"), np.asarray(model.pairs)
    counts = entries.array(
        "counts", (model.n_variables,), np.int32, 1, model.n_labels)
    shape = (int(counts.sum()),)
    labels = entries.array("labels", shape, np.int32, 0, model.n_labels - 1)
    variable = np.repeat(np.arange(model.n_variables), counts)
    if len(np.unique(variable * np.intp(model.n_labels) + labels)) < len(labels):
        raise entries.wrong("labels", labels, "labels that differ, of each variable")
    check_sums(entries, "q", counts, shape)
    # each outcome has a label of both of its variables
    of_pairs = entries.array("outcome_counts", (model.n_pairs,), np.int32, 1)
    shape = (int(of_pairs.sum(dtype=np.intp)),)
    ends = counts[pairs].T
    # first: then there are no more of them than numbers in the state
    check_sums(entries, "outcome_q", of_pairs, shape)
    entries.array("places", (2, *shape), np.int32, 0,
                  np.repeat(ends, of_pairs, axis=1) - 1)
    entries.array("multipliers", (int(ends.sum(dtype=np.intp)),))
    if model.cliques is not None:
        check_cliques(model.cliques, owner.part("cliques"))


def check_cliques(cliques, entries):
    """Raise an error if a state of cliques holds other numbers; see `check_state`."""
    counts = entries.array(
        "counts", (cliques.n_cliques,), np.intp, 1, cliques.outcomes)
    shape = (int(counts.sum()),)
    check_sums(entries, "q", counts, shape)
    entries.array(
        "entries", shape, np.intp, 0, np.repeat(cliques.outcomes, counts) - 1)
    size = int(cliques.orders.sum()) * cliques.n_labels
    entries.array("multipliers", (size,))


def check_sums(entries, name, counts, shape):
    """Raise an error if an entry is not of distributions of so many outcomes each."""
    q = entries.array(name, shape, float, -ROUNDING, 1.0 + ROUNDING)
    if len(counts):
        sums = np.add.reduceat(q, np.cumsum(counts, dtype=np.intp) - counts)
        entries.checked(f"sums of {name}", sums, (None,), float, 1.0 - ROUNDING,
                        1.0 + ROUNDING)


def restore_state(GDMMState state, arrays):
    """Copy the distributions and multipliers of another state to a new one.

    Parameters
    ----------
    state : GDMMState
        A new state: all weight is on its observed outcomes. These may differ from those
        of the other run.
    arrays : dict
        Result of `export_state` for a model with the same `signature`.
    """
    cdef Py_ssize_t i, variable, pair, n = 0, m = 0, s = 0
    cdef double C
    cdef const int32_t[::1] counts = arrays["counts"], label = arrays["labels"]
    cdef const int32_t[::1] outcome_counts = arrays["outcome_counts"]
    cdef const int32_t[:, ::1] places = arrays["places"]
    cdef const double[::1] q = arrays["q"], outcome_q = arrays["outcome_q"]
    cdef const double[::1] multipliers = arrays["multipliers"]
    # where the labels of each variable begin
    cdef const Py_ssize_t[::1] first = np.concatenate(
        [[0], np.cumsum(arrays["counts"], dtype=np.intp)])
    with nogil:
        for variable in range(state.model.n_variables):
            restore_labels(state, variable, counts[variable], label, q, n)
            n += counts[variable]
            # Algorithm 3 visits active factors only: those that have moved are
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
                        const int32_t[::1] label, const double[::1] q,
                        Py_ssize_t n) except -1 nogil:
    """Set q_v; the observed label stays the first of the list."""
    cdef ActiveLabels* labels = &state._labels[variable]
    cdef Py_ssize_t k
    cdef int32_t place
    labels.q[0] = labels.total[0] = 0.0
    for k in range(n, n + count):
        place = activate_label(state._arena, labels, label[k])
        labels.q[place] = q[k]
    return 0


cdef int restore_outcomes(GDMMState state, Py_ssize_t pair, Py_ssize_t count,
                          const int32_t[::1] label, const Py_ssize_t[::1] first,
                          const int32_t[:, ::1] places, const double[::1] outcome_q,
                          Py_ssize_t m) except -1 nogil:
    """Set q_f and its marginals; the observed outcome stays the first of the list."""
    cdef ActiveOutcomes* outcomes = &state._outcomes[pair]
    cdef const int32_t* ends = &state.model._pairs[pair, 0]
    cdef PairEnd* end
    cdef Py_ssize_t k, entry
    cdef int32_t pair_labels[2]
    cdef int32_t own[2]
    cdef int32_t place
    cdef int side
    fit_ends(state._arena, outcomes)
    outcomes.q[0] = 0.0
    for side in range(2):
        outcomes.ends[side].marginal[0] = 0.0
    for k in range(m, m + count):
        for side in range(2):
            pair_labels[side] = label[first[ends[side]] + places[side, k]]
            own[side] = activate_label(
                state._arena, outcomes.ends[side].labels, pair_labels[side])
        if not state.model.allows(pair, pair_labels[0], pair_labels[1]):
            raise ValueError(
                f"the state of dual variables is damaged: pair {pair} has an outcome "
                "that is forbidden")
        entry = state.model.entry(pair, pair_labels[0], pair_labels[1])
        # the observed one is there, the others differ
        place = 0
        if outcomes.entry[0] != entry:
            place = outcomes.size
            activate_outcome(state._arena, outcomes, <int32_t> entry, own[0], own[1])
        outcomes.q[place] = outcome_q[k]
        for side in range(2):
            end = &outcomes.ends[side]
            end.marginal[own[side]] += outcome_q[k]
            end.labels.total[own[side]] += outcome_q[k]
    return 0


cdef Py_ssize_t restore_multipliers(
    GDMMState state, Py_ssize_t pair, const int32_t[::1] label,
    const Py_ssize_t[::1] first, const double[::1] multipliers, Py_ssize_t s
) except -1 nogil:
    """Set u at both ends of a pair; return where those of the next pair begin."""
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
    """w += C Phi_v^T (e_truth - q_v)"""
    cdef ActiveLabels* labels = &state._labels[variable]
    cdef Py_ssize_t k
    state._reserve(labels.size)
    for k in range(labels.size):
        state._scratch.change[k] = C * ((k == 0) - labels.q[k])
    return state.model.add_labels(
        variable, labels.size, labels.label, state._scratch.change)


cdef int add_pair_weights(GDMMState state, Py_ssize_t pair, double C) except -1 nogil:
    """w += C Phi_f^T (e_truth - q_f)"""
    cdef ActiveOutcomes* outcomes = &state._outcomes[pair]
    cdef Py_ssize_t k
    state._reserve(outcomes.size)
    for k in range(outcomes.size):
        state._scratch.change[k] = C * ((k == 0) - outcomes.q[k])
    return state.model.add_pairs(
        pair, outcomes.size, outcomes.entry, state._scratch.change)


# ---- cliques ----

def export_cliques(CliqueGDMMState state):
    """Return the distributions and multipliers of cliques as arrays, in a dict."""
    cdef Py_ssize_t clique, k
    cdef CliqueOutcomes* outcomes
    counts, entries, q = [], [], []
    for clique in range(state.cliques.n_cliques):
        outcomes = &state._cliques[clique]
        counts.append(outcomes.size)
        for k in range(outcomes.size):
            entries.append(outcomes.entry[k])
            q.append(outcomes.q[k])
    return {
        "counts": np.array(counts, dtype=np.intp),
        "entries": np.array(entries, dtype=np.intp),
        "q": np.array(q, dtype=np.float64),
        "multipliers": state.multipliers(),
    }


def restore_cliques(CliqueGDMMState state, arrays):
    """Copy the distributions and multipliers of cliques to another state.

    Parameters
    ----------
    state : CliqueGDMMState
        A state whose variables and pairs `restore_state` has set.
    arrays : dict
        Result of `export_cliques` for a model with the same `signature`.
    """
    cdef Py_ssize_t i, clique, n = 0
    cdef const Py_ssize_t[::1] first = state.cliques.first_clique
    cdef const Py_ssize_t[::1] counts = arrays["counts"], entries = arrays["entries"]
    cdef const double[::1] q = arrays["q"]
    for i in range(state.model.n_examples):
        for clique in range(first[i], first[i + 1]):
            restore_clique(state, clique, entries[n:n + counts[clique]],
                           q[n:n + counts[clique]],
                           state.model._example_weights[i] / state.alpha)
            n += counts[clique]
    state.set_multipliers(arrays["multipliers"])


cdef int restore_clique(CliqueGDMMState state, Py_ssize_t clique,
                        const Py_ssize_t[::1] entries, const double[::1] q,
                        double C) except -1:
    """Set q_f, its marginals and its weights; the observed outcome stays the first."""
    cdef CliqueOutcomes* outcomes = &state._cliques[clique]
    cdef Py_ssize_t first = state.cliques._first_node[clique], n, k, j, node, label
    cdef double* table = &state.cliques._weights[state.cliques._first_weight[clique]]
    # what the observed labels had is gone from the variables already
    outcomes.q[0] = 0.0
    memset(outcomes.marginal, 0, outcomes.order * state.cliques.n_labels
           * sizeof(double))
    for n in range(entries.shape[0]):
        # the observed one is there, the others differ
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
    # w += C Phi_f^T (e_truth - q_f)
    for k in range(outcomes.size):
        table[outcomes.entry[k]] += (
            C * state.cliques._factor[clique] * ((k == 0) - outcomes.q[k]))
    state._is_active(clique)[0] = outcomes.q[0] < 1.0
    return 0
