"""Blocks of the augmented Lagrangian of dual decomposed training, and its multipliers.

I. Yen et al. (2016). With the distributions q_f of the factors and q_v of the variables
(their unigram factors), example weights p_i and C_i = p_i / alpha, training minimises

    alpha/2 |w|^2 - sum_i p_i sum_v <loss_v, q_v>
      + sum_i p_i rho/2 sum_(f, v) |M_vf q_f - q_v + u_vf|^2

over the simplices, w as in `models/_factors.pyx`, with scaled multipliers u: (10)-(12)
with alpha_f = C_i (e_truth - q_f), in units of p_i. The messages are m_vf = M_vf q_f -
q_v + u_vf, and what an outcome gains is

    variable:  score(y) + loss(y) + rho sum_f m_vf(y)
    pair:      score(a, b) - rho (m_vf(a) + m_v'f(b))

Only active outcomes are kept, those of the observed labels to begin with. A visit asks
the factorwise oracle for an outcome that would get weight, lets it in, and solves (25):
a projection of q + gains / Q onto the simplex, with Q = C |phi|^2 + rho deg(v), which
is exact, for a variable, and C |phi|^2 + rho (the most active outcomes that share a
label, of both sides) for a pair. After a pass u += eta / rho (M q_f - q_v) (13).

The labels of a variable that were ever active are a list; the outcomes of its pairs
point into it, so that messages are found without a search, and `total` holds the sum
over the pairs of M q_f + u for each of them.
"""

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from sksstruct.models.protocols._factors cimport FactorModel
from sksstruct.projections._simplex cimport threshold_by_partition
from sksstruct.utils._arena cimport Arena

# Projections of one visit to a pair, whose Q is an upper bound.
cdef int INNER_STEPS = 4
# Least curvature of a factor, in units of p_i / alpha.
cdef double TINY = 1e-9


cdef inline double progress_of(double gain, double Q) noexcept nogil:
    """What moving weight from the observed outcome to a better one gains (18)."""
    cdef double step = gain / (2.0 * Q)
    step = 1.0 if step > 1.0 else step
    return step * (gain - step * Q)


