"""A feasible dual point of models that forbid outcomes: a distribution over labelings.

If some outcomes of pairs are forbidden, no distribution of a pair may have the
marginals q_v, so that `_feasible.pyx` does not apply. Here the pairs must form trees:
the first end of a pair is a root or the second end of an earlier pair, and the second
end is a variable that no earlier pair has.
The point is a mixture of allowed labelings. Each root has the distribution q_v. Given
the label of the first end of a pair, the label of the second is distributed as in q_f,
after q_f was scaled down until no marginal exceeds q_v, and allowed outcomes were added
for labels that lack probability. A labeling is lost if no label may follow one of its
labels; the probability of lost labelings is given to the observed labeling. At the
optimum, where q_f and q_v agree, the point equals the iterate.

Let c_f(b | a) be these conditional distributions. Given label a of variable v, the
labeling of the variables below v is not lost with probability

    beta_v(a) = prod_(f below v) sum_b c_f(b | a) beta_v'(b)

where v' is the second end of f. The new marginals of a root are q_v(a) beta_v(a). The
new q_f(a, b) is the new marginal of label a at the first end times c_f(b | a)
beta_v'(b), divided by the sum over b of c_f(b | a) beta_v'(b). `_state.pyx` states the
notation.
"""

from libc.stdint cimport int32_t

from sksstruct.solvers.dual_decomposition._active_sets cimport (
    ActiveLabels, ActiveOutcomes, fit_ends,
)
from sksstruct.solvers.dual_decomposition._feasible cimport scale_down, write_lacks
from sksstruct.solvers.dual_decomposition._state cimport GDMMState
from sksstruct.utils._pointers cimport doubles, int32s, intps


