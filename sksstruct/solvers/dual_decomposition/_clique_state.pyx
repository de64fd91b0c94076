"""GDMM on graphs with factors of three and more variables, beside pairs.

`_state.pyx` states the notation, and the blocks of variables and pairs. A clique f has
variables v_1, ..., v_r, and the gain of its outcome y is

    score(y) - rho sum_j m_(v_j f)(y_j)

with messages m_vf = M_vf q_f - q_v + u_vf at every end, so that (25) is solved as for
pairs. The oracle reads all outcomes, as a clique's table of weights has an entry for
each anyway, and few outcomes become active. All labels of the variables of cliques are
active, so that marginals and multipliers of cliques are arrays over all labels.
"""

import numpy as np

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t
from libc.stdlib cimport abs
from libc.string cimport memcpy, memmove, memset

from sksstruct.models.protocols._cliques cimport labels_of_entry
from sksstruct.projections._simplex cimport threshold_by_dropping
from sksstruct.solvers.dual_decomposition._active_sets cimport (
    ActiveLabels, activate_label, grow,
)
from sksstruct.solvers.dual_decomposition._residuals cimport Residuals, add_residual
from sksstruct.solvers.dual_decomposition._state cimport (
    GDMMState, Scratch, progress_of,
)

# A visit ends after this number of projections, or as soon as no probability changes by
# more than LEAST_CHANGE.
cdef int INNER_STEPS = 4
cdef double LEAST_CHANGE = 1e-3
# Upper bound of the number of nodes of a clique. With 31 nodes of two labels each, the
# table of weights would have 2^31 entries, which int32 cannot number.
cdef enum:
    MOST_NODES = 31
# Initial capacity of the list of active outcomes of a clique.
cdef int32_t FIRST_CAPACITY = 4


