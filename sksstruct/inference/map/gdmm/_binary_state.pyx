"""Greedy direction method of multipliers for many binary factors: Algorithm 2.

X. Huang et al. (2017), Section 3.3. With binary variables the scores of an edge are c_f
y_f(1, 1) plus what its ends score by themselves, and the augmented Lagrangian is

    sum_i -c_i x_i + sum_f -c_f y_f(1, 1)
        + sum_(f,i) mu_if (y_if - x_i) + rho / 2 (y_if - x_i)^2

with x_i = x_i(1) and y_if = y_f(x_i = 1), under (12). Variables and edges are left out
while they are zero: those are consistent and have no multipliers. Every iteration
activates the variables of steepest descent (10), all edges between active variables,
and the edges with the largest c_f > 0 (11), which come from a list that is sorted as
deep as it is read. The problem of one edge is solved exactly (Martins et al., AD3, JMLR
16, 2015, Proposition 5.1 and its sequel, for c_f >= 0; else one variable is flipped),
or by the step (6) over its four entries. The paper has the constraints of both states:
with half of rho and of the multipliers, that is the same. Then |M|^2 = 4 is twice rho.
"""

from libc.stdint cimport int8_t, int32_t

from sksstruct.inference.map.core._problem cimport Problem, other_end
from sksstruct.projections._simplex cimport threshold_by_dropping
from sksstruct.utils._pointers cimport doubles, int8s, int32s

# Flips have to gain more than this, so that rounding does not make them go on for ever.
cdef double NEGLIGIBLE = 1e-12

# Numbers of the two ends of an edge.
ctypedef double[2] Pair