cdef class JointPoint:
    """Marginals of variables and pairs in a mixture of allowed labelings.

    `integers`, `places` and `reals` are zeros that the caller allocates as scratch.
    """

    cdef GDMMState state
    cdef readonly double loss
    # for each variable: offset of its labels, its root, and for roots the probability
    # of lost labelings
    cdef Py_ssize_t* first_label
    cdef Py_ssize_t* root
    cdef double* lost_mass
    # for each active label of each variable: beta, and its marginal in the mixture
    cdef double* beta
    cdef double* marginal
    # for each pair: offset and number of its cells, the outcomes that `fill` writes
    cdef Py_ssize_t* first_cell
    cdef Py_ssize_t* n_cells
    # for each cell: places of its two labels; the probability that `fill` writes, and
    # that `distribute` replaces by the new probability; the probability in q_f
    cdef int32_t* place[2]
    cdef double* mass
    cdef double* before
    cdef tuple _arrays

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
        self.lost_mass = doubles(reals)
        self.beta = self.lost_mass + n
        self.marginal = self.beta + n_labels
        self.mass = self.marginal + n_labels
        self.before = self.mass + n_cells
        self._arrays = integers, places, reals
        for k in range(n_labels):
            self.beta[k] = 1.0
        for v in range(n):
            self.first_label[v + 1] = self.first_label[v] + state._labels[v].size
        for f in range(m):
            outcomes = &state._outcomes[f]
            # each outcome that `fill` adds uses up the lack of a label of one end
            self.first_cell[f + 1] = self.first_cell[f] + (
                outcomes.size + outcomes.ends[0].labels.size
                + outcomes.ends[1].labels.size)

    def build(self):
        """Compute the new marginals of all variables and pairs, and the loss."""
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
        # beta is computed from the last pair to the first, as pairs further below come
        # later, and marginals from the first pair to the last
        for f in range(self.state.model.n_pairs - 1, -1, -1):
            self.collect_beta(f)
        for v in range(self.state.model.n_variables):
            first = self.first_label[v]
            if self.root[v] != v:
                continue
            self.lost_mass[v] = 1.0
            for k in range(self.state._labels[v].size):
                self.marginal[first + k] = self.state._labels[v].q[k] * (
                    self.beta[first + k])
                self.lost_mass[v] -= self.marginal[first + k]
        for f in range(self.state.model.n_pairs):
            self.distribute(f)
        self.return_lost_mass()
        return 0

    cdef int fill(self, Py_ssize_t f) except -1 nogil:
        """Write the cells of a pair: q_f scaled down, and outcomes that fill lacks."""
        cdef ActiveOutcomes* outcomes = &self.state._outcomes[f]
        cdef double* left
        cdef double* right
        cdef double mass
        cdef Py_ssize_t j, k, cell = self.first_cell[f]
        # the variables may have labels that are newer than the pair's last visit
        fit_ends(self.state._arena, outcomes)
        self.state._reserve(max(outcomes.size, outcomes.ends[0].labels.size,
                                outcomes.ends[1].labels.size))
        scale_down(&self.state._scratch, outcomes)
        for k in range(outcomes.size):
            mass = self.state._scratch.target[k]
            # Away steps leave rounding errors at forbidden outcomes. If no other label
            # may follow a label, normalization would raise such an error to 1.
            if not self.allows(f, outcomes.ends[0].place[k], outcomes.ends[1].place[k]):
                mass = 0.0
            self.put(cell + k, outcomes.ends[0].place[k], outcomes.ends[1].place[k],
                     mass, outcomes.q[k])
        cell += outcomes.size
        write_lacks(&self.state._scratch, outcomes)
        left, right = self.state._scratch.message[0], self.state._scratch.message[1]
        for j in range(outcomes.ends[0].labels.size):
            for k in range(outcomes.ends[1].labels.size):
                mass = left[j] if left[j] < right[k] else right[k]
                if mass <= 0.0 or not self.allows(f, j, k):
                    continue
                self.put(cell, j, k, mass, 0.0)
                cell += 1
                # the lack of at least one of the two labels becomes zero
                left[j] -= mass
                right[k] -= mass
        self.n_cells[f] = cell - self.first_cell[f]
        return 0

    cdef bint allows(self, Py_ssize_t f, Py_ssize_t first_place,
                     Py_ssize_t second_place) noexcept nogil:
        """Return whether the model allows the outcome with labels at these places."""
        cdef ActiveOutcomes* outcomes = &self.state._outcomes[f]
        return self.state.model.allows(
            f, outcomes.ends[0].labels.label[first_place],
            outcomes.ends[1].labels.label[second_place])

    cdef void put(self, Py_ssize_t cell, Py_ssize_t first_place,
                  Py_ssize_t second_place, double mass, double before) noexcept nogil:
        """Write a cell: places of an outcome's labels, its probability, and its q_f."""
        self.place[0][cell] = <int32_t> first_place
        self.place[1][cell] = <int32_t> second_place
        # rounding errors of away steps may be negative
        self.mass[cell], self.before[cell] = mass if mass > 0.0 else 0.0, before

    cdef double* sums(self, Py_ssize_t f, double* sums_of_mass) noexcept nogil:
        """Return, for each label of the first end, the sum of mass times beta_v'(b).

        Each sum is over the cells of the pair with this label. The returned array is
        `target` of the scratch. Sums of mass alone are written to `sums_of_mass`,
        unless this is NULL.
        """
        cdef double* out = self.state._scratch.target
        cdef const int32_t* ends = &self.state.model._pairs[f, 0]
        cdef Py_ssize_t below = self.first_label[ends[1]], k
        cdef double mass
        for k in range(self.state._labels[ends[0]].size):
            out[k] = 0.0
            if sums_of_mass != NULL:
                sums_of_mass[k] = 0.0
        for k in range(self.first_cell[f], self.first_cell[f] + self.n_cells[f]):
            mass = self.mass[k] * self.beta[below + self.place[1][k]]
            out[self.place[0][k]] += mass
            if sums_of_mass != NULL:
                sums_of_mass[self.place[0][k]] += self.mass[k]
        return out

    cdef int collect_beta(self, Py_ssize_t f) except -1 nogil:
        """Multiply beta of a pair's first end by the probability not lost below it."""
        cdef Py_ssize_t v = self.state.model._pairs[f, 0], k
        cdef double* total
        cdef double* proper_sum
        self.state._reserve(self.state._labels[v].size)
        total = self.state._scratch.previous
        proper_sum = self.sums(f, total)
        for k in range(self.state._labels[v].size):
            self.beta[self.first_label[v] + k] *= (
                proper_sum[k] / total[k] if total[k] > 0.0 else 0.0)
        return 0

    cdef int distribute(self, Py_ssize_t f) except -1 nogil:
        """Compute the new marginals of a pair and of its second end."""
        cdef const int32_t* ends = &self.state.model._pairs[f, 0]
        cdef Py_ssize_t above = self.first_label[ends[0]], k
        cdef Py_ssize_t below = self.first_label[ends[1]]
        cdef double* proper_sum
        cdef double mass
        self.state._reserve(self.state._labels[ends[0]].size)
        proper_sum = self.sums(f, NULL)
        for k in range(self.first_cell[f], self.first_cell[f] + self.n_cells[f]):
            # if the mass is zero, the divisor may be zero, too
            mass = self.mass[k] * self.beta[below + self.place[1][k]]
            if mass > 0.0:
                mass *= self.marginal[above + self.place[0][k]] / (
                    proper_sum[self.place[0][k]])
            self.mass[k] = mass
            self.marginal[below + self.place[1][k]] += mass
        return 0

    cdef void return_lost_mass(self) noexcept nogil:
        """Add lost probability to the observed labeling; compute the expected loss."""
        cdef Py_ssize_t i, v, f
        cdef double loss
        # observed labels and outcomes have place 0
        for v in range(self.state.model.n_variables):
            self.marginal[self.first_label[v]] += self.lost_mass[self.root[v]]
        for f in range(self.state.model.n_pairs):
            self.mass[self.first_cell[f]] += (
                self.lost_mass[self.root[self.state.model._pairs[f, 0]]])
        for i in range(self.state.model.n_examples):
            loss = 0.0
            for v in range(self.state.model._first_variable[i],
                           self.state.model._first_variable[i + 1]):
                loss += self.state.model._cost[v] * (
                    1.0 - self.marginal[self.first_label[v]])
            self.loss += self.state.model._example_weights[i] * loss

    def list_changes(self, pairs_, first_, second_, amounts_):
        """Write score changes of outcomes of pairs, and return their number.

        The format is that of `feasible_changes`.
        """
        cdef Py_ssize_t* pairs = intps(pairs_)
        cdef int32_t* labels[2]
        cdef double* amounts = doubles(amounts_)
        cdef Py_ssize_t i, f, k, n_changes = 0
        cdef double C
        cdef int side
        labels[0], labels[1] = int32s(first_), int32s(second_)
        for i in range(self.state.model.n_examples):
            C = self.state.model._example_weights[i] / self.state.alpha
            for f in range(self.state.model._first_pair[i],
                           self.state.model._first_pair[i + 1]):
                for k in range(self.first_cell[f],
                               self.first_cell[f] + self.n_cells[f]):
                    pairs[n_changes] = f
                    for side in range(2):
                        labels[side][n_changes] = self.state._outcomes[f].ends[
                            side].labels.label[self.place[side][k]]
                    # the weights contain -C q_f (10), hence the minus sign
                    amounts[n_changes] = -C * (self.mass[k] - self.before[k])
                    n_changes += 1
        return n_changes

    def move_weights(self, double sign):
        """Add the weight changes from the new marginals of variables, times `sign`."""
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
