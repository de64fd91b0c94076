from libc.stdint cimport int32_t

from sksstruct.inference.map.core._tables cimport Scratch, TableSpec, entry_of


# The two ends (variables) of an edge.
ctypedef int32_t[2] Pair


cdef class Problem:
    # namespace of the NumPy arrays that the pointers below point into
    cdef readonly object arrays
    # "higher" are factors of three or more variables
    cdef readonly Py_ssize_t n_variables, n_edges, n_higher, n_factors, max_states
    cdef readonly double penalty
    # of each variable: number of states, and offset of its states in flat vectors; and
    # flat vector of unary scores
    cdef const int32_t* states
    cdef const Py_ssize_t* first
    cdef double* unary
    # factors, edges before larger factors: the variables of factor f are
    # scope[scope_first[f]] to scope[scope_first[f + 1] - 1], and table_of[f] is the
    # table; edges also have two ends and a weight
    cdef const Py_ssize_t* scope_first
    cdef const int32_t* scope
    cdef const int32_t* table_of
    cdef const Pair* ends
    # NULL if all weights are 1
    cdef const double* weights
    # factors of each variable v (parallel edges are separate entries) and v's positions
    # in `scope`: edges from in_first[v] to in_larger[v], larger factors to in_first[v +
    # 1]
    cdef const Py_ssize_t* in_first
    cdef const Py_ssize_t* in_larger
    cdef const int32_t* in_factor
    cdef const int32_t* in_place
    # descriptions of the graph's tables; factors may share a table
    cdef TableSpec* specs
    cdef Py_ssize_t _n_tables
    # workspace of the current message: only one thread may use the problem
    cdef Scratch scratch
    # work until the clock is read again; time of the deadline; and time of the next
    # check for signals
    cdef double _credit, _deadline, _next_signals
    cdef readonly bint is_late

    cdef inline bint late(self, double work) except -1 nogil:
        """Count work, roughly in table entries; return whether the deadline has passed.

        Kernels that may take long call `late` from time to time, and stop if it is
        true. Pending signals, such as an interrupt, are handled here.
        """
        self._credit -= work
        return self.is_late if self._credit > 0.0 else self._look()

    cdef bint _look(self) except -1 nogil

    cdef inline double weight(self, Py_ssize_t edge) noexcept nogil:
        """Weight of an edge, 1 in a graph without weights."""
        return self.weights[edge] if self.weights != NULL else 1.0

    cdef inline double entry(self, Py_ssize_t edge, Py_ssize_t row,
                             Py_ssize_t col) noexcept nogil:
        """Score of an edge with its first end in state `row`, its second in `col`."""
        cdef double score = entry_of(&self.specs[self.table_of[edge]], row, col)
        return score * self.weights[edge] if self.weights != NULL else score

    cdef void add_states(self, Py_ssize_t edge, bint backward, Py_ssize_t state,
                         double* out) noexcept nogil
    cdef void message(self, Py_ssize_t edge, bint backward, const double* incoming,
                      double* out) noexcept nogil
    cdef double higher_entry(self, Py_ssize_t factor,
                             const int32_t* labeling) noexcept nogil

    cdef inline double entry_at(self, Py_ssize_t factor,
                                const int32_t* labeling) noexcept nogil:
        """Score of a factor of any arity at a labeling."""
        if factor < self.n_edges:
            return self.entry(factor, labeling[self.ends[factor][0]],
                              labeling[self.ends[factor][1]])
        return self.higher_entry(factor, labeling)


cdef inline Py_ssize_t other_end(Problem problem, Py_ssize_t edge,
                                 Py_ssize_t variable) noexcept nogil:
    """The end of an edge other than `variable`."""
    if problem.ends[edge][0] == variable:
        return problem.ends[edge][1]
    return problem.ends[edge][0]


cdef inline double entry_from(Problem problem, Py_ssize_t edge, Py_ssize_t variable,
                              Py_ssize_t state, Py_ssize_t other) noexcept nogil:
    """Score of an edge with `variable` in `state` and its other end in `other`."""
    if problem.ends[edge][0] == variable:
        return problem.entry(edge, state, other)
    return problem.entry(edge, other, state)


cdef inline Py_ssize_t arity_of(Problem problem, Py_ssize_t factor) noexcept nogil:
    """Number of variables of a factor."""
    return problem.scope_first[factor + 1] - problem.scope_first[factor]


cdef inline Py_ssize_t variable_at(Problem problem, Py_ssize_t factor,
                                   Py_ssize_t place) noexcept nogil:
    """Variable at a position of a factor's scope."""
    return problem.scope[problem.scope_first[factor] + place]


cdef inline bint next_states(Problem problem, Py_ssize_t first, Py_ssize_t n,
                             Py_ssize_t* states) noexcept nogil:
    """Advance n variables of a scope to the next states; return False after the last.

    The last variable changes fastest, as in tables.
    """
    cdef Py_ssize_t i
    for i in range(n - 1, -1, -1):
        states[i] += 1
        if states[i] < problem.states[problem.scope[first + i]]:
            return True
        states[i] = 0
    return False