cdef class BinaryState:
    """The kernels of Algorithm 2, in the arrays of `MAPBinaryGDMMState`."""

    cdef Problem problem
    cdef object _owned, _owned_edges
    cdef public double rho
    cdef double _eta
    cdef bint _exact
    cdef readonly double constant, primal_residual, dual_residual
    cdef readonly Py_ssize_t n_active, n_variables
    cdef double* _unary
    cdef double* _pair
    cdef double* _x
    cdef double* _sum
    cdef int8_t* _is_active
    cdef int8_t* _edge_is_active
    cdef int32_t* _degree               # of each variable: active edges
    # the active edges: which, and their y_if, mu_if and y_f(1, 1)
    cdef int32_t* _edges
    cdef Pair* _y
    cdef Pair* _mu
    cdef double* _joint

    def __init__(self, Problem problem, double rho, double eta, bint exact, arrays):
        self.problem, self.rho, self._eta, self._exact = problem, rho, eta, exact
        self._owned = arrays
        self._unary, self._pair = doubles(arrays.unary), doubles(arrays.pair)
        self._x, self._sum = doubles(arrays.x), doubles(arrays.sum)
        self._is_active, self._degree = int8s(arrays.is_active), int32s(arrays.degree)
        self._edge_is_active = int8s(arrays.edge_is_active)

    def point_at(self, edges):
        """Use other arrays for the active edges, which have the same numbers so far."""
        self._owned_edges, self._edges = edges, int32s(edges.number)
        self._y, self._mu = <Pair*>doubles(edges.y), <Pair*>doubles(edges.mu)
        self._joint = doubles(edges.joint)

    def reduce(self):
        """Find the c_i and c_f, and the variables that are best at 1 without edges."""
        cdef Py_ssize_t variable
        with nogil:
            self._reduce(self.problem)
            for variable in range(self.problem.n_variables):
                if self._unary[variable] > 0.0:
                    self._is_active[variable] = 1
                    self._x[variable] = 1.0

    cdef void _reduce(self, Problem problem) noexcept nogil:
        """Write the scores as constant + sum_i c_i x_i + sum_f c_f x_u x_v."""
        cdef Py_ssize_t variable, edge, first, second
        cdef double both_off, second_on, first_on
        self.constant = 0.0
        for variable in range(problem.n_variables):
            self.constant += problem.unary[2 * variable]
            self._unary[variable] = (problem.unary[2 * variable + 1]
                                     - problem.unary[2 * variable])
        for edge in range(problem.n_edges):
            first, second = problem.ends[edge][0], problem.ends[edge][1]
            # a table of four entries is t00 + (t10 - t00) x_u + (t01 - t00) x_v
            # + (t11 + t00 - t01 - t10) x_u x_v
            both_off = problem.entry(edge, 0, 0)
            second_on = problem.entry(edge, 0, 1)
            first_on = problem.entry(edge, 1, 0)
            self.constant += both_off
            self._unary[first] += first_on - both_off
            self._unary[second] += second_on - both_off
            self._pair[edge] = (problem.entry(edge, 1, 1) + both_off - second_on
                                - first_on)

    # ---- steps 1, 2 and 4: what becomes active ----

    def activate(self, Py_ssize_t variable):
        """Activate a variable; its edges to active ones, which are to be added."""
        cdef Problem problem = self.problem
        cdef Py_ssize_t i, edge
        # so that an edge is left out only while one of its ends is
        cdef list found = []
        self._is_active[variable] = 1
        self.n_variables += 1
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            edge = problem.in_factor[i]
            if (self._is_active[other_end(problem, edge, variable)]
                    and not self._edge_is_active[edge]):
                found.append(edge)
                self._edge_is_active[edge] = 1
        return found

    def add_edges(self, list found):
        """Add edges to the active ones, among which there is room for them."""
        cdef Problem problem = self.problem
        cdef Py_ssize_t edge, side, k
        for edge in found:
            k = self.n_active
            self._edges[k] = edge
            # consistent with its ends, and without multipliers: nothing else changes
            for side in range(2):
                self._y[k][side] = self._x[problem.ends[edge][side]]
                self._mu[k][side] = 0.0
                self._degree[problem.ends[edge][side]] += 1
            # as near to zero as marginals of both ends allow
            self._joint[k] = max(0.0, self._y[k][0] + self._y[k][1] - 1.0)
            self.n_active += 1

    def sum_over_edges(self):
        """Sum up what the active edges of each variable say."""
        with nogil:
            self._sum_over_edges(self.problem)

    cdef void _sum_over_edges(self, Problem problem) noexcept nogil:
        """`_sum` = c_i + sum_f mu_if + rho y_if over the active edges of each variable.
        """
        cdef Py_ssize_t variable, k, side, end
        for variable in range(problem.n_variables):
            self._sum[variable] = self._unary[variable]
        # over active edges, not over those of each variable: most are left out
        for k in range(self.n_active):
            for side in range(2):
                end = problem.ends[self._edges[k]][side]
                self._sum[end] += self._mu[k][side] + self.rho * self._y[k][side]

    # ---- steps 3, 5 and 6: what is active moves ----

    def iterate(self):
        """Steps 3, 5 and 6: update active variables, active edges and multipliers."""
        with nogil:
            self._sum_over_edges(self.problem)
            self._update_variables(self.problem)
            self._update_edges(self.problem)

    cdef void _update_variables(self, Problem problem) noexcept nogil:
        """Step 3: the x_i, each by itself, and the dual residual."""
        cdef Py_ssize_t variable
        cdef double x, degree, total = 0.0
        # what is left out stays at zero
        for variable in range(problem.n_variables):
            if not self._is_active[variable]:
                continue
            # the mean of what its edges say; without edges the sign of its score
            # decides
            degree = self._degree[variable]
            if degree:
                x = min(1.0, max(0.0, self._sum[variable] / (self.rho * degree)))
            else:
                x = 1.0 if self._unary[variable] > 0.0 else 0.0
            total += degree * (x - self._x[variable]) * (x - self._x[variable])
            self._x[variable] = x
        self.dual_residual = self.rho * total ** 0.5

    cdef void _update_edges(self, Problem problem) noexcept nogil:
        """Steps 5 and 6: the y_f and mu_if of active edges, and the primal residual."""
        cdef Py_ssize_t k, side, edge
        cdef double rho = self.rho, total = 0.0
        cdef double target[2]
        cdef double x[2]
        for k in range(self.n_active):
            edge = self._edges[k]
            for side in range(2):
                x[side] = self._x[problem.ends[edge][side]]
                target[side] = x[side] - self._mu[k][side] / rho
            # divided by rho, the problem has quadratic terms of weight one half
            if self._exact:
                self._joint[k] = solve_edge(target[0], target[1],
                                            self._pair[edge] / rho,
                                            &self._y[k][0], &self._y[k][1])
            else:
                move_edge(target[0], target[1], self._pair[edge] / rho,
                          &self._y[k][0], &self._y[k][1], &self._joint[k])
            # (9): the step of the multipliers is the violation times eta
            for side in range(2):
                x[side] = self._y[k][side] - x[side]
                self._mu[k][side] += self._eta * rho * x[side]
            total += x[0] * x[0] + x[1] * x[1]
        self.primal_residual = total ** 0.5

    # ---- values and labelings ----

    def bound(self):
        """Return an upper bound on all scores, given the multipliers.

        Returns
        -------
        bound : float
            sum_i max(0, c_i + sum_f mu_if) + sum_f max(0, -mu_u, -mu_v, c_f - mu_u -
            mu_v). Edges that are left out have the multipliers of `_cover_attraction`.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t k, edge, variable
        cdef double total = self.constant, first, second
        with nogil:
            for variable in range(problem.n_variables):
                self._sum[variable] = self._unary[variable]
            for k in range(self.n_active):
                edge = self._edges[k]
                # its four entries: both off, one on, the other, and both on
                first, second = -self._mu[k][0], -self._mu[k][1]
                self._sum[problem.ends[edge][0]] -= first
                self._sum[problem.ends[edge][1]] -= second
                total += max(max(0.0, first),
                             max(second, self._pair[edge] + first + second))
            total += self._cover_attraction(problem)
            for variable in range(problem.n_variables):
                if self._sum[variable] > 0.0:
                    total += self._sum[variable]
        return total

    cdef double _cover_attraction(self, Problem problem) noexcept nogil:
        """Return what edges that are left out add to the bound, after their ends paid.

        With multipliers mu_u, mu_v >= 0 of sum <= c_f, such an edge adds c_f - mu_u -
        mu_v, and its ends nothing as long as they still lose by being on: which is the
        rule, as they are left out for it. No multiplier has to be stored for that.
        """
        cdef Py_ssize_t edge, side, end
        cdef double total = 0.0, rest, paid
        for edge in range(problem.n_edges):
            rest = self._pair[edge]
            if self._edge_is_active[edge] or rest <= 0.0:
                continue
            for side in range(2):
                end = problem.ends[edge][side]
                paid = min(rest, max(0.0, -self._sum[end]))
                self._sum[end] += paid
                rest -= paid
            total += rest
        return total

    def flip(self, labeling, gains):
        """Flip the variable with the largest gain until no flip gains.

        `gains` are those of turning each variable on, alone; flips keep them right.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t edge, side, best
        cdef int32_t* states = int32s(labeling)
        cdef double* field = doubles(gains)
        with nogil:
            for edge in range(problem.n_edges):
                for side in range(2):
                    if states[problem.ends[edge][side]]:
                        field[problem.ends[edge][1 - side]] += self._pair[edge]
            # each flip raises the score, so that no labeling comes twice
            while True:
                best = _best_flip(problem.n_variables, states, field)
                if best < 0:
                    break
                self._flip(problem, states, field, best)

    cdef void _flip(self, Problem problem, int32_t* states, double* field,
                    Py_ssize_t variable) noexcept nogil:
        """Flip a variable, and add that to the field of its neighbors."""
        cdef Py_ssize_t i, edge
        # with c_f x_u x_v, a neighbor gains or loses c_f by being on
        cdef double sign = -1.0 if states[variable] else 1.0
        states[variable] = 1 - states[variable]
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            edge = problem.in_factor[i]
            field[other_end(problem, edge, variable)] += sign * self._pair[edge]