cdef class GDMMState:
    """State of GDMM on a model of factors.

    Parameters
    ----------
    model : FactorModel
        The model; its weights are written.
    alpha : float
        Regularisation.
    rho : float
        Weight of the quadratic terms.

    Attributes
    ----------
    block_gap : float
        Sum over the visits of the last pass of what the best outcome of a factor gains
        over its distribution, weighted by p_i / alpha: zero at the minimum.
    infeasibility : float
        Mean total variation distance between the marginals of pairs and of variables,
        at the last update of the multipliers.
    primal_residual, dual_residual : float
        Norms of M q_f - q_v over that of q, and of the change of q_v in the last pass
        over that of u.
    residual_square : float
        Sum of |M q_f - q_v|^2, then.
    calls : int
        Calls of factorwise oracles.
    """

    def __cinit__(self, FactorModel model, double alpha, double rho):
        cdef Py_ssize_t v, f, n = model.n_variables, m = model.n_pairs, k
        cdef int side
        cdef Variable* variable
        cdef Pair* pair
        self.model, self.alpha, self.rho = model, alpha, rho
        self._arena = Arena()
        self._variables = <Variable*> self._arena.take(max(n, 1) * sizeof(Variable))
        self._pairs = <Pair*> self._arena.take(max(m, 1) * sizeof(Pair))
        memset(self._variables, 0, n * sizeof(Variable))
        memset(self._pairs, 0, m * sizeof(Pair))
        self._on = <char*> self._arena.take(n + m + 1)
        memset(self._on, 0, n + m + 1)
        self._widen(16)
        with nogil:
            for f in range(m):
                for side in range(2):
                    self._variables[model._pairs[f, side]].degree += 1
            for v in range(n):
                variable = &self._variables[v]
                k = self._place(variable, model._y_true[v])
                variable.q[k] = 1.0
                variable.total[k] = variable.degree
            for f in range(m):
                pair = &self._pairs[f]
                self._fit_sides(f)
                self._join(pair, <int32_t> model.entry(
                    f, model._y_true[model._pairs[f, 0]],
                    model._y_true[model._pairs[f, 1]]), 0, 0)
                pair.q[0] = 1.0
                pair.sides[0].marginal[0] = pair.sides[1].marginal[0] = 1.0

    def __dealloc__(self):
        free(self._room.value)

    # ---- lists that grow ----

    cdef int _widen(self, Py_ssize_t size) except -1 nogil:
        """Scratch for factors of so many outcomes."""
        cdef double* values
        if size <= self._room.size:
            return 0
        size *= 2
        values = <double*> realloc(self._room.value, 7 * size * sizeof(double))
        if values == NULL:
            with gil:
                raise MemoryError()
        self._room.value, self._room.z = values, values + size
        self._room.old, self._room.target = values + 2 * size, values + 3 * size
        self._room.left, self._room.right = values + 4 * size, values + 5 * size
        self._room.norm = values + 6 * size
        self._room.size = size
        return 0

    cdef int32_t _place(self, Variable* variable, int32_t label) except -1 nogil:
        """Place of a label in a variable's list, at the end where it is new."""
        cdef int32_t k, room
        for k in range(variable.n):
            if variable.label[k] == label:
                return k
        if variable.n == variable.room:
            room = 2 * variable.room if variable.room else 4
            variable.label = <int32_t*> self._arena.grow(
                variable.label, variable.n * sizeof(int32_t), room * sizeof(int32_t))
            variable.q = <double*> self._arena.grow(
                variable.q, variable.n * sizeof(double), room * sizeof(double))
            variable.total = <double*> self._arena.grow(
                variable.total, variable.n * sizeof(double), room * sizeof(double))
            variable.room = room
        k = variable.n
        variable.label[k] = label
        variable.q[k] = variable.total[k] = 0.0
        variable.n += 1
        return k

    cdef int _join(self, Pair* pair, int32_t entry, int32_t left,
                   int32_t right) except -1 nogil:
        """Let an outcome into a pair's list."""
        cdef int32_t room, k = pair.n
        if k == pair.room:
            room = 2 * pair.room if pair.room else 4
            pair.entry = <int32_t*> self._arena.grow(
                pair.entry, k * sizeof(int32_t), room * sizeof(int32_t))
            pair.left = <int32_t*> self._arena.grow(
                pair.left, k * sizeof(int32_t), room * sizeof(int32_t))
            pair.right = <int32_t*> self._arena.grow(
                pair.right, k * sizeof(int32_t), room * sizeof(int32_t))
            pair.q = <double*> self._arena.grow(
                pair.q, k * sizeof(double), room * sizeof(double))
            pair.room = room
        pair.entry[k], pair.left[k], pair.right[k] = entry, left, right
        pair.q[k] = 0.0
        pair.n += 1
        return 0

    cdef int _fit_sides(self, Py_ssize_t f) except -1 nogil:
        """GDMMState and marginals for every label of the pair's variables."""
        cdef Pair* pair = &self._pairs[f]
        cdef Variable* variable
        cdef Side* side
        cdef int s
        for s in range(2):
            variable = &self._variables[self.model._pairs[f, s]]
            side = &pair.sides[s]
            if side.room >= variable.n:
                continue
            side.marginal = <double*> self._arena.grow(
                side.marginal, side.room * sizeof(double),
                variable.room * sizeof(double))
            side.u = <double*> self._arena.grow(
                side.u, side.room * sizeof(double), variable.room * sizeof(double))
            memset(side.marginal + side.room, 0,
                   (variable.room - side.room) * sizeof(double))
            memset(side.u + side.room, 0,
                   (variable.room - side.room) * sizeof(double))
            side.room = variable.room
        return 0

    # ---- visits ----

    def visit(self, const Py_ssize_t[::1] order, const double[::1] parts, bint linear,
              bint greedy=False):
        """One pass over examples in a given order: Algorithm 4, or 3.

        Parameters
        ----------
        order : ndarray of shape (n,), intp
            Examples.
        parts : ndarray of shape (n_variables,)
            The part of the labels that each variable's oracle looks at, as a number in
            [0, 1); negative for all.
        linear : bool
            Whether oracles look at every outcome.
        greedy : bool
            Whether only factors are visited that were let in, one more of each example
            (Algorithm 3).
        """
        cdef Py_ssize_t k, i, v, f
        cdef double factor
        self._moved = self.block_gap = 0.0
        with nogil:
            for k in range(order.shape[0]):
                i = order[k]
                factor = self.model._example_weights[i] / self.alpha
                if greedy:
                    self._let_in(i, factor, parts, linear)
                for v in range(self.model._first_variable[i],
                               self.model._first_variable[i + 1]):
                    if not greedy or self._on[v]:
                        self._visit_variable(v, factor, parts[v])
                for f in range(self.model._first_pair[i],
                               self.model._first_pair[i + 1]):
                    if not greedy or self._on[self.model.n_variables + f]:
                        self._visit_pair(f, factor, linear)

    cdef int _let_in(self, Py_ssize_t i, double factor, const double[::1] parts,
                     bint linear) except -1 nogil:
        """The factor of an example that would make the most progress (18)."""
        cdef Py_ssize_t n = self.model.n_variables, v, f, best = -1
        cdef double progress, most = 0.0
        for v in range(self.model._first_variable[i],
                       self.model._first_variable[i + 1]):
            if not self._on[v]:
                progress = self._variable_progress(v, factor, parts[v])
                if progress > most:
                    best, most = v, progress
        for f in range(self.model._first_pair[i], self.model._first_pair[i + 1]):
            if not self._on[n + f]:
                progress = self._pair_progress(f, factor, linear)
                if progress > most:
                    best, most = n + f, progress
        if best >= 0:
            self._on[best] = 1
        return 0

    cdef int _variable_gains(self, Py_ssize_t v, double* gain) except -1 nogil:
        """Gains of a variable's active labels."""
        cdef Variable* variable = &self._variables[v]
        cdef Py_ssize_t k
        self.model.label_scores(v, variable.n, variable.label, gain)
        for k in range(variable.n):
            if variable.label[k] != self.model._y_true[v]:
                gain[k] += self.model._cost[v]
            gain[k] += self.rho * (
                variable.total[k] - variable.degree * variable.q[k])
        return 0

    cdef int _load_pair(self, Py_ssize_t f) except -1 nogil:
        """Messages to a pair's labels, and its scores, into the scratch, with room for
        one more label of each variable and one more outcome."""
        cdef Pair* pair = &self._pairs[f]
        cdef Variable* variable
        cdef Side* side
        cdef double* room
        cdef Py_ssize_t k
        cdef int s
        self._fit_sides(f)
        self._widen(pair.n + 2)
        for s in range(2):
            self._widen(self._variables[self.model._pairs[f, s]].n + 2)
        for s in range(2):
            variable = &self._variables[self.model._pairs[f, s]]
            side = &pair.sides[s]
            room = self._room.right if s else self._room.left
            for k in range(variable.n):
                room[k] = -self.rho * (side.marginal[k] + side.u[k] - variable.q[k])
        return self.model.pair_scores(pair.n, pair.entry, self._room.value,
                                      self._room.norm)

    cdef double _pair_gain(self, Pair* pair, Py_ssize_t k) noexcept nogil:
        """Gain of an active outcome of the pair that was loaded."""
        return (self._room.value[k] + self._room.left[pair.left[k]]
                + self._room.right[pair.right[k]])

    cdef int _find_pair(self, Py_ssize_t f, bint linear, double floor, int32_t* a,
                        int32_t* b, double* value) except -1 nogil:
        """The oracle for the pair that was loaded."""
        cdef Variable* first = &self._variables[self.model._pairs[f, 0]]
        cdef Variable* second = &self._variables[self.model._pairs[f, 1]]
        self.calls += 1
        return self.model.find_pair(
            f, linear, first.n, first.label, self._room.left, second.n, second.label,
            self._room.right, floor, a, b, value)

    cdef double _variable_progress(self, Py_ssize_t v, double factor,
                                   double part) except -1.0 nogil:
        cdef Variable* variable = &self._variables[v]
        cdef Py_ssize_t n = variable.n, k
        cdef double Q = factor * self.model.label_norm(v) + self.rho * variable.degree
        cdef double best
        cdef double* gain
        cdef int32_t label = 0
        self._widen(n + 2)
        gain = self._room.value
        self._variable_gains(v, gain)
        best = gain[0]
        for k in range(1, n):
            best = gain[k] if gain[k] > best else best
        self.calls += 1
        self.model.find_label(v, part, n, variable.label, best, &label, &best)
        # the observed label is the first of the list
        return progress_of(best - gain[0], Q if Q > TINY * factor else TINY * factor)

    cdef double _pair_progress(self, Py_ssize_t f, double factor,
                               bint linear) except -1.0 nogil:
        cdef int32_t a = 0, b = 0
        cdef double y_true, best
        self._load_pair(f)
        y_true = best = self._pair_gain(&self._pairs[f], 0)
        self._find_pair(f, linear, y_true, &a, &b, &best)
        return progress_of(
            best - y_true, factor * self.model.pair_norm + 2.0 * self.rho)

    cdef int _visit_variable(self, Py_ssize_t v, double factor,
                             double part) except -1 nogil:
        cdef Variable* variable = &self._variables[v]
        cdef Py_ssize_t n = variable.n, k
        cdef double Q = factor * self.model.label_norm(v) + self.rho * variable.degree
        cdef double cost = self.model._cost[v], threshold, value = 0.0, new
        cdef double best = -INFINITY, mean = 0.0
        cdef int32_t label = 0
        cdef double* gain
        cdef double* z
        # without features and pairs all weight goes to the best label
        Q = Q if Q > TINY * factor else TINY * factor
        self._widen(n + 2)
        gain, z = self._room.value, self._room.z
        self._variable_gains(v, gain)
        for k in range(n):
            best = gain[k] if gain[k] > best else best
            mean += variable.q[k] * gain[k]
            gain[k] = z[k] = variable.q[k] + gain[k] / Q
        threshold = threshold_by_partition(n, z)
        self.calls += 1
        if self.model.find_label(v, part, n, variable.label,
                                 threshold * Q + self.ignore * cost, &label, &value):
            self._place(variable, label)
            best = value if value > best else best
            gain[n] = value / Q
            n += 1
            for k in range(n):
                z[k] = gain[k]
            threshold = threshold_by_partition(n, z)
        self.block_gap += factor * (best - mean)
        for k in range(n):
            new = gain[k] - threshold
            new = new if new > 0.0 else 0.0
            z[k] = -factor * (new - variable.q[k])
            self._moved += variable.degree * (new - variable.q[k]) ** 2
            variable.q[k] = new
        self.model.add_labels(v, n, variable.label, z)
        return 0

    cdef bint _is_new(self, Pair* pair, Py_ssize_t entry) noexcept nogil:
        """Whether an outcome is not active, whatever rounding says of its gain."""
        cdef Py_ssize_t k
        for k in range(pair.n):
            if pair.entry[k] == entry:
                return False
        return True

    cdef double _curvature(self, Pair* pair) noexcept nogil:
        """Bound of the largest eigenvalue of sum_v M_vf^T M_vf on the active set."""
        cdef Py_ssize_t k, j
        cdef int shared, most = 0
        for k in range(pair.n):
            shared = 0
            for j in range(pair.n):
                shared += pair.left[j] == pair.left[k]
                shared += pair.right[j] == pair.right[k]
            most = shared if shared > most else most
        return most

    cdef int _visit_pair(self, Py_ssize_t f, double factor,
                         bint linear) except -1 nogil:
        cdef Pair* pair = &self._pairs[f]
        cdef Variable* first = &self._variables[self.model._pairs[f, 0]]
        cdef Variable* second = &self._variables[self.model._pairs[f, 1]]
        cdef Py_ssize_t k, n
        cdef double rho = self.rho, Q, threshold, value = 0.0, new, moved, gain
        cdef double best = -INFINITY, mean = 0.0
        cdef double* left
        cdef double* right
        cdef double* score
        cdef double* z
        cdef double* old
        cdef double* norm
        cdef int32_t a = 0, b = 0
        self._load_pair(f)
        left, right = self._room.left, self._room.right
        score, z, old = self._room.value, self._room.z, self._room.old
        norm = self._room.norm
        Q = factor * self.model.pair_norm + rho * self._curvature(pair)
        for k in range(pair.n):
            gain = self._pair_gain(pair, k)
            best = gain if gain > best else best
            mean += pair.q[k] * gain
            z[k] = pair.q[k] + gain / Q
        # an outcome that is not active gets weight above the first of these, but the
        # one of the highest gain may be active
        gain = (threshold_by_partition(pair.n, z) * Q
                + self.ignore * self.model._cost[self.model._pairs[f, 0]])
        if self._find_pair(f, linear, gain if gain > best else best, &a, &b,
                           &value) and self._is_new(pair, self.model.entry(f, a, b)):
            best = value if value > best else best
            # the outcome, and its labels where they are new to the variables
            left[first.n] = right[second.n] = 0.0
            a, b = self._place(first, a), self._place(second, b)
            self._fit_sides(f)
            self._join(
                pair, <int32_t> self.model.entry(f, first.label[a], second.label[b]),
                a, b)
            # the score as it was, without messages, and the norm
            self.model.pair_scores(1, &pair.entry[pair.n - 1], &score[pair.n - 1],
                                   &norm[pair.n - 1])
            Q = factor * self.model.pair_norm + rho * self._curvature(pair)
        self.block_gap += factor * (best - mean)
        n = pair.n
        for k in range(n):
            old[k] = pair.q[k]
        for _step in range(INNER_STEPS):
            for k in range(n):
                z[k] = pair.q[k] + self._pair_gain(pair, k) / Q
                # kept beside, as the threshold reorders z
                self._room.target[k] = z[k]
            threshold = threshold_by_partition(n, z)
            moved = 0.0
            for k in range(n):
                new = self._room.target[k] - threshold
                new = new if new > 0.0 else 0.0
                z[k] = new - pair.q[k]
                moved = fabs(z[k]) if fabs(z[k]) > moved else moved
            for k in range(n):
                pair.q[k] += z[k]
                score[k] -= factor * norm[k] * z[k]
                left[pair.left[k]] -= rho * z[k]
                right[pair.right[k]] -= rho * z[k]
            if moved < 1e-3:
                break
        for k in range(n):
            z[k] = pair.q[k] - old[k]
            pair.sides[0].marginal[pair.left[k]] += z[k]
            first.total[pair.left[k]] += z[k]
            pair.sides[1].marginal[pair.right[k]] += z[k]
            second.total[pair.right[k]] += z[k]
            z[k] *= -factor
        self.model.add_pairs(n, pair.entry, z)
        # what got no weight, now and before, leaves; the observed outcome stays
        n = 1
        for k in range(1, pair.n):
            if pair.q[k] == 0.0 and old[k] == 0.0:
                continue
            pair.entry[n], pair.q[n] = pair.entry[k], pair.q[k]
            pair.left[n], pair.right[n] = pair.left[k], pair.right[k]
            n += 1
        pair.n = <int32_t> n
        return 0

    # ---- multipliers ----

    def update(self, double step):
        """u += step (M q_f - q_v), step being eta / rho; and the residuals."""
        cdef Py_ssize_t f, k
        cdef int s
        cdef double r, square = 0.0, size = 0.0, total = 0.0, multipliers = 0.0
        cdef Variable* variable
        cdef Side* side
        with nogil:
            for f in range(self.model.n_pairs):
                self._fit_sides(f)
                for s in range(2):
                    variable = &self._variables[self.model._pairs[f, s]]
                    side = &self._pairs[f].sides[s]
                    for k in range(variable.n):
                        r = side.marginal[k] - variable.q[k]
                        side.u[k] += step * r
                        variable.total[k] += step * r
                        square += r * r
                        total += fabs(r)
                        size += variable.q[k] ** 2
                        multipliers += side.u[k] ** 2
        m = max(self.model.n_pairs, 1)
        self.infeasibility, self.residual_square = total / (4 * m), square
        self.primal_residual = (square / size) ** 0.5 if size else 0.0
        self.dual_residual = (self._moved / multipliers) ** 0.5 if multipliers else 0.0

    def set_rho(self, double rho):
        """Another weight of the quadratic terms, with the same multipliers rho u."""
        cdef Py_ssize_t f, k
        cdef int s
        cdef double scale = self.rho / rho, change
        cdef Variable* variable
        cdef Side* side
        with nogil:
            for f in range(self.model.n_pairs):
                for s in range(2):
                    variable = &self._variables[self.model._pairs[f, s]]
                    side = &self._pairs[f].sides[s]
                    for k in range(min(side.room, variable.n)):
                        change = (scale - 1.0) * side.u[k]
                        side.u[k] += change
                        variable.total[k] += change
        self.rho = rho
