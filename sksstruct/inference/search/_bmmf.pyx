"""The k best labelings from max-marginals (best max-marginal first).

The set of labelings is divided into parts by constraints on single variables. The best
labeling of each part is known, and max-marginals locate the second best: the part with
the highest max-marginal of an entry (variable, state) outside its best labeling is
split. The labelings with that state form a new part, whose best score is that
max-marginal; all other labelings stay (Yanover and Weiss, 2004; Algorithm 10 of
Pillutla et al., 2018). The old max-marginals are upper bounds for the part that stays;
max-marginals are computed again only when such a bound is the highest.

With an oracle for the best labeling, a new part begins with the max-marginals of the
larger part, which are upper bounds, too, and are computed only when such a bound is the
highest. Without this oracle, a best labeling is read from the max-marginals, if the
best state of each variable is better than all others by a margin above rounding. The
first variable without such a state is fixed to its first best state, and max-marginals
are computed again.

An entry is a state of a variable as one number: variable v has the entries
first[v] <= entry < first[v + 1].
"""

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from sksstruct.inference.search._best_first cimport BestFirst, Part
from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport (
    const_doubles, const_int32s, const_intps, doubles, uint8s,
)

# Relative error of max-marginals. If the max-marginals of two states differ by less,
# the states may belong to different best labelings, which must not be mixed.
cdef double ROUNDING = 1e-9


cdef Py_ssize_t read_off(Py_ssize_t n_variables, const Py_ssize_t* first,
                         const double* table, double size, int32_t* labeling,
                         double* score) noexcept nogil:
    """Write the state of highest max-marginal of each variable to `labeling`.

    Returns the first variable whose two highest max-marginals are equal up to rounding,
    or -1 if there is none.
    """
    cdef Py_ssize_t variable, entry, unclear_variable = -1
    cdef double best, second
    score[0] = -INFINITY
    for variable in range(n_variables):
        best = second = -INFINITY
        labeling[variable] = 0
        for entry in range(first[variable], first[variable + 1]):
            if table[entry] > best:
                best, second = table[entry], best
                labeling[variable] = <int32_t> (entry - first[variable])
            elif table[entry] > second:
                second = table[entry]
        # The highest max-marginal of each variable is the score of the best labeling,
        # up to rounding. `score` is the least of them: -inf if one of them is -inf, in
        # which case every labeling is forbidden.
        score[0] = best if variable == 0 or best < score[0] else score[0]
        # a variable with one allowed state has no ties
        if unclear_variable < 0 and second > -INFINITY and (
                best - second <= ROUNDING * (size + fabs(best))):
            unclear_variable = variable
    return unclear_variable


