"""A feasible dual point of models that forbid outcomes: a distribution over labelings.

Marginals of variables can agree with no distributions of pairs at all, if some outcomes
of pairs are forbidden, so that `_feasible.pyx` does not help. Here the pairs are trees,
each leading from a variable that is known already, its first end, to a new one, and the
point is a mixture of labelings that are all allowed. Every root has its q_v. Of a pair
the labels of the second end given those of the first are distributed as in q_f, after
it was cut down until no marginal is above q_v, and filled up where that is allowed.
Labelings that come to an end, because nothing is left to follow a label, give their
weight to the observed one. At the optimum, where q_f and q_v agree, nothing changes.

With c_f(b | a) these distributions, and the part of the labelings below a label that do
not come to an end

    beta_v(a) = prod_(f below v) sum_b c_f(b | a) beta_v'(b)

a root has the new marginals q_v(a) beta_v(a), and a pair those of its first end times
c_f(b | a) beta_v'(b), divided by their sum over b. Notation as in `_state.pyx`.
"""

from libc.stdint cimport int32_t

from sksstruct.solvers.dual_decomposition._active_sets cimport (
    ActiveLabels, ActiveOutcomes, fit_ends,
)
from sksstruct.solvers.dual_decomposition._feasible cimport cut, missing
from sksstruct.solvers.dual_decomposition._state cimport GDMMState
from sksstruct.utils._pointers cimport doubles, int32s, intps


