"""Greedy direction method of multipliers for large domains: Algorithm 1.

X. Huang et al., Greedy direction method of multiplier for MAP inference of large output
domain, AISTATS 2017, minimise the augmented Lagrangian (3) of the LP relaxation over
the marginals x_i of variables and y_f of edges, which are zero but for a few states:

    sum_i -theta_i' x_i + sum_f -theta_f' y_f
        + rho / 2 sum_(f,i) |M_if y_f - x_i + mu_if / rho|^2

A sweep adds to each y_f the entry of steepest descent (8), found by lists where the
multipliers are zero and one by one where they are not, and takes one projected gradient
step (6) whose Q is doubled until it is an upper bound; then the same for x_i, where the
projection (4) is exact; then the multipliers move by (9), with eta = rho. Vectors are
sparse, see `SlotState`.

The ends of an edge f = (u, v) are its sides 0 and 1. The gradient of the quadratic term
in M_if y_f is d_if = rho (M_if y_f - x_i) + mu_if, and that of the Lagrangian in y_f(j,
k) is d_uf(j) + d_vf(k) - theta_f(j, k): see `EntrySearch`.
"""

cimport cython
from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.inference.lp.core._problem cimport MAPProblem
from sksstruct.inference.lp.core._tables cimport TableSpec, entry_of
from sksstruct.inference.lp.gdmm._search cimport EntrySearch, Search
from sksstruct.inference.lp.gdmm._slots cimport (
    Active, End, SlotState, end_of, find_entry,
)
from sksstruct.inference.lp.gdmm._toplists cimport Lists

# A step of an edge that moves by less, squared, is the last one of an iteration.
cdef double STILL = 1e-18


