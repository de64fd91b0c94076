"""Greedy direction method of multipliers for many binary factors: Algorithm 2, kernel.

X. Huang et al. (2017), Section 3.3. With binary variables the score of an edge is c_f
y_f(1, 1), after the other terms of its table were added to the scores of its ends. The
augmented Lagrangian is

    sum_i -c_i x_i + sum_f -c_f y_f(1, 1)
        + sum_(f,i) mu_if (y_if - x_i) + rho / 2 (y_if - x_i)^2

with x_i = x_i(1) and y_if = y_f(x_i = 1), under (12). Variables and edges are inactive
while they are zero: inactive edges are consistent and have no multipliers. Each
iteration activates the variables of steepest descent (10), all edges between active
variables, and the edges with the largest c_f > 0 (11), which are sorted as far as they
are read. The problem of one edge is solved exactly (Martins et al., AD3, JMLR 16, 2015,
Proposition 5.1 and its sequel, for c_f >= 0; for c_f < 0 after a flip of one variable),
or by the step (6) over its four entries. The paper has constraints for both states,
which is equivalent with half of rho and half of the multipliers; then |M|^2 = 4 is
twice rho.
"""

from libc.stdint cimport int8_t, int32_t

from sksstruct.inference.map.core._problem cimport Problem, other_end
from sksstruct.projections._simplex cimport threshold_by_dropping
from sksstruct.utils._pointers cimport doubles, int8s, int32s

# A flip of a variable must raise the score by more than this, so that rounding errors
# cannot make flips go on forever.
cdef double NEGLIGIBLE = 1e-12

# A number for each end of an edge.
ctypedef double[2] Pair