cdef class JointPoint:
    """The new marginals of all variables and pairs; see `feasible_joint.py`.

    `integers`, `places` and `reals` are its memory, and zero.
    """

    cdef GDMMState state
    cdef readonly double loss
    # of each variable: where its labels begin, its root, and of roots the weight of
    # the labelings that come to an end
    cdef Py_ssize_t* first_label
    cdef Py_ssize_t* root
    cdef double* lost
    # of labels: beta and the new marginal
    cdef double* beta
    cdef double* marginal
    # of each pair: where its outcomes begin, and how many there are
    cdef Py_ssize_t* first_cell
    cdef Py_ssize_t* n_cells
    # of outcomes: places of their labels, the distribution that was filled up, then the
    # new one, and the old one
    cdef int32_t* place[2]
    cdef double* mass
    cdef double* before
    cdef tuple _owned

    def __init__(self, GDMMState state, Py_ssize_t n_labels, Py_ssize_t n_cells,
                 integers, places, reals):
        cdef Py_ssize_t v, f, k, n = state.model.n_variables, m = state.model.n_pairs
        cdef ActiveOutcomes* outcomes
        self.state = state
        self.first_label = intps(integers)
        self.root = self.first_label + n + 1
        self.first_cell = self.root + n
        self.n_cells = self.first_cell + m + 1
        self.place[0] = int32s(places)
        self.place[1] = self.place[0] + n_cells
        self.lost = doubles(reals)
        self.beta = self.lost + n
        self.marginal = self.beta + n_labels
        self.mass = self.marginal + n_labels
        self.before = self.mass + n_cells
        self._owned = integers, places, reals
        for k in range(n_labels):
            self.beta[k] = 1.0
        for v in range(n):
            self.first_label[v + 1] = self.first_label[v] + state._labels[v].size
        for f in range(m):
            outcomes = &state._outcomes[f]
            # every outcome that is filled up is the last of a label at one of the ends
            self.first_cell[f + 1] = self.first_cell[f] + (
                outcomes.size + outcomes.ends[0].labels.size
                + outcomes.ends[1].labels.size)

    def build(self):
        """Compute the point."""
        with nogil:
            self._build()

    cdef int _build(self) except -1 nogil:
        cdef Py_ssize_t v, f, k, first
        cdef const int32_t* ends
        for v in range(self.state.model.n_variables):
            self.root[v] = v
        for f in range(self.state.model.n_pairs):
            self.fill(f)
            ends = &self.state.model._pairs[f, 0]
            self.root[ends[1]] = self.root[ends[0]]
        # upwards, the last pairs first, then downwards
        for f in range(self.state.model.n_pairs - 1, -1, -1):
            self.collect(f)
        for v in range(self.state.model.n_variables):
            first = self.first_label[v]
            if self.root[v] != v:
                continue
            self.lost[v] = 1.0
            for k in range(self.state._labels[v].size):
                self.marginal[first + k] = self.state._labels[v].q[k] * (
                    self.beta[first + k])
                self.lost[v] -= self.marginal[first + k]
        for f in range(self.state.model.n_pairs):
            self.distribute(f)
        self.return_lost()
        return 0

    cdef int fill(self, Py_ssize_t f) except -1 nogil:
        """Write q_f, cut down and filled up by what is allowed."""
        cdef ActiveOutcomes* outcomes = &self.state._outcomes[f]
        cdef double* left
        cdef double* right
        cdef double moved
        cdef Py_ssize_t j, k, at = self.first_cell[f]
        # a variable may have labels that are newer than the pair's last visit
        fit_ends(self.state._arena, outcomes)
        self.state._reserve(max(outcomes.size, outcomes.ends[0].labels.size,
                                outcomes.ends[1].labels.size))
        cut(&self.state._scratch, outcomes)
        for k in range(outcomes.size):
            moved = self.state._scratch.target[k]
            # Away-steps leave rounding errors where nothing may be: next to a label
            # that nothing else follows, they would become all that there is.
            if not self.allows(f, outcomes.ends[0].place[k], outcomes.ends[1].place[k]):
                moved = 0.0
            self.put(at + k, outcomes.ends[0].place[k], outcomes.ends[1].place[k],
                     moved, outcomes.q[k])
        at += outcomes.size
        missing(&self.state._scratch, outcomes)
        left, right = self.state._scratch.message[0], self.state._scratch.message[1]
        for j in range(outcomes.ends[0].labels.size):
            for k in range(outcomes.ends[1].labels.size):
                moved = left[j] if left[j] < right[k] else right[k]
                if moved <= 0.0 or not self.allows(f, j, k):
                    continue
                self.put(at, j, k, moved, 0.0)
                at += 1
                # one of the two lacks nothing any more
                left[j] -= moved
                right[k] -= moved
        self.n_cells[f] = at - self.first_cell[f]
        return 0

    cdef bint allows(self, Py_ssize_t f, Py_ssize_t first_place,
                     Py_ssize_t second_place) noexcept nogil:
        """Whether an outcome is allowed, given by the places of its labels."""
        cdef ActiveOutcomes* outcomes = &self.state._outcomes[f]
        return self.state.model.allows(
            f, outcomes.ends[0].labels.label[first_place],
            outcomes.ends[1].labels.label[second_place])

    cdef void put(self, Py_ssize_t cell, Py_ssize_t first_place,
                  Py_ssize_t second_place, double mass, double before) noexcept nogil:
        """Write an outcome."""
        self.place[0][cell] = <int32_t> first_place
        self.place[1][cell] = <int32_t> second_place
        # rounding of away-steps may make what has no weight negative
        self.mass[cell], self.before[cell] = mass if mass > 0.0 else 0.0, before

    cdef double* sums(self, Py_ssize_t f, double* sums_of_mass) noexcept nogil:
        """Return, for each label of the first end, sum_b of mass times beta_v'(b).

        Sums of the masses alone are written, where there is a place for them.
        """
        cdef double* out = self.state._scratch.target
        cdef const int32_t* ends = &self.state.model._pairs[f, 0]
        cdef Py_ssize_t below = self.first_label[ends[1]], k
        cdef double share
        for k in range(self.state._labels[ends[0]].size):
            out[k] = 0.0
            if sums_of_mass != NULL:
                sums_of_mass[k] = 0.0
        for k in range(self.first_cell[f], self.first_cell[f] + self.n_cells[f]):
            share = self.mass[k] * self.beta[below + self.place[1][k]]
            out[self.place[0][k]] += share
            if sums_of_mass != NULL:
                sums_of_mass[self.place[0][k]] += self.mass[k]
        return out

    cdef int collect(self, Py_ssize_t f) except -1 nogil:
        """Multiply beta of the first end by the part of the labelings that go on."""
        cdef Py_ssize_t v = self.state.model._pairs[f, 0], k
        cdef double* total
        cdef double* kept
        self.state._reserve(self.state._labels[v].size)
        total = self.state._scratch.previous
        kept = self.sums(f, total)
        for k in range(self.state._labels[v].size):
            self.beta[self.first_label[v] + k] *= (
                kept[k] / total[k] if total[k] > 0.0 else 0.0)
        return 0

    cdef int distribute(self, Py_ssize_t f) except -1 nogil:
        """Write the new marginals of a pair, and of its second end."""
        cdef const int32_t* ends = &self.state.model._pairs[f, 0]
        cdef Py_ssize_t above = self.first_label[ends[0]], k
        cdef Py_ssize_t below = self.first_label[ends[1]]
        cdef double* kept
        cdef double share
        self.state._reserve(self.state._labels[ends[0]].size)
        kept = self.sums(f, NULL)
        for k in range(self.first_cell[f], self.first_cell[f] + self.n_cells[f]):
            # without weight, what is divided by may be zero
            share = self.mass[k] * self.beta[below + self.place[1][k]]
            if share > 0.0:
                share *= self.marginal[above + self.place[0][k]] / (
                    kept[self.place[0][k]])
            self.mass[k] = share
            self.marginal[below + self.place[1][k]] += share
        return 0

    cdef void return_lost(self) noexcept nogil:
        """Give the observed labeling what came to an end, and add up the losses."""
        cdef Py_ssize_t i, v, f
        cdef double loss
        # observed labels and outcomes are the first of their lists
        for v in range(self.state.model.n_variables):
            self.marginal[self.first_label[v]] += self.lost[self.root[v]]
        for f in range(self.state.model.n_pairs):
            self.mass[self.first_cell[f]] += (
                self.lost[self.root[self.state.model._pairs[f, 0]]])
        for i in range(self.state.model.n_examples):
            loss = 0.0
            for v in range(self.state.model._first_variable[i],
                           self.state.model._first_variable[i + 1]):
                loss += self.state.model._cost[v] * (
                    1.0 - self.marginal[self.first_label[v]])
            self.loss += self.state.model._example_weights[i] * loss

    def list_changes(self, pairs_, first_, second_, amounts_):
        """Write the changes of pairs, see `feasible_changes`; return their number."""
        cdef Py_ssize_t* pairs = intps(pairs_)
        cdef int32_t* labels[2]
        cdef double* amounts = doubles(amounts_)
        cdef Py_ssize_t i, f, k, at = 0
        cdef double C
        cdef int side
        labels[0], labels[1] = int32s(first_), int32s(second_)
        for i in range(self.state.model.n_examples):
            C = self.state.model._example_weights[i] / self.state.alpha
            for f in range(self.state.model._first_pair[i],
                           self.state.model._first_pair[i + 1]):
                for k in range(self.first_cell[f],
                               self.first_cell[f] + self.n_cells[f]):
                    pairs[at] = f
                    for side in range(2):
                        labels[side][at] = self.state._outcomes[f].ends[
                            side].labels.label[self.place[side][k]]
                    # weights go by e_truth - q
                    amounts[at] = -C * (self.mass[k] - self.before[k])
                    at += 1
        return at

    def move_weights(self, double sign):
        """Add the changes of variables to the weights, or take them away."""
        cdef Py_ssize_t i, v, k
        cdef ActiveLabels* labels
        cdef double scale
        cdef double* change
        for i in range(self.state.model.n_examples):
            scale = -sign * self.state.model._example_weights[i] / self.state.alpha
            for v in range(self.state.model._first_variable[i],
                           self.state.model._first_variable[i + 1]):
                labels = &self.state._labels[v]
                self.state._reserve(labels.size)
                change = self.state._scratch.change
                for k in range(labels.size):
                    change[k] = scale * (
                        self.marginal[self.first_label[v] + k] - labels.q[k])
                self.state.model.add_labels(v, labels.size, labels.label, change)