cdef class CliqueGDMMState(GDMMState):
    """State of GDMM on a model of variables, pairs and cliques.

    Parameters
    ----------
    model : FactorModel
        The model, with `cliques`; its weights are written.
    alpha, rho : float
        See `GDMMState`.
    """

    def __cinit__(self, model, double alpha, double rho):
        cdef Py_ssize_t clique, n
        self.cliques = model.cliques
        n = self.cliques.n_cliques
        self._cliques = <CliqueOutcomes*> self._arena.take(
            max(n, 1) * sizeof(CliqueOutcomes))
        memset(self._cliques, 0, n * sizeof(CliqueOutcomes))
        self._message = np.zeros(self.cliques.most_nodes * self.cliques.n_labels)
        self._n_ends += self.cliques._first_node[n]
        for clique in range(n):
            self._start_clique(clique)

    cdef int _start_clique(self, Py_ssize_t clique) except -1:
        """Set q = 1 for the observed outcome of a clique, which agrees with all q_v."""
        cdef CliqueOutcomes* outcomes = &self._cliques[clique]
        cdef Py_ssize_t K = self.cliques.n_labels, j, label, node, observed = 0
        cdef Py_ssize_t first = self.cliques._first_node[clique]
        cdef size_t size
        outcomes.order = <int32_t> (self.cliques._first_node[clique + 1] - first)
        outcomes.n_outcomes = 1
        size = outcomes.order * K * sizeof(double)
        outcomes.marginal = <double*> self._arena.take(size)
        outcomes.u = <double*> self._arena.take(size)
        memset(outcomes.marginal, 0, size)
        memset(outcomes.u, 0, size)
        for j in range(outcomes.order):
            node = self.cliques._scope[first + j]
            # `activate_label` appends only the labels that are not active yet
            for label in range(K):
                activate_label(self._arena, &self._labels[node], <int32_t> label)
            self._labels[node].degree += 1
            self._labels[node].total[0] += 1.0
            label = self.model._y_true[node]
            outcomes.marginal[j * K + label] = 1.0
            observed = observed * K + label
            outcomes.n_outcomes *= <int32_t> K
        self._activate(outcomes, observed)
        outcomes.q[0] = 1.0
        return 0

    cdef int _activate(self, CliqueOutcomes* outcomes,
                       Py_ssize_t entry) except -1 nogil:
        """Append an inactive outcome to a clique's active outcomes, with q = 0."""
        cdef int32_t capacity, size = outcomes.size, order = outcomes.order
        if size == outcomes.capacity:
            capacity = 2 * size if size else FIRST_CAPACITY
            grow(self._arena, <void**> &outcomes.entry, size, capacity, sizeof(int32_t))
            grow(self._arena, <void**> &outcomes.labels, size * order,
                 capacity * order, sizeof(int32_t))
            grow(self._arena, <void**> &outcomes.q, size, capacity, sizeof(double))
            # the capacity is set last, so that an interrupted growth leaves a valid
            # list
            outcomes.capacity = capacity
        outcomes.entry[size], outcomes.q[size] = <int32_t> entry, 0.0
        labels_of_entry(entry, self.cliques.n_labels, order,
                        &outcomes.labels[size * order])
        outcomes.size += 1
        return 0

    cdef double _node_q(self, Py_ssize_t node, Py_ssize_t label) noexcept nogil:
        """Return q_v(label), where v is a node of a clique."""
        return self._labels[node].q[place_of(label, self.model._y_true[node])]

    # ---- visits ----

    cdef int _visit_cliques(self, Py_ssize_t i, double C,
                            bint greedy) except -1 nogil:
        cdef Py_ssize_t clique
        for clique in range(self.cliques._first_clique[i],
                            self.cliques._first_clique[i + 1]):
            if not greedy or self._is_active(clique)[0]:
                self._visit_clique(clique, C)
        return 0

    cdef char* _is_active(self, Py_ssize_t clique) noexcept nogil:
        """Return a pointer to the flag whether a clique is in A_i (Algorithm 3)."""
        return self._active_factors + (
            self.model.n_variables + self.model.n_pairs + clique)

    cdef Py_ssize_t _best_clique(self, Py_ssize_t i, double C,
                                 double* most) except -2 nogil:
        cdef Py_ssize_t clique, best = -1
        cdef double progress
        for clique in range(self.cliques._first_clique[i],
                            self.cliques._first_clique[i + 1]):
            if not self._is_active(clique)[0]:
                progress = self._clique_progress(clique, C)
                if progress > most[0]:
                    best, most[0] = clique, progress
        return best

    cdef double _clique_progress(self, Py_ssize_t clique, double C) except -1.0 nogil:
        """Estimate how far a visit of a clique would lower the objective (18)."""
        cdef CliqueOutcomes* outcomes = &self._cliques[clique]
        cdef double factor = self.cliques._factor[clique], best, observed
        cdef Py_ssize_t entry = 0
        self._load_clique(clique)
        # a clique that was never visited has q = 1 for its observed outcome
        observed = self._clique_gain(outcomes, 0)
        best = self.cliques.best(clique, &self._message[0], &entry)
        self.calls += 1
        self.model.visited += outcomes.n_outcomes
        # for d = e_y - e_truth, |M_vf d|^2 is at most |d|^2 at each of the nodes v
        return progress_of(max(best - observed, 0.0),
                           C * factor * factor + self.rho * outcomes.order)

    cdef int _visit_clique(self, Py_ssize_t clique, double C) except -1 nogil:
        """Call the oracle of a clique, and lower the augmented Lagrangian over q_f.

        This is problem (25). At most INNER_STEPS projections are made.
        """
        cdef CliqueOutcomes* outcomes = &self._cliques[clique]
        cdef double curvature
        self._load_clique(clique)
        curvature = self._extend_clique(clique, C)
        # the scratch does not grow from here on: growing would discard `previous`
        memcpy(self._scratch.previous, outcomes.q, outcomes.size * sizeof(double))
        for _step in range(INNER_STEPS):
            if self._step_clique(clique, C, curvature) < LEAST_CHANGE:
                break
        self._store_clique(clique, C)
        deactivate(outcomes, self._scratch.previous)
        return 0

    cdef int _load_clique(self, Py_ssize_t clique) except -1 nogil:
        """Compute the messages to a clique's nodes, and scores of its active outcomes.

        The scores do not include the messages.
        """
        cdef CliqueOutcomes* outcomes = &self._cliques[clique]
        cdef const double* table = &self.cliques._weights[
            self.cliques._first_weight[clique]]
        cdef Py_ssize_t K = self.cliques.n_labels, j, k, label, node, place
        # a visit may activate one more outcome
        self._reserve(outcomes.size + 2)
        for j in range(outcomes.order):
            node = self.cliques._scope[self.cliques._first_node[clique] + j]
            for label in range(K):
                place = j * K + label
                self._message[place] = -self.rho * (
                    outcomes.marginal[place] + outcomes.u[place]
                    - self._node_q(node, label))
        for k in range(outcomes.size):
            self._scratch.score[k] = (
                self.cliques._factor[clique] * table[outcomes.entry[k]])
        return 0

    cdef double _clique_gain(self, const CliqueOutcomes* outcomes,
                             Py_ssize_t k) noexcept nogil:
        """Return the gain of an active outcome of the clique: score plus messages."""
        cdef const int32_t* labels = &outcomes.labels[k * outcomes.order]
        cdef double gain = self._scratch.score[k]
        cdef Py_ssize_t j
        for j in range(outcomes.order):
            gain += self._message[j * self.cliques.n_labels + labels[j]]
        return gain

    cdef double _clique_curvature(self, Py_ssize_t clique, double C) noexcept nogil:
        """Return Q, a bound of the curvature over the active outcomes of a clique."""
        cdef double factor = self.cliques._factor[clique]
        return C * factor * factor + self.rho * overlap(&self._cliques[clique])

    cdef double _extend_clique(self, Py_ssize_t clique, double C) except -1.0 nogil:
        """Activate the best outcome of the loaded clique if its q would be positive.

        Returns Q of the active outcomes, including the new one.
        """
        cdef CliqueOutcomes* outcomes = &self._cliques[clique]
        cdef Scratch* scratch = &self._scratch
        cdef Py_ssize_t n = outcomes.size, k, entry = 0
        cdef Py_ssize_t node = self.cliques._scope[self.cliques._first_node[clique]]
        cdef double curvature = self._clique_curvature(clique, C)
        cdef double gain, floor, best = -INFINITY, mean = 0.0
        for k in range(n):
            gain = self._clique_gain(outcomes, k)
            best = gain if gain > best else best
            mean += outcomes.q[k] * gain
            scratch.target[k] = outcomes.q[k] + gain / curvature
        if self._ask_oracles:
            # an inactive outcome gets q > 0 if its gain / Q is above the threshold
            floor = (threshold_by_dropping(n, scratch.target) * curvature
                     + self.ignore * self.model._cost[node])
            floor = floor if floor > best else best
            gain = self.cliques.best(clique, &self._message[0], &entry)
            self.calls += 1
            self.model.visited += outcomes.n_outcomes
            # by rounding, the oracle may compute a gain above the floor for an outcome
            # that is active already
            if gain > floor and not is_active(outcomes, entry):
                best = gain
                self._activate(outcomes, entry)
                scratch.score[n] = self.cliques._factor[clique] * (
                    self.cliques._weights[self.cliques._first_weight[clique] + entry])
                curvature = self._clique_curvature(clique, C)
        self.block_gap += C * (best - mean)
        return curvature

    cdef double _step_clique(self, Py_ssize_t clique, double C,
                             double curvature) noexcept nogil:
        """Make one projection step of q_f, and update the scores and messages.

        Returns the largest absolute change of a probability.
        """
        cdef CliqueOutcomes* outcomes = &self._cliques[clique]
        cdef Scratch* scratch = &self._scratch
        cdef Py_ssize_t n = outcomes.size, K = self.cliques.n_labels, k, j
        cdef double factor = self.cliques._factor[clique]
        cdef double threshold, q, change, largest = 0.0
        for k in range(n):
            scratch.target[k] = (
                outcomes.q[k] + self._clique_gain(outcomes, k) / curvature)
        threshold = threshold_by_dropping(n, scratch.target)
        for k in range(n):
            q = scratch.target[k] - threshold
            q = q if q > 0.0 else 0.0
            change = q - outcomes.q[k]
            outcomes.q[k] = q
            largest = fabs(change) if fabs(change) > largest else largest
            # w and the marginals are updated once, at the end of the visit
            scratch.score[k] -= C * factor * factor * change
            for j in range(outcomes.order):
                self._message[j * K + outcomes.labels[k * outcomes.order + j]] -= (
                    self.rho * change)
        return largest

    cdef void _store_clique(self, Py_ssize_t clique, double C) noexcept nogil:
        """Update marginals and weights by the change of q_f since the visit began."""
        cdef CliqueOutcomes* outcomes = &self._cliques[clique]
        cdef double* table = &self.cliques._weights[self.cliques._first_weight[clique]]
        cdef Py_ssize_t K = self.cliques.n_labels, k, j, label, node
        cdef double change
        for k in range(outcomes.size):
            change = outcomes.q[k] - self._scratch.previous[k]
            for j in range(outcomes.order):
                node = self.cliques._scope[self.cliques._first_node[clique] + j]
                label = outcomes.labels[k * outcomes.order + j]
                outcomes.marginal[j * K + label] += change
                self._labels[node].total[
                    place_of(label, self.model._y_true[node])] += change
            # by (10), the weight of outcome k contains -C q_f(k) times its feature
            table[outcomes.entry[k]] -= C * self.cliques._factor[clique] * change

    # ---- multipliers ----

    cdef int _move_multipliers(self, Py_ssize_t i, double eta,
                               Residuals* sums) except -1 nogil:
        cdef CliqueOutcomes* outcomes
        cdef ActiveLabels* labels
        cdef Py_ssize_t K = self.cliques.n_labels, clique, j, label, node, entry, place
        cdef double residual
        GDMMState._move_multipliers(self, i, eta, sums)
        for clique in range(self.cliques._first_clique[i],
                            self.cliques._first_clique[i + 1]):
            outcomes = &self._cliques[clique]
            for j in range(outcomes.order):
                node = self.cliques._scope[self.cliques._first_node[clique] + j]
                labels = &self._labels[node]
                for label in range(K):
                    entry, place = j * K + label, place_of(
                        label, self.model._y_true[node])
                    residual = outcomes.marginal[entry] - labels.q[place]
                    outcomes.u[entry] += eta * residual
                    labels.total[place] += eta * residual
                    add_residual(sums, residual, labels.q[place], outcomes.u[entry])
        return 0

    def set_rho(self, double rho):
        # `GDMMState.set_rho` rescales u of pairs only; for cliques, the multipliers
        # rho u are saved before and restored after rho changes
        multipliers = self.multipliers()
        GDMMState.set_rho(self, rho)
        self.set_multipliers(multipliers)

    def multipliers(self):
        """Return the multipliers rho u of all cliques, nodes and labels, flat."""
        cdef Py_ssize_t clique, k, n_written = 0, size
        cdef Py_ssize_t n_ends = self.cliques._first_node[self.cliques.n_cliques]
        # one entry is spare, so that a model without cliques does not make an empty
        # buffer
        cdef double[::1] out = np.empty(n_ends * self.cliques.n_labels + 1)
        for clique in range(self.cliques.n_cliques):
            size = self._cliques[clique].order * self.cliques.n_labels
            for k in range(size):
                out[n_written + k] = self.rho * self._cliques[clique].u[k]
            n_written += size
        return np.asarray(out)[:n_written]

    def set_multipliers(self, multipliers):
        """Set the multipliers rho u of all cliques.

        Parameters
        ----------
        multipliers : ndarray
            The multipliers, in the order of the array that `multipliers` returns.
        """
        cdef const double[::1] values = np.append(multipliers, 0.0)
        cdef CliqueOutcomes* outcomes
        cdef Py_ssize_t K = self.cliques.n_labels, clique, j, label, node, n_read = 0
        cdef double change
        for clique in range(self.cliques.n_cliques):
            outcomes = &self._cliques[clique]
            for j in range(outcomes.order):
                node = self.cliques._scope[self.cliques._first_node[clique] + j]
                for label in range(K):
                    change = values[n_read] / self.rho - outcomes.u[j * K + label]
                    outcomes.u[j * K + label] += change
                    self._labels[node].total[
                        place_of(label, self.model._y_true[node])] += change
                    n_read += 1


