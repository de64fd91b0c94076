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

from sksstruct.inference._checks import check_k, check_variables

# Max-marginals may be off by this part of the size of the scores. Where differences are
# smaller, best states may be of different labelings, which must not be mixed.
cdef double ROUNDING = 1e-9


cdef class Part:
    """Labelings within constraints: allowed entries, max-marginals, best labeling.

    The second best labeling has the state `next_state` at `next_variable`. A part is
    stale if its max-marginals come from a larger part and are only upper bounds.
    """

    cdef double[::1] table
    cdef unsigned char[::1] allowed
    cdef Py_ssize_t[::1] labeling
    cdef public double score
    cdef double next_score
    cdef Py_ssize_t next_variable, next_state
    cdef bint stale

    def best(self):
        return np.asarray(self.labeling)

    cdef void find_next(self, const Py_ssize_t[::1] first) noexcept nogil:
        """The highest entry that the best labeling does not have; the first of ties."""
        cdef Py_ssize_t variable, entry
        # Every other labeling of the part has such an entry, and the best of them all
        # has the highest.
        self.next_score = -INFINITY
        for variable in range(first.shape[0] - 1):
            for entry in range(first[variable], first[variable + 1]):
                if (entry - first[variable] != self.labeling[variable]
                        and self.allowed[entry]
                        and self.table[entry] > self.next_score):
                    self.next_score = self.table[entry]
                    self.next_variable = variable
                    self.next_state = entry - first[variable]


cdef Py_ssize_t read_off(const double[::1] table, const Py_ssize_t[::1] first,
                         double size, Py_ssize_t[::1] labeling,
                         double* score) noexcept nogil:
    """Best states; the first variable whose best state is not clearly so, or -1."""
    cdef Py_ssize_t variable, entry, unclear = -1
    cdef double best, second
    score[0] = -INFINITY
    for variable in range(first.shape[0] - 1):
        best = second = -INFINITY
        labeling[variable] = 0
        for entry in range(first[variable], first[variable + 1]):
            if table[entry] > best:
                best, second = table[entry], best
                labeling[variable] = entry - first[variable]
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