cdef Py_ssize_t _best_flip(Py_ssize_t n, const int32_t* states,
                           const double* field) noexcept nogil:
    """The variable whose flip gains most; -1: none gains."""
    cdef Py_ssize_t variable, best = -1
    cdef double gain, top = NEGLIGIBLE
    # what a variable gains by being on it loses by being off
    for variable in range(n):
        gain = -field[variable] if states[variable] else field[variable]
        if gain > top:
            top, best = gain, variable
    return best


cdef double solve_edge(double a, double b, double c, double* first,
                       double* second) noexcept nogil:
    """Minimize (u - a)^2 / 2 + (v - b)^2 / 2 - c y(1, 1); u, v and y(1, 1).

    Over the marginals of an edge: u, v and y(1, 1) are P(x_u = 1), P(x_v = 1) and
    P(x_u = x_v = 1).
    """
    cdef double flipped, joint
    if c < 0.0:
        # with v flipped, y = u - y', so that a moves by c
        joint = solve_edge(a + c, 1.0 - b, -c, first, &flipped)
        second[0] = 1.0 - flipped
        return max(0.0, first[0] - joint)
    # y is the smaller of both, which c pulls up: to its own optimum, or to the other
    if a > b + c:
        first[0], second[0] = a, b + c
    elif b > a + c:
        first[0], second[0] = a + c, b
    else:
        first[0] = second[0] = 0.5 * (a + b + c)
    # a box is left for the last: clipping keeps which of both is the smaller
    first[0] = min(1.0, max(0.0, first[0]))
    second[0] = min(1.0, max(0.0, second[0]))
    return min(first[0], second[0])


cdef void move_edge(double a, double b, double c, double* first, double* second,
                    double* joint) noexcept nogil:
    """Take the step (6) in the problem of `solve_edge`, with Q = 2.

    The entries are y(0, 0), y(0, 1), y(1, 0) and y(1, 1).
    """
    cdef double at_first = first[0] - a, at_second = second[0] - b, threshold
    cdef double entry[4]
    cdef int k
    entry[3] = joint[0] - (at_first + at_second - c) / 2.0
    entry[2] = first[0] - joint[0] - at_first / 2.0
    entry[1] = second[0] - joint[0] - at_second / 2.0
    entry[0] = 1.0 - first[0] - second[0] + joint[0]
    threshold = threshold_by_dropping(4, entry)
    for k in range(4):
        entry[k] = max(0.0, entry[k] - threshold)
    first[0], second[0] = entry[2] + entry[3], entry[1] + entry[3]
    joint[0] = entry[3]


def edge_marginals(double a, double b, double c):
    """Minimize (u - a)^2 / 2 + (v - b)^2 / 2 - c y over the marginals of an edge.

    Parameters
    ----------
    a, b, c : float
        Targets of the marginals of the two ends, and the score of (1, 1).

    Returns
    -------
    u, v, y : float
        P(x_u = 1), P(x_v = 1), P(x_u = x_v = 1).
    """
    cdef double first, second
    cdef double joint = solve_edge(a, b, c, &first, &second)
    return first, second, joint
