"""The k best labelings from max-marginals (best max-marginal first).

The labelings are divided into parts by constraints on single variables; the best
labeling of each part is known, and its max-marginals tell where the next one is: the
part with the highest entry (variable, state) that its own best labeling does not have
is split. The labelings with that state become a part of their own, with that entry as
their best score; those without it stay (Yanover and Weiss, 2004; Algorithm 10 of
Pillutla et al., 2018). The max-marginals of what stays are computed only when what is
left of the old ones, an upper bound, comes out highest.

With an oracle for the best labeling as well, a part begins with the max-marginals of
the part that it was taken out of, upper bounds too, and its own are computed only when
these come out highest. Without one, a best labeling is read off its max-marginals where
each variable has one best state, by a margin that rounding cannot make. Where one has
not, it is given its best state, the first of several, and the max-marginals are
computed again.

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

# Max-marginals may be off by this part of the size of the scores. Where differences are
# smaller, best states may be of different labelings, which must not be mixed.
cdef double ROUNDING = 1e-9


cdef Py_ssize_t read_off(Py_ssize_t n_variables, const Py_ssize_t* first,
                         const double* table, double size, int32_t* labeling,
                         double* score) noexcept nogil:
    """Best states; the first variable whose best state is not clearly so, or -1."""
    cdef Py_ssize_t variable, entry, unclear = -1
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
        # The best entries of all variables are one score, but for rounding. The least
        # is -inf as soon as one is: then nothing is allowed.
        score[0] = best if variable == 0 or best < score[0] else score[0]
        # a variable with one allowed state is clear, whatever it scores
        if unclear < 0 and second > -INFINITY and (
                best - second <= ROUNDING * (size + fabs(best))):
            unclear = variable
    return unclear


cdef class Problem(BestFirst):
    """Scores, with oracles that are functions of the caller's.

    Parameters
    ----------
    oracles : Oracles
        The oracles, and `constrained`, scores where some entries are forbidden.
    first : ndarray of shape (n_variables + 1,), intp
        First entry of each variable.
    scores : ndarray of shape (n_entries,)
        The scores.
    size : float
        The largest score of each variable, summed up, to judge rounding by.
    arrays : tuple of ndarray of shape (n_entries,)
        Scratch of `break_ties`: which entries are allowed, uint8, and numbers.
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
    # Of each part: max-marginals, and whether entries are allowed.
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
        """Write scores where only some entries are allowed."""
        cdef Py_ssize_t entry
        # the caller's own -inf entries stay forbidden
        for entry in range(self.n_entries):
            self._constrained[entry] = self.scores[entry] if allowed[entry] else (
                -INFINITY)

    cdef void _narrow(self, unsigned char* allowed, Py_ssize_t variable,
                      Py_ssize_t state) noexcept nogil:
        """Allow a single state of a variable."""
        cdef Py_ssize_t begin = self.first[variable]
        memset(allowed + begin, 0, self.first[variable + 1] - begin)
        allowed[begin + state] = 1

    cdef void _find_next(self, Py_ssize_t part) noexcept nogil:
        """The highest entry that the best labeling does not have; the first of ties."""
        cdef const double* table = self._tables + part * self.n_entries
        cdef const unsigned char* allowed = self._allowed + part * self.n_entries
        cdef const int32_t* labeling = self.labeling(part)
        cdef Part* own = self._parts + part
        cdef Py_ssize_t variable, entry, begin
        # Every other labeling of the part has such an entry, and the best of them all
        # has the highest.
        own.next_score = -INFINITY
        for variable in range(self.n_variables):
            begin = self.first[variable]
            for entry in range(begin, self.first[variable + 1]):
                if (table[entry] > own.next_score and allowed[entry]
                        and entry - begin != labeling[variable]):
                    own.next_score = table[entry]
                    own.variable, own.state = variable, entry - begin

    # ---- parts ----

    cdef bint start(self) except -1 nogil:
        memset(self._allowed, 1, self.n_entries)
        return self._begin_part(0, -1)

    cdef bint _begin_part(self, Py_ssize_t part, Py_ssize_t larger) except -1 nogil:
        """Begin a part with its best labeling; False if nothing is allowed.

        `larger` is the part that it is taken out of, or -1.
        """
        cdef Part* new = self._parts + part
        cdef const unsigned char* allowed = self._allowed + part * self.n_entries
        cdef double* table = self._tables + part * self.n_entries
        cdef const double* bounds = self._tables + max(larger, 0) * self.n_entries
        cdef Py_ssize_t entry, unclear
        new.stale = self._has_solver
        self._constrain(allowed)
        if new.stale:
            new.score = self._max_product(self.labeling(part))
            # bounds: of all that is allowed, or of the part that was larger
            for entry in range(self.n_entries):
                table[entry] = new.score
                if larger >= 0 and bounds[entry] < new.score:
                    table[entry] = bounds[entry]
        else:
            # without an oracle for the best labeling, it is read off
            self._max_marginals(table)
            unclear = read_off(self.n_variables, self.first, table, self.size,
                               self.labeling(part), &new.score)
            if unclear >= 0 and new.score > -INFINITY:
                with gil:
                    self.break_ties(part, unclear)
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
        # Each labeling of the part is in one of the two: it has the state, or not. An
        # entry may promise a labeling that turns out to be forbidden.
        memcpy(self._allowed + other * n, self._allowed + part * n, n)
        self._narrow(self._allowed + other * n, variable, state)
        found = self._begin_part(other, part)
        # Its max-marginals hold for a larger part from here on; they are bounds.
        self._allowed[part * n + self.first[variable] + state] = 0
        self._parts[part].stale = True
        self._find_next(part)
        return found

    # ---- the oracles ----

    cdef int _max_marginals(self, double* out) except -1 nogil:
        """Write max-marginals of the constrained scores."""
        with gil:
            table = self.oracles.marginals()
            memcpy(out, const_doubles(table), self.n_entries * sizeof(double))
        return 0

    cdef double _max_product(self, int32_t* labeling) except? -1 nogil:
        """Find a best labeling of the constrained scores."""
        with gil:
            states, score = self.oracles.best()
            if states is not None:
                memcpy(labeling, const_int32s(states),
                       self.n_variables * sizeof(int32_t))
            return score

    cdef break_ties(self, Py_ssize_t part, Py_ssize_t unclear):
        """Fix unclear variables, one after the other, until the labeling is clear.

        Best states of several variables may belong to different best labelings. The
        part's own max-marginals stay as they are, without these constraints.
        """
        cdef int32_t* labeling = self.labeling(part)
        cdef double score = self._parts[part].score
        cdef unsigned char* narrow = self._narrowed
        cdef double* table = self._narrowed_table
        memcpy(narrow, self._allowed + part * self.n_entries, self.n_entries)
        # Each round fixes one more variable, so that there are few of them.
        while unclear >= 0:
            self._narrow(narrow, unclear, labeling[unclear])
            self._constrain(narrow)
            self._max_marginals(table)
            unclear = read_off(self.n_variables, self.first, table, self.size,
                               labeling, &score)
            if score == -INFINITY:
                raise ValueError(
                    "max_marginals contradicts itself: a state with a score of "
                    f"{self._parts[part].score} leaves no labeling")
            self._parts[part].score = score