cdef class BinaryState:
    """Kernels of Algorithm 2 of the paper, on the arrays of `MAPBinaryGDMMState`."""

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
    cdef int32_t* _degree               # number of active edges of each variable
    # of each active edge f: its index in the graph, y_if and mu_if at both ends, and
    # y_f(1, 1)
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
        """Point to new arrays of active edges, which have the same edges and more room.
        """
        self._owned_edges, self._edges = edges, int32s(edges.number)
        self._y, self._mu = <Pair*>doubles(edges.y), <Pair*>doubles(edges.mu)
        self._joint = doubles(edges.joint)

    def reduce(self):
        """Compute all c_i and c_f; activate variables with c_i > 0, and set x_i = 1."""
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

    # ---- steps 1, 2 and 4: activation ----

    def activate(self, Py_ssize_t variable):
        """Mark a variable and its edges to active variables active; return these edges.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t i, edge
        # edges between active variables are always active
        cdef list new_edges = []
        self._is_active[variable] = 1
        self.n_variables += 1
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            edge = problem.in_factor[i]
            if (self._is_active[other_end(problem, edge, variable)]
                    and not self._edge_is_active[edge]):
                new_edges.append(edge)
                self._edge_is_active[edge] = 1
        return new_edges

    def add_edges(self, list new_edges):
        """Append edges to the arrays of active edges, which have room."""
        cdef Problem problem = self.problem
        cdef Py_ssize_t edge, side, k
        for edge in new_edges:
            k = self.n_active
            self._edges[k] = edge
            # y_if = x_i and mu_if = 0: a new edge violates no constraint
            for side in range(2):
                self._y[k][side] = self._x[problem.ends[edge][side]]
                self._mu[k][side] = 0.0
                self._degree[problem.ends[edge][side]] += 1
            # smallest joint marginal that is consistent with the marginals of both ends
            self._joint[k] = max(0.0, self._y[k][0] + self._y[k][1] - 1.0)
            self.n_active += 1

    def sum_over_edges(self):
        """Compute `_sum` of each variable: its descent (10) where x_i is zero."""
        with nogil:
            self._sum_over_edges(self.problem)

    cdef void _sum_over_edges(self, Problem problem) noexcept nogil:
        """`_sum` = c_i + sum_f mu_if + rho y_if, over a variable's active edges f."""
        cdef Py_ssize_t variable, k, side, end
        for variable in range(problem.n_variables):
            self._sum[variable] = self._unary[variable]
        # this loop is over active edges, and not over the edges of each variable,
        # because most edges are inactive
        for k in range(self.n_active):
            for side in range(2):
                end = problem.ends[self._edges[k]][side]
                self._sum[end] += self._mu[k][side] + self.rho * self._y[k][side]

    # ---- steps 3, 5 and 6: descent and multipliers ----

    def iterate(self):
        """Update active variables, active edges and multipliers: steps 3, 5 and 6."""
        with nogil:
            self._sum_over_edges(self.problem)
            self._update_variables(self.problem)
            self._update_edges(self.problem)

    cdef void _update_variables(self, Problem problem) noexcept nogil:
        """Step 3: minimize the augmented Lagrangian over each active x_i.

        Computes the dual residual, too.
        """
        cdef Py_ssize_t variable
        cdef double x, degree, total = 0.0
        # x_i of inactive variables stays zero
        for variable in range(problem.n_variables):
            if not self._is_active[variable]:
                continue
            # The minimum is `_sum` / (rho degree), clipped to [0, 1]. Without active
            # edges, the variable's term of the Lagrangian is -c_i x_i.
            degree = self._degree[variable]
            if degree:
                x = min(1.0, max(0.0, self._sum[variable] / (self.rho * degree)))
            else:
                x = 1.0 if self._unary[variable] > 0.0 else 0.0
            total += degree * (x - self._x[variable]) * (x - self._x[variable])
            self._x[variable] = x
        self.dual_residual = self.rho * total ** 0.5

    cdef void _update_edges(self, Problem problem) noexcept nogil:
        """Steps 5 and 6: update y_f and mu_if of each active edge.

        Computes the primal residual, too.
        """
        cdef Py_ssize_t k, side, edge
        cdef double rho = self.rho, total = 0.0
        cdef double target[2]
        cdef double x[2]
        for k in range(self.n_active):
            edge = self._edges[k]
            for side in range(2):
                x[side] = self._x[problem.ends[edge][side]]
                target[side] = x[side] - self._mu[k][side] / rho
            # the Lagrangian is divided by rho, so that its quadratic terms have the
            # weight 1 / 2 that `solve_edge` and `move_edge` assume
            if self._exact:
                self._joint[k] = solve_edge(target[0], target[1],
                                            self._pair[edge] / rho,
                                            &self._y[k][0], &self._y[k][1])
            else:
                move_edge(target[0], target[1], self._pair[edge] / rho,
                          &self._y[k][0], &self._y[k][1], &self._joint[k])
            # (9): add eta rho (y_if - x_i) to mu_if
            for side in range(2):
                x[side] = self._y[k][side] - x[side]
                self._mu[k][side] += self._eta * rho * x[side]
            total += x[0] * x[0] + x[1] * x[1]
        self.primal_residual = total ** 0.5

    # ---- values and labelings ----

    def bound(self):
        """Return an upper bound on the scores of all labelings, from the multipliers.

        Returns
        -------
        bound : float
            sum_i max(0, c_i + sum_f mu_if) + sum_f max(0, -mu_u, -mu_v, c_f - mu_u -
            mu_v). Multipliers of inactive edges are those of `_cover_attraction`.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t k, edge, variable
        cdef double total = self.constant, first, second
        with nogil:
            for variable in range(problem.n_variables):
                self._sum[variable] = self._unary[variable]
            for k in range(self.n_active):
                edge = self._edges[k]
                # maximum over the four joint states of the edge's variables: both off,
                # one of them on, both on
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
        """Choose multipliers of inactive edges; return the edges' terms in the bound.

        With multipliers mu_u, mu_v >= 0, mu_u + mu_v <= c_f, an inactive edge adds c_f
        - mu_u - mu_v to the bound. If `_sum` of an end is negative, a multiplier of up
        to -`_sum` at this end does not raise the end's term in the bound. On return
        `_sum` contains the multipliers, which are stored nowhere else.
        """
        cdef Py_ssize_t edge, side, end
        cdef double total = 0.0, uncovered, multiplier
        for edge in range(problem.n_edges):
            uncovered = self._pair[edge]
            if self._edge_is_active[edge] or uncovered <= 0.0:
                continue
            for side in range(2):
                end = problem.ends[edge][side]
                multiplier = min(uncovered, max(0.0, -self._sum[end]))
                self._sum[end] += multiplier
                uncovered -= multiplier
            total += uncovered
        return total

    def flip(self, labeling, gains):
        """Flip the variable that raises the score most, until no flip raises the score.

        `gains` contains c_i, the gain of switching on variable i if its neighbors are
        off. On return, `gains` has the gain given the final states of the neighbors.
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
            # each flip raises the score, so that no labeling is visited twice
            while True:
                best = _best_flip(problem.n_variables, states, field)
                if best < 0:
                    break
                self._flip(problem, states, field, best)

    cdef void _flip(self, Problem problem, int32_t* states, double* field,
                    Py_ssize_t variable) noexcept nogil:
        """Flip a variable, and update the gains of its neighbors."""
        cdef Py_ssize_t i, edge
        # the gain of switching on a neighbor contains c_f if this variable is on
        cdef double sign = -1.0 if states[variable] else 1.0
        states[variable] = 1 - states[variable]
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            edge = problem.in_factor[i]
            field[other_end(problem, edge, variable)] += sign * self._pair[edge]