@cython.final
cdef class MAPGDMMState(SlotState):
    """State of Algorithm 1 on a pairwise graph.

    Parameters
    ----------
    problem : MAPProblem
        The graph, without larger factors.
    lists : Lists
        Lists of its tables.
    rho : float
        Weight of the quadratic terms at first.

    Attributes
    ----------
    rho : float
        Its present value.
    primal_residual, dual_residual : float
        Norm of M y - x, and rho times that of the last change of x over all edges.
    looked_up : int
        Number of entries of tables that were read by searches.
    """

    cdef EntrySearch _search

    def __init__(self, MAPProblem problem, Lists lists, double rho):
        self._search = EntrySearch(problem, lists)

    @property
    def looked_up(self):
        return self._search.looked_up

    # ---- an edge ----

    cdef bint _update_edge(self, MAPProblem problem, Py_ssize_t edge) except -1 nogil:
        """Search (8) and step (6) for one edge; whether it moved."""
        cdef Active* active = &self._active[edge]
        cdef Search search
        cdef double moved
        self._find_gradient(problem, edge)
        self._search.run(self, problem, edge, &self._gradient[0, 0],
                         &self._gradient[1, 0], &search)
        # even if it is no better than what is active: then the step takes it back
        self._activate_entry(problem, edge, search.row, search.col)
        # a single entry is 1 whatever the gradient
        if active.count == 1:
            self.n_active += 1
            return False
        moved = self._descend(problem, edge)
        self._drop_zeros(active)
        self.n_active += active.count
        # a step that is too short to matter is no reason for another search
        return moved > STILL

    cdef void _find_gradient(self, MAPProblem problem, Py_ssize_t edge) noexcept nogil:
        """The d_if of both ends of an edge."""
        cdef Py_ssize_t side, variable, k
        cdef const End* end
        cdef const double* x
        cdef double* gradient
        for side in range(2):
            variable, gradient = problem.ends[edge, side], &self._gradient[side, 0]
            # all vectors of a variable have the same slots
            end, x = &self._ends[2 * edge + side], self._x[variable]
            for k in range(self._n_slots[variable]):
                gradient[k] = self.rho * (end.marginal[k] - x[k]) + end.mu[k]

    cdef int _activate_entry(self, MAPProblem problem, Py_ssize_t edge, Py_ssize_t row,
                             Py_ssize_t col) except -1 nogil:
        """Make a pair of states an active entry; the first one of an edge is 1."""
        cdef Active* active = &self._active[edge]
        cdef Py_ssize_t side, variable
        cdef Py_ssize_t state[2]
        cdef Py_ssize_t slot[2]
        state[0], state[1] = row, col
        for side in range(2):
            variable = problem.ends[edge, side]
            slot[side] = self._slot[problem.first[variable] + state[side]]
            if slot[side] < 0:
                slot[side] = self.add_slot(problem, variable, state[side])
                # x, y and mu are zero there, and so is the gradient
                self._gradient[side, slot[side]] = 0.0
        if find_entry(active, slot[0], slot[1]) >= 0:
            return 0
        # it enters with zero, so that the marginals of both ends stay what they are
        self.add_entry(active, slot[0], slot[1])
        # the marginals of an edge are a distribution from its first entry on
        if active.count == 1:
            active.value[0] = 1.0
            for side in range(2):
                self._ends[2 * edge + side].marginal[slot[side]] += 1.0
                self._gradient[side, slot[side]] += self.rho
        return 0

    cdef double _descend(self, MAPProblem problem, Py_ssize_t edge) noexcept nogil:
        """Move the marginals of an edge by a step (6), which is left in `_work`.

        Returns the squared norm of the step.
        """
        cdef Active* active = &self._active[edge]
        cdef double rho = self.rho, moved, change, bound = 2.0 * self.rho
        # the gradient is as it was before the first try
        while True:
            moved = self._propose(problem, edge, bound)
            self._shift(edge, 1.0)
            change = self._change(problem, edge)
            # stop where bound is above the curvature along the step, but for rounding;
            # 2 rho times the number of entries is above that of all steps, so that the
            # search ends in any case
            if (rho * change <= bound * moved * (1.0 + 1e-9)
                    or bound > 4.0 * rho * active.count):
                return moved
            self._shift(edge, -1.0)
            bound *= 2.0

    cdef double _propose(self, MAPProblem problem, Py_ssize_t edge,
                         double bound) noexcept nogil:
        """`_work` = projected gradient step with Q = bound; its squared norm."""
        cdef const TableSpec* table = &problem.specs[problem.table_of[edge]]
        cdef const Active* active = &self._active[edge]
        cdef const int32_t* rows = self._state[problem.ends[edge, 0]]
        cdef const int32_t* cols = self._state[problem.ends[edge, 1]]
        cdef const double* row_gradient = &self._gradient[0, 0]
        cdef const double* col_gradient = &self._gradient[1, 0]
        cdef Py_ssize_t k, first, second
        cdef double weight = problem.weight(edge), descent, threshold, moved = 0.0
        for k in range(active.count):
            first, second = active.slot[0][k], active.slot[1][k]
            descent = (weight * entry_of(table, rows[first], cols[second])
                       - row_gradient[first] - col_gradient[second])
            self._work[k] = active.value[k] + descent / bound
        # projected onto the simplex, and less what it was before
        threshold = self._threshold(&self._work[0], active.count)
        for k in range(active.count):
            descent = self._work[k] - threshold
            self._work[k] = (descent if descent > 0.0 else 0.0) - active.value[k]
            moved += self._work[k] * self._work[k]
        return moved

    cdef void _shift(self, Py_ssize_t edge, double sign) noexcept nogil:
        """Add the step in `_work` to the marginals M y of both ends, or take it back.
        """
        cdef const Active* active = &self._active[edge]
        cdef double* first = self._ends[2 * edge].marginal
        cdef double* second = self._ends[2 * edge + 1].marginal
        cdef Py_ssize_t k
        for k in range(active.count):
            # several entries may share a slot, so that these are sums
            first[active.slot[0][k]] += sign * self._work[k]
            second[active.slot[1][k]] += sign * self._work[k]

    cdef double _change(self, MAPProblem problem, Py_ssize_t edge) noexcept nogil:
        """|M step|^2 for the step in `_work`, which M y has in it."""
        # without another array: step' M' (M step), where M y before is in the gradient
        cdef const Active* active = &self._active[edge]
        cdef const End* first = &self._ends[2 * edge]
        cdef const End* second = &self._ends[2 * edge + 1]
        cdef const double* first_x = self._x[problem.ends[edge, 0]]
        cdef const double* second_x = self._x[problem.ends[edge, 1]]
        cdef Py_ssize_t k, i, j
        cdef double rho = self.rho, change, total = 0.0
        for k in range(active.count):
            # M y + M step, which is in the marginals, less M y = (d - mu) / rho + x
            i, j = active.slot[0][k], active.slot[1][k]
            change = (first.marginal[i] - (self._gradient[0, i] - first.mu[i]) / rho
                      - first_x[i])
            change += (second.marginal[j] - (self._gradient[1, j] - second.mu[j]) / rho
                       - second_x[j])
            total += self._work[k] * change
        return total

    cdef void _drop_zeros(self, Active* active) noexcept nogil:
        """Add the step in `_work` to y_f; what falls to zero is no longer active."""
        cdef Py_ssize_t i, n_left = 0
        # their marginals have the step already; their order does not matter
        for i in range(active.count):
            active.value[i] += self._work[i]
            if active.value[i] > 0.0:
                active.slot[0][n_left] = active.slot[0][i]
                active.slot[1][n_left] = active.slot[1][i]
                active.value[n_left] = active.value[i]
                n_left += 1
        active.count = n_left

    cdef double _threshold(self, const double* values, Py_ssize_t n) noexcept nogil:
        """tau such that the sum of max(0, values - tau) is 1."""
        # By insertion, as the values are few. `threshold_by_partition` of the
        # projections sums them up in another order, and so its results differ in the
        # last digit.
        cdef double* ordered = &self._sorted[0]
        cdef Py_ssize_t i, k
        cdef double value, total = 0.0, threshold = 0.0
        # (a copy, since the step needs the values where they are)
        for i in range(n):
            value = values[i]
            k = i
            while k and ordered[k - 1] < value:
                ordered[k] = ordered[k - 1]
                k -= 1
            ordered[k] = value
        # the largest values that are all above the threshold of themselves
        for i in range(n):
            total += ordered[i]
            if not ordered[i] > (total - 1.0) / (i + 1):
                break
            threshold = (total - 1.0) / (i + 1)
        return threshold

    # ---- a variable ----

    cdef int _update_variable(self, MAPProblem problem, Py_ssize_t variable,
                              bint multipliers) except -1 nogil:
        """Search (7), projection (4) and multipliers (9) for one variable."""
        cdef Py_ssize_t degree = (problem.adj_first[variable + 1]
                                  - problem.adj_first[variable])
        # without edges there is no mean to project, and the best state is right
        if degree == 0:
            return 0
        self._activate_state(problem, variable, degree)
        self._project(problem, variable, degree)
        self._update_multipliers(problem, variable, multipliers)
        return 0

    cdef int _activate_state(self, MAPProblem problem, Py_ssize_t variable,
                             Py_ssize_t degree) except -1 nogil:
        """Search (7): a slot for the best state without, if it would be positive."""
        # outside of the slots the gradient is -theta_i: the best is the next by score
        cdef Py_ssize_t first = problem.first[variable], n = problem.states[variable]
        cdef Py_ssize_t state, rank = self._next[variable]
        while rank < n and self._slot[first + self._by_score[first + rank]] >= 0:
            rank += 1
        # slots are never given up, so that the next search begins here
        self._next[variable] = rank
        if rank == n:
            return 0
        state = self._by_score[first + rank]
        if (problem.unary[first + state] / (self.rho * degree)
                > self._average(problem, variable, degree)):
            self.add_slot(problem, variable, state)
        return 0

    cdef void _project(self, MAPProblem problem, Py_ssize_t variable,
                       Py_ssize_t degree) noexcept nogil:
        """Projection (4): x_i, and what it adds to the dual residual."""
        # again: the slot that the search has made may be one more
        cdef double threshold = self._average(problem, variable, degree)
        cdef double* x = self._x[variable]
        cdef Py_ssize_t k
        cdef double value, moved = 0.0
        # slots stay where x is zero: the state is likely to come back
        for k in range(self._n_slots[variable]):
            value = self._work[k] - threshold
            value = value if value > 0.0 else 0.0
            moved += (value - x[k]) * (value - x[k])
            x[k] = value
        self.dual_residual += self.rho * self.rho * degree * moved

    cdef double _average(self, MAPProblem problem, Py_ssize_t variable,
                         Py_ssize_t degree) noexcept nogil:
        """`_work` = what (4) projects, the mean over edges; the threshold of that."""
        cdef Py_ssize_t i, k, n = self._n_slots[variable]
        cdef const int32_t* state = self._state[variable]
        cdef const End* end
        # edge by edge, as the vectors of an edge are contiguous
        for k in range(n):
            self._work[k] = problem.unary[problem.first[variable] + state[k]] / self.rho
        for i in range(problem.adj_first[variable], problem.adj_first[variable + 1]):
            end = end_of(self, problem, problem.adj_edge[i], variable)
            for k in range(n):
                self._work[k] += end.marginal[k] + end.mu[k] / self.rho
        for k in range(n):
            self._work[k] /= degree
        return self._threshold(&self._work[0], n)

    cdef void _update_multipliers(self, MAPProblem problem, Py_ssize_t variable,
                                  bint multipliers) noexcept nogil:
        """Multipliers (9), if they move at all, and the primal residual."""
        cdef const double* x = self._x[variable]
        cdef Py_ssize_t i, k
        cdef End* end
        cdef double difference
        for i in range(problem.adj_first[variable], problem.adj_first[variable + 1]):
            end = end_of(self, problem, problem.adj_edge[i], variable)
            for k in range(self._n_slots[variable]):
                difference = end.marginal[k] - x[k]
                # squared here; the sweep takes the root of the sum
                self.primal_residual += difference * difference
                if multipliers:
                    end.mu[k] += self.rho * difference

    # ---- sweeps and values ----

    def sweep(self, Py_ssize_t steps=1, bint multipliers=True):
        """Update all edges, then all variables with their multipliers.

        Parameters
        ----------
        steps : int, default=1
            Largest number of searches and steps of each edge.
        multipliers : bool, default=True
            Whether the multipliers move as well.
        """
        cdef MAPProblem problem = self.problem
        cdef Py_ssize_t edge, variable, _k
        with nogil:
            self.primal_residual = self.dual_residual = 0.0
            self.n_active = 0
            for edge in range(problem.n_edges):
                if problem.late(64.0 + problem.states[problem.ends[edge, 0]]
                                + problem.states[problem.ends[edge, 1]]):
                    break
                # until it does not move any more, or for so many steps
                for _k in range(steps):
                    if not self._update_edge(problem, edge):
                        break
            # all edges are done by now, so that their marginals are final
            for variable in range(problem.n_variables):
                self._update_variable(problem, variable, multipliers)
            self.primal_residual = self.primal_residual ** 0.5
            self.dual_residual = self.dual_residual ** 0.5

    def bound(self):
        """Upper bound of all scores: the Lagrangian's maximum at the multipliers.

        Returns
        -------
        bound : float
            sum_i max(theta_i + sum_f mu_if) + sum_f max(theta_f - M' mu_f).
        """
        cdef MAPProblem problem = self.problem
        cdef Py_ssize_t variable, edge
        cdef double total = 0.0
        cdef Search search
        with nogil:
            for variable in range(problem.n_variables):
                total += self._best_state(problem, variable)
            for edge in range(problem.n_edges):
                if problem.late(64.0 + problem.states[problem.ends[edge, 0]]
                                + problem.states[problem.ends[edge, 1]]):
                    total = INFINITY
                    break
                # with the multipliers in the place of gradients
                self._search.run(self, problem, edge, self._ends[2 * edge].mu,
                                 self._ends[2 * edge + 1].mu, &search)
                total += search.best
        return total

    cdef double _best_state(self, MAPProblem problem,
                            Py_ssize_t variable) noexcept nogil:
        """Largest theta_i + sum_f mu_if of a variable."""
        cdef const double* unary = &problem.unary[problem.first[variable]]
        cdef const int32_t* slot = &self._slot[problem.first[variable]]
        cdef const int32_t* by_score = &self._by_score[problem.first[variable]]
        cdef Py_ssize_t i, k
        cdef double score, best = -INFINITY
        # states with slots one by one, as each has multipliers at every edge
        for k in range(self._n_slots[variable]):
            score = unary[self._state[variable][k]]
            for i in range(problem.adj_first[variable],
                           problem.adj_first[variable + 1]):
                score += end_of(self, problem, problem.adj_edge[i], variable).mu[k]
            if score > best:
                best = score
        # of those without multipliers the first by score
        for k in range(problem.states[variable]):
            if slot[by_score[k]] < 0:
                return max(best, unary[by_score[k]])
        return best

    def lagrangian(self):
        """The augmented Lagrangian (3), less its terms in the multipliers alone.

        Returns
        -------
        value : float
            -value() + sum mu' (M y - x) + rho / 2 sum |M y - x|^2.
        """
        cdef MAPProblem problem = self.problem
        cdef Py_ssize_t edge, side, variable, k
        cdef End* end
        cdef double difference, total = -self.value()
        # for tests: the blocks of a sweep have to lower it
        for edge in range(problem.n_edges):
            for side in range(2):
                variable = problem.ends[edge, side]
                end = &self._ends[2 * edge + side]
                for k in range(self._n_slots[variable]):
                    difference = end.marginal[k] - self._x[variable][k]
                    total += (end.mu[k] * difference
                              + 0.5 * self.rho * difference * difference)
        return total

    def residual(self):
        """Violation of the constraints and change of the last sweep.

        Returns
        -------
        residual : float
            The larger of the two residuals, relative to the number of edges' ends.
        """
        cdef double scale = max(1.0, 2.0 * self.problem.n_edges) ** 0.5
        return max(self.primal_residual, self.dual_residual) / scale
