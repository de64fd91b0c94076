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

import numpy as np

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from sksstruct.utils._memory cimport reserve, resize

from sksstruct.inference.search._best_first cimport BestFirst, Part

from sksstruct.inference._checks import check_k, check_variables
from sksstruct.inference.search._best_first import found_by

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
    """Scores, with oracles that are functions of the caller's."""

    cdef object oracle, solver, rows, bounds
    cdef bint as_array
    # the largest score of each variable, summed up, to judge rounding by
    cdef double size
    cdef Py_ssize_t n_entries
    # (n_variables + 1,) and (n_entries,), and scores where some entries are forbidden
    cdef Py_ssize_t* first
    cdef double* scores
    cdef double* _constrained
    # Of each part: max-marginals, and whether entries are allowed.
    cdef double* _tables
    cdef unsigned char* _allowed
    cdef Py_ssize_t _table_capacity, _allowed_capacity

    def __dealloc__(self):
        free(self.first)
        free(self.scores)
        free(self._constrained)
        free(self._tables)
        free(self._allowed)

    def __init__(self, max_marginals, unary, max_product):
        cdef Py_ssize_t k
        cdef double[::1] flat
        self.oracle, self.solver = max_marginals, max_product
        self.rows = check_variables(unary)
        sizes = [len(row) for row in self.rows]
        # the oracle gets scores in the form that the caller has them in
        self.as_array = len(set(sizes)) == 1
        self.bounds = np.concatenate([[0], np.cumsum(sizes)])
        flat = scores = np.concatenate(self.rows)
        self.begin(len(sizes), len(scores))
        for k in range(self.n_variables + 1):
            self.first[k] = self.bounds[k]
        memcpy(self.scores, &flat[0], self.n_entries * sizeof(double))
        sizes = np.where(scores > -np.inf, np.abs(scores), 0.0)
        self.size = np.maximum.reduceat(sizes, self.bounds[:self.n_variables]).sum()

    # ---- memory ----

    cdef int begin(self, Py_ssize_t n_variables, Py_ssize_t n_entries) except -1 nogil:
        """Make room for the entries of the problem."""
        self.n_variables, self.n_entries = n_variables, n_entries
        resize(<void**> &self.first, (n_variables + 1) * sizeof(Py_ssize_t))
        resize(<void**> &self.scores, n_entries * sizeof(double))
        resize(<void**> &self._constrained, n_entries * sizeof(double))
        return 0

    cdef int reserve_part(self, Py_ssize_t part) except -1 nogil:
        BestFirst.reserve_part(self, part)
        reserve(<void**> &self._tables, &self._table_capacity,
                (part + 1) * self.n_entries, sizeof(double))
        reserve(<void**> &self._allowed, &self._allowed_capacity,
                (part + 1) * self.n_entries, 1)
        return 0

    # ---- constraints ----

    cdef const double* _constrain(self, const unsigned char* allowed) noexcept nogil:
        """Scores where only some entries are allowed."""
        cdef Py_ssize_t entry
        # the caller's own -inf entries stay forbidden
        for entry in range(self.n_entries):
            self._constrained[entry] = self.scores[entry] if allowed[entry] else (
                -INFINITY)
        return self._constrained

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
        new.stale = self.solver is not None
        if new.stale:
            new.score = self._max_product(self._constrain(allowed), self.labeling(part))
            # bounds: of all that is allowed, or of the part that was larger
            for entry in range(self.n_entries):
                table[entry] = new.score
                if larger >= 0 and bounds[entry] < new.score:
                    table[entry] = bounds[entry]
        else:
            # without an oracle for the best labeling, it is read off
            self._max_marginals(self._constrain(allowed), table)
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
        self._max_marginals(self._constrain(self._allowed + part * self.n_entries),
                            self._tables + part * self.n_entries)
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

    cdef shown(self, const double* scores):
        """Scores in the form of the caller's."""
        flat = np.array(<double[:self.n_entries]> <double*> scores)
        if self.as_array:
            return flat.reshape(self.n_variables, -1)
        return np.split(flat, self.bounds[1:self.n_variables])

    cdef int _max_marginals(self, const double* scores, double* out) except -1 nogil:
        with gil:
            self.call_oracle(scores, out)
        return 0

    cdef call_oracle(self, const double* scores, double* out):
        """Write max-marginals, checked."""
        cdef double[::1] checked
        given = self.shown(scores)
        table = self.oracle(given)
        # Anything may come out of a function of the caller's.
        if self.as_array and isinstance(table, np.ndarray):
            fits = table.shape == given.shape
        else:
            fits = len(table) == self.n_variables and all(
                np.shape(row) == np.shape(other)
                for row, other in zip(table, self.rows))
        if not fits:
            raise ValueError(
                "max_marginals must return one number for each state of each variable, "
                "in the form of unary")
        if self.as_array:
            table = np.array(table, dtype=np.float64).ravel()
        else:
            table = np.concatenate([np.asarray(row, dtype=np.float64) for row in table])
        if np.isnan(table).any():
            raise ValueError("max_marginals returned NaN")
        # The search would otherwise come to the same labeling from two parts.
        given = np.asarray(<double[:self.n_entries]> <double*> scores)
        if (table[given == -np.inf] > -np.inf).any():
            raise ValueError(
                "max_marginals gave a score to a state that its argument forbids")
        checked = table
        memcpy(out, &checked[0], self.n_entries * sizeof(double))

    cdef double _max_product(self, const double* scores,
                             int32_t* labeling) except? -1 nogil:
        with gil:
            return self.call_solver(scores, labeling)

    cdef double call_solver(self, const double* scores, int32_t* out) except? -1:
        """Find a best labeling, and check it."""
        cdef Py_ssize_t variable, state, begin
        labeling, score = self.solver(self.shown(scores))
        if not score < np.inf:
            raise ValueError(f"max_product returned the score {score}")
        if score == -np.inf:
            return -INFINITY
        if len(labeling) != self.n_variables:
            raise ValueError(
                f"max_product returned {len(labeling)} states for {self.n_variables} "
                "variables")
        for variable in range(self.n_variables):
            state, begin = labeling[variable], self.first[variable]
            # The search would otherwise come to a labeling of another part.
            if not (0 <= state < self.first[variable + 1] - begin
                    and scores[begin + state] > -INFINITY):
                raise ValueError(
                    f"max_product gave variable {variable} the state {state}, which "
                    "its argument does not have or forbids")
            out[variable] = <int32_t> state
        return score

    cdef break_ties(self, Py_ssize_t part, Py_ssize_t unclear):
        """Fix unclear variables, one after the other, until the labeling is clear.

        Best states of several variables may belong to different best labelings. The
        part's own max-marginals stay as they are, without these constraints.
        """
        cdef int32_t* labeling = self.labeling(part)
        cdef double score = self._parts[part].score
        cdef unsigned char[::1] narrow = np.empty(self.n_entries, dtype=np.uint8)
        cdef double[::1] table = np.empty(self.n_entries)
        memcpy(&narrow[0], self._allowed + part * self.n_entries, self.n_entries)
        # Each round fixes one more variable, so that there are few of them.
        while unclear >= 0:
            self._narrow(&narrow[0], unclear, labeling[unclear])
            self._max_marginals(self._constrain(&narrow[0]), &table[0])
            unclear = read_off(self.n_variables, self.first, &table[0], self.size,
                               labeling, &score)
            if score == -INFINITY:
                raise ValueError(
                    "max_marginals contradicts itself: a state with a score of "
                    f"{self._parts[part].score} leaves no labeling")
            self._parts[part].score = score