cdef int overlap(const CliqueOutcomes* outcomes) noexcept nogil:
    """Bound the curvature of sum_v |M_vf d|^2 over changes d of q_f, which sum to zero.

    Entry (k, m) of sum_v M_vf^T M_vf is the number of nodes at which outcomes k and m
    agree. Subtracting a constant from all entries does not change the curvature for
    such d, so that the largest absolute row sum is a bound for every constant. If most
    outcomes are active, the least of these bounds is far below the bound without
    subtraction.
    """
    cdef int[MOST_NODES + 1] count, largest
    cdef Py_ssize_t k, m, j, order = outcomes.order
    cdef int agreed, row_sum, least = 0
    memset(largest, 0, sizeof(largest))
    # this loop is quadratic in the number of active outcomes, which is small
    for k in range(outcomes.size):
        memset(count, 0, sizeof(count))
        for m in range(outcomes.size):
            agreed = 0
            for j in range(order):
                agreed += (outcomes.labels[k * order + j]
                           == outcomes.labels[m * order + j])
            count[agreed] += 1
        for m in range(order + 1):
            row_sum = 0
            for j in range(order + 1):
                row_sum += count[j] * abs(<int> (j - m))
            largest[m] = row_sum if row_sum > largest[m] else largest[m]
    least = largest[0]
    for m in range(1, order + 1):
        least = largest[m] if largest[m] < least else least
    # with a single active outcome, whose q cannot change, the bound would be 0; 1 is
    # returned instead, as Q is a divisor
    return least if least > 1 else 1


cdef bint is_active(const CliqueOutcomes* outcomes, Py_ssize_t entry) noexcept nogil:
    """Return whether the outcome of this entry of the clique's table is active."""
    cdef Py_ssize_t k
    for k in range(outcomes.size):
        if outcomes.entry[k] == entry:
            return True
    return False


cdef void deactivate(CliqueOutcomes* outcomes, const double* previous) noexcept nogil:
    """Remove the outcomes of a clique with q = 0 both now and before this visit."""
    cdef Py_ssize_t k, order = outcomes.order
    cdef int32_t n_kept = 1
    for k in range(1, outcomes.size):
        # q is compared with exactly zero, to which projections set q
        if outcomes.q[k] == 0.0 and previous[k] == 0.0:
            continue
        outcomes.entry[n_kept], outcomes.q[n_kept] = outcomes.entry[k], outcomes.q[k]
        memmove(&outcomes.labels[n_kept * order], &outcomes.labels[k * order],
                order * sizeof(int32_t))
        n_kept += 1
    outcomes.size = n_kept