cdef Py_ssize_t _best_flip(Py_ssize_t n, const int32_t* states,
                           const double* field) noexcept nogil:
    """Return the variable whose flip raises the score most; -1 if no flip raises it."""
    cdef Py_ssize_t variable, best = -1
    cdef double gain, top = NEGLIGIBLE
    # switching a variable off gains the negative of switching it on
    for variable in range(n):
        gain = -field[variable] if states[variable] else field[variable]
        if gain > top:
            top, best = gain, variable
    return best


cdef double solve_edge(double a, double b, double c, double* first,
                       double* second) noexcept nogil:
    """Minimize (u - a)^2 / 2 + (v - b)^2 / 2 - c y(1, 1); return y(1, 1).

    u, v and y(1, 1) are marginals of an edge: P(x_u = 1), P(x_v = 1) and P(x_u = x_v =
    1). u and v are written to `first` and `second`.
    """
    cdef double flipped, joint
    if c < 0.0:
        # With v' = 1 - v and y' = u - y, the problem is the same with -c > 0 for c, and
        # with a + c for a.
        joint = solve_edge(a + c, 1.0 - b, -c, first, &flipped)
        second[0] = 1.0 - flipped
        return max(0.0, first[0] - joint)
    # y(1, 1) is the smaller of u and v. c raises the smaller one, at most up to the
    # larger; from there u and v rise together.
    if a > b + c:
        first[0], second[0] = a, b + c
    elif b > a + c:
        first[0], second[0] = a + c, b
    else:
        first[0] = second[0] = 0.5 * (a + b + c)
    # clipping to [0, 1] can come last, because it keeps the order of u and v
    first[0] = min(1.0, max(0.0, first[0]))
    second[0] = min(1.0, max(0.0, second[0]))
    return min(first[0], second[0])


cdef void move_edge(double a, double b, double c, double* first, double* second,
                    double* joint) noexcept nogil:
    """Take one projected gradient step (6), Q = 2, in the problem of `solve_edge`.

    `entry` has y(0, 0), y(0, 1), y(1, 0) and y(1, 1).
    """
    cdef double difference_u = first[0] - a, difference_v = second[0] - b, threshold
    cdef double entry[4]
    cdef int k
    entry[3] = joint[0] - (difference_u + difference_v - c) / 2.0
    entry[2] = first[0] - joint[0] - difference_u / 2.0
    entry[1] = second[0] - joint[0] - difference_v / 2.0
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