def bmmf(max_marginals, unary, k, *, max_product=None):
    """Find the k best labelings of any problem with an oracle for max-marginals.

    Parameters
    ----------
    max_marginals : callable
        ``max_marginals(unary)`` takes scores in the form of `unary`. It returns, in the
        same form, the score of the best labeling with each state of each variable.
        Entries of ``-inf`` in its argument forbid states.
    unary : ndarray of shape (p, n_states) or list of array-like of shape (n_states,)
        Scores of the states of each of p variables.
    k : int
        Number of labelings.
    max_product : callable, default=None
        ``max_product(unary)`` returns the best labeling and its score, or ``-inf`` if
        every labeling is forbidden. With it, `max_marginals` is called less often, and
        labelings with equal scores take no more time than others.

    Returns
    -------
    labelings : ndarray of shape (n, p), int32
        The n <= k best labelings, all different; fewer than k if fewer are allowed.
        The order of labelings with equal scores depends only on the oracles.
    scores : ndarray of shape (n,)
        Their scores, which do not increase.

    Raises
    ------
    ValueError
        If the scores or k are not valid, or the max-marginals are not in the form of
        the scores.

    Notes
    -----
    If no two labelings are about equally good, there are at most 2 k calls of
    `max_marginals`. Each variable without a clearly best state adds one call. With
    `max_product` there are at most 2 k calls of `max_marginals` in any case, at most k
    calls of `max_product`, and one more for each state that turns out to be forbidden.

    References
    ----------
    C. Yanover and Y. Weiss, "Finding the M most probable configurations using loopy
    belief propagation", NIPS 2004.
    K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to train
    structured prediction models", NeurIPS 2018, Algorithm 10.

    Examples
    --------
    >>> from sksstruct.inference import bmmf, matching_max_marginals
    >>> labelings, scores = bmmf(matching_max_marginals, [[3, 2, 0], [3, 0, 0]], 3)
    >>> labelings.tolist(), scores.tolist()
    ([[1, 0], [0, 1], [2, 0]], [5.0, 3.0, 3.0])
    """
    k = check_k(k)
    cdef Problem problem = Problem(max_marginals, unary, max_product)
    labelings = found_by(problem, min(k, 2**31 - 1))
    return labelings, np.array([problem.score(rank) for rank in range(len(labelings))])