cdef class Problem(BestFirst):
    """Search for the k best labelings, with oracles that are functions of the caller.

    Parameters
    ----------
    oracles : Oracles
        The oracles, and `constrained`, the scores under the constraints of a part.
    first : ndarray of shape (n_variables + 1,), intp
        Index of the first entry of each variable.
    scores : ndarray of shape (n_entries,)
        Score of each entry (variable, state).
    size : float
        Sum over variables of the largest absolute score: scale of rounding errors.
    arrays : tuple of ndarray of shape (n_entries,)
        Scratch of `break_ties`: whether entries are allowed, uint8, and max-marginals.
    """

    cdef object oracles, _owned
    cdef bint _has_solver
    cdef double size
    cdef Py_ssize_t n_entries
    cdef const Py_ssize_t* first
    cdef const double* scores
    cdef double* _constrained
    cdef unsigned char* _narrowed
    cdef double* _narrowed_table
    # (n_parts, n_entries): max-marginal of each entry (variable, state) in each part,
    # or an upper bound on it; and whether the part allows the entry.
    cdef double* _tables
    cdef unsigned char* _allowed
    cdef Py_ssize_t _table_capacity, _allowed_capacity

    def __dealloc__(self):
        free(self._tables)
        free(self._allowed)

    def __cinit__(self, oracles, first, scores, double size, tuple arrays):
        self.oracles, self.size, self._owned = oracles, size, (first, scores, arrays)
        self._has_solver = oracles.solver is not None
        self.n_variables, self.n_entries = len(first) - 1, len(scores)
        self.first, self.scores = const_intps(first), const_doubles(scores)
        self._constrained = doubles(oracles.constrained)
        self._narrowed, self._narrowed_table = uint8s(arrays[0]), doubles(arrays[1])

    def value(self, Py_ssize_t rank):
        """Return the score of the labeling of a rank."""
        return self.score(rank)

    # ---- memory ----

    cdef int reserve_part(self, Py_ssize_t part) except -1 nogil:
        BestFirst.reserve_part(self, part)
        reserve(<void**> &self._tables, &self._table_capacity,
                (part + 1) * self.n_entries, sizeof(double))
        reserve(<void**> &self._allowed, &self._allowed_capacity,
                (part + 1) * self.n_entries, 1)
        return 0

    # ---- constraints ----

    cdef void _constrain(self, const unsigned char* allowed) noexcept nogil:
        """Write the scores to `_constrained`, with -inf for entries not allowed."""
        cdef Py_ssize_t entry
        # entries that are -inf in the caller's scores stay forbidden
        for entry in range(self.n_entries):
            self._constrained[entry] = self.scores[entry] if allowed[entry] else (
                -INFINITY)

    cdef void _narrow(self, unsigned char* allowed, Py_ssize_t variable,
                      Py_ssize_t state) noexcept nogil:
        """Allow only one state of a variable."""
        cdef Py_ssize_t begin = self.first[variable]
        memset(allowed + begin, 0, self.first[variable + 1] - begin)
        allowed[begin + state] = 1

    cdef void _find_next(self, Py_ssize_t part) noexcept nogil:
        """Find the highest max-marginal of an entry outside a part's best labeling.

        Of equal max-marginals the first counts.
        """
        cdef const double* table = self._tables + part * self.n_entries
        cdef const unsigned char* allowed = self._allowed + part * self.n_entries
        cdef const int32_t* labeling = self.labeling(part)
        cdef Part* current = self._parts + part
        cdef Py_ssize_t variable, entry, begin
        # Every labeling other than the best has an entry outside the best labeling. The
        # highest max-marginal of such an entry is the score of the second best.
        current.next_score = -INFINITY
        for variable in range(self.n_variables):
            begin = self.first[variable]
            for entry in range(begin, self.first[variable + 1]):
                if (table[entry] > current.next_score and allowed[entry]
                        and entry - begin != labeling[variable]):
                    current.next_score = table[entry]
                    current.variable, current.state = variable, entry - begin

    # ---- parts ----

    cdef bint start(self) except -1 nogil:
        memset(self._allowed, 1, self.n_entries)
        return self._begin_part(0, -1)

    cdef bint _begin_part(self, Py_ssize_t part, Py_ssize_t larger) except -1 nogil:
        """Begin a part with its best labeling; return False if no labeling is allowed.

        `larger` is the part from which this part was split, or -1.
        """
        cdef Part* new = self._parts + part
        cdef const unsigned char* allowed = self._allowed + part * self.n_entries
        cdef double* table = self._tables + part * self.n_entries
        cdef const double* bounds = self._tables + max(larger, 0) * self.n_entries
        cdef Py_ssize_t entry, unclear_variable
        new.stale = self._has_solver
        self._constrain(allowed)
        if new.stale:
            new.score = self._max_product(self.labeling(part))
            # bounds: the part's best score, or the larger part's max-marginal, if lower
            for entry in range(self.n_entries):
                table[entry] = new.score
                if larger >= 0 and bounds[entry] < new.score:
                    table[entry] = bounds[entry]
        else:
            # without a solver the best labeling is read from the max-marginals
            self._max_marginals(table)
            unclear_variable = read_off(self.n_variables, self.first, table, self.size,
                                        self.labeling(part), &new.score)
            if unclear_variable >= 0 and new.score > -INFINITY:
                with gil:
                    self.break_ties(part, unclear_variable)
        if new.score == -INFINITY:
            return False
        self._find_next(part)
        return True

    cdef int refresh(self, Py_ssize_t part, Py_ssize_t wanted) except -1 nogil:
        self._constrain(self._allowed + part * self.n_entries)
        self._max_marginals(self._tables + part * self.n_entries)
        self._parts[part].stale = False
        self._find_next(part)
        return 0

    cdef bint split(self, Py_ssize_t part, Py_ssize_t other) except -1 nogil:
        cdef Py_ssize_t n = self.n_entries
        cdef Py_ssize_t variable = self._parts[part].variable
        cdef Py_ssize_t state = self._parts[part].state
        cdef bint found
        # `other` gets the labelings with the state, and `part` keeps the labelings
        # without the state. If the caller's max-marginals are only upper bounds, all
        # labelings with the state may be forbidden.
        memcpy(self._allowed + other * n, self._allowed + part * n, n)
        self._narrow(self._allowed + other * n, variable, state)
        found = self._begin_part(other, part)
        # `part` loses labelings, so that its max-marginals become upper bounds
        self._allowed[part * n + self.first[variable] + state] = 0
        self._parts[part].stale = True
        self._find_next(part)
        return found

    # ---- the oracles ----

    cdef int _max_marginals(self, double* out) except -1 nogil:
        """Write the max-marginals of the constrained scores to `out`."""
        with gil:
            table = self.oracles.marginals()
            memcpy(out, const_doubles(table), self.n_entries * sizeof(double))
        return 0

    cdef double _max_product(self, int32_t* labeling) except? -1 nogil:
        """Find a best labeling of the constrained scores; return its score."""
        with gil:
            states, score = self.oracles.best()
            if states is not None:
                memcpy(labeling, const_int32s(states),
                       self.n_variables * sizeof(int32_t))
            return score

    cdef break_ties(self, Py_ssize_t part, Py_ssize_t unclear_variable):
        """Fix tied variables one by one until the best state of each is unique.

        If states tie, the best states of several variables may belong to different best
        labelings. The constraints that fix variables do not change the max-marginals
        stored for the part.
        """
        cdef int32_t* labeling = self.labeling(part)
        cdef double score = self._parts[part].score
        cdef unsigned char* narrow = self._narrowed
        cdef double* table = self._narrowed_table
        memcpy(narrow, self._allowed + part * self.n_entries, self.n_entries)
        # each round fixes one more variable: there are at most n_variables rounds
        while unclear_variable >= 0:
            self._narrow(narrow, unclear_variable, labeling[unclear_variable])
            self._constrain(narrow)
            self._max_marginals(table)
            unclear_variable = read_off(self.n_variables, self.first, table, self.size,
                                        labeling, &score)
            if score == -INFINITY:
                raise ValueError(
                    "max_marginals contradicts itself: a state with a score of "
                    f"{self._parts[part].score} leaves no labeling")
            self._parts[part].score = score