cdef class Problem:
    """Scores, and their max-marginals and best labelings under constraints."""

    cdef object max_marginals, max_product, rows, first, scores
    cdef const Py_ssize_t[::1] bounds
    cdef Py_ssize_t n_variables
    cdef bint as_array
    # the largest score of each variable, summed up, to judge rounding by
    cdef double size

    def __init__(self, max_marginals, unary, max_product):
        self.max_marginals, self.max_product = max_marginals, max_product
        self.rows = check_variables(unary)
        self.n_variables = len(self.rows)
        sizes = [len(row) for row in self.rows]
        # the oracle gets scores in the form that the caller has them in
        self.as_array = len(set(sizes)) == 1
        self.bounds = self.first = np.concatenate(
            [[0], np.cumsum(sizes)]).astype(np.intp)
        self.scores = np.concatenate(self.rows)
        sizes = np.where(self.scores > -np.inf, np.abs(self.scores), 0.0)
        self.size = np.maximum.reduceat(sizes, self.first[:-1]).sum()

    cdef constrained(self, allowed):
        """Scores where only some entries are allowed, in the form of the caller's."""
        # the caller's own -inf entries stay forbidden
        scores = np.where(np.asarray(allowed).astype(bool), self.scores, -np.inf)
        if self.as_array:
            return scores.reshape(self.n_variables, -1)
        return np.split(scores, self.first[1:self.n_variables])

    cdef table_of(self, allowed):
        """Max-marginals where only some entries are allowed, checked, in a row."""
        scores = self.constrained(allowed)
        table = self.max_marginals(scores)
        # Anything may come out of a function of the caller's.
        if self.as_array and isinstance(table, np.ndarray):
            fits = table.shape == scores.shape
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
        if (table[np.asarray(allowed) == 0] > -np.inf).any():
            raise ValueError(
                "max_marginals gave a score to a state that its argument forbids")
        return table

    cdef narrowed(self, allowed, Py_ssize_t variable, Py_ssize_t state):
        """A copy of allowed entries with a single state of one variable."""
        narrow = np.array(allowed)
        narrow[self.first[variable]:self.first[variable + 1]] = 0
        narrow[self.first[variable] + state] = 1
        return narrow

    cdef Part new_part(self, allowed, Part larger):
        """A part with its best labeling, or None where nothing is allowed.

        `larger` is the part that it was taken out of, or None.
        """
        cdef Part part = Part()
        cdef Py_ssize_t unclear
        part.allowed = allowed
        part.labeling = np.zeros(self.n_variables, dtype=np.intp)
        if self.max_product is not None:
            part.score = self.solve(part)
            if part.score == -INFINITY:
                return None
            # bounds: of all that is allowed, or of the part that was larger
            part.stale = True
            part.table = (np.full(len(self.scores), part.score) if larger is None
                          else np.minimum(larger.table, part.score))
            part.find_next(self.bounds)
            return part
        part.table = self.table_of(allowed)
        part.stale = False
        unclear = read_off(
            part.table, self.bounds, self.size, part.labeling, &part.score)
        if part.score == -INFINITY:
            return None
        if unclear >= 0:
            self.break_ties(part, unclear)
        part.find_next(self.bounds)
        return part

    cdef double solve(self, Part part) except? -1:
        """Find the best labeling of a part by the oracle for it; returns its score."""
        cdef Py_ssize_t variable, state
        labeling, score = self.max_product(self.constrained(part.allowed))
        if score == -np.inf:
            return -INFINITY
        if len(labeling) != self.n_variables:
            raise ValueError(
                f"max_product returned {len(labeling)} states for {self.n_variables} "
                "variables")
        for variable in range(self.n_variables):
            state = labeling[variable]
            # The search would otherwise come to a labeling of another part.
            if not (0 <= state < self.bounds[variable + 1] - self.bounds[variable]
                    and part.allowed[self.bounds[variable] + state]):
                raise ValueError(
                    f"max_product gave variable {variable} the state {state}, which "
                    "its argument does not have or forbids")
            part.labeling[variable] = state
        return score

    cdef break_ties(self, Part part, Py_ssize_t unclear):
        """Fix unclear variables, one after the other, until the labeling is clear.

        Best states of several variables may belong to different best labelings. The
        part's own max-marginals stay as they are, without these constraints.
        """
        cdef double score = part.score
        # Each round fixes one more variable, so that there are few of them.
        narrow = part.allowed
        while unclear >= 0:
            narrow = self.narrowed(narrow, unclear, part.labeling[unclear])
            unclear = read_off(
                self.table_of(narrow), self.bounds, self.size, part.labeling, &score)
            if score == -INFINITY:
                raise ValueError(
                    "max_marginals contradicts itself: a state with a score of "
                    f"{part.score} leaves no labeling")
            part.score = score

    cdef Part split(self, Part part):
        """Take the labelings with the next state out of a part, as one of their own."""
        # Each labeling of the part is in one of the two: it has the state, or not.
        cdef Part other = self.new_part(self.narrowed(
            part.allowed, part.next_variable, part.next_state), part)
        # Its max-marginals hold for a larger part from here on; they are bounds.
        part.allowed[self.bounds[part.next_variable] + part.next_state] = 0
        part.stale = True
        part.find_next(self.bounds)
        return other

    cdef refresh(self, Part part):
        """Replace the bounds of a stale part by its own max-marginals."""
        part.table = self.table_of(part.allowed)
        part.stale = False
        part.find_next(self.bounds)


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
    cdef Py_ssize_t most = check_k(k)
    cdef Problem problem = Problem(max_marginals, unary, max_product)
    cdef Part first, part, best, other
    cdef double last
    first = problem.new_part(np.ones(len(problem.scores), dtype=np.uint8), None)
    if first is None:
        return np.zeros((0, problem.n_variables), dtype=np.int32), np.zeros(0)
    # Parts in the order in which they were made, which is that of their best scores.
    found = [first]
    last = first.score
    while len(found) < most:
        # Of equal scores the part that was made first.
        best = first
        for part in found:
            if part.next_score > best.next_score:
                best = part
        # all parts are down to the labelings that are known
        if best.next_score == -INFINITY:
            break
        # Bounds are enough to rule parts out: most are never refreshed.
        if best.stale:
            problem.refresh(best)
            continue
        other = problem.split(best)
        # An entry may promise a labeling that turns out to be forbidden.
        if other is None:
            continue
        # scores increase by rounding only
        last = other.score = min(other.score, last)
        found.append(other)
    labelings = np.array([part.best() for part in found], dtype=np.int32)
    return labelings, np.array([part.score for part in found])
