"""The K best labelings from max-marginals (best max-marginal first).

The labelings are divided into parts by constraints on single variables; the best
labeling of each part is known, and its max-marginals tell where the next one is: the
part with the highest entry (v, j) that its own best labeling does not have is split
into y_v = j, with that entry as its best score, and y_v != j (Yanover and Weiss, 2004;
Algorithm 10 of Pillutla et al., 2018). The max-marginals of the second are computed
only when what is left of the old ones, an upper bound, comes out highest.

A best labeling is read off its max-marginals where each variable has one best state,
by a margin that rounding cannot make. Where one has not, it is given its best state,
the first of several, and the max-marginals are computed again.
"""

import numpy as np

from libc.math cimport INFINITY, fabs

from sksstruct.inference._checks import check_k, check_variables

# Max-marginals may be off by this part of the size of the scores.
cdef double ROUNDING = 1e-9


cdef class Part:
    """Labelings within constraints: allowed entries, max-marginals, best labeling."""

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
        cdef Py_ssize_t v, p
        self.next_score = -INFINITY
        for v in range(first.shape[0] - 1):
            for p in range(first[v], first[v + 1]):
                if (p - first[v] != self.labeling[v] and self.allowed[p]
                        and self.table[p] > self.next_score):
                    self.next_score = self.table[p]
                    self.next_variable, self.next_state = v, p - first[v]


cdef Py_ssize_t read_off(const double[::1] table, const Py_ssize_t[::1] first,
                         double size, Py_ssize_t[::1] labeling,
                         double* score) noexcept nogil:
    """Best states; the first variable whose best state is not clearly so, or -1."""
    cdef Py_ssize_t v, p, unclear = -1
    cdef double best, second
    score[0] = -INFINITY
    for v in range(first.shape[0] - 1):
        best = second = -INFINITY
        labeling[v] = 0
        for p in range(first[v], first[v + 1]):
            if table[p] > best:
                best, second = table[p], best
                labeling[v] = p - first[v]
            elif table[p] > second:
                second = table[p]
        score[0] = best if v == 0 or best < score[0] else score[0]
        if unclear < 0 and second > -INFINITY and (
                best - second <= ROUNDING * (size + fabs(best))):
            unclear = v
    return unclear


def bmmf(max_marginals, unary, k):
    """The k best labelings of anything that gives max-marginals.

    Parameters
    ----------
    max_marginals : callable
        ``max_marginals(unary)`` returns, for scores in the form of `unary`, the score
        of the best labeling with each state of each variable, in the same form.
        Entries of ``-inf`` in its argument forbid states.
    unary : ndarray of shape (p, n_states) or list of array-like of shape (n_states,)
        Scores of the states of each of p variables.
    k : int
        Number of labelings.

    Returns
    -------
    labelings : ndarray of shape (n, p), int32
        The n <= k best labelings, all different; fewer than k where fewer are allowed.
        Those of equal score are in an order that depends on the max-marginals only.
    scores : ndarray of shape (n,)
        Their scores, which do not increase.

    Raises
    ------
    ValueError
        If the scores or k are not valid, or the max-marginals are not of the form of
        the scores.

    Notes
    -----
    Calls `max_marginals` at most 2 k times where no two labelings are about equally
    good, and for each variable without one clearly best state once more.

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
    cdef Py_ssize_t most = check_k(k), v, j, n
    cdef Part part, other, best
    cdef double last
    rows = check_variables(unary)
    as_array = len({len(row) for row in rows}) == 1
    first = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.intp)
    flat = np.concatenate(rows)
    cdef const Py_ssize_t[::1] bounds = first
    cdef double size = sum(np.abs(row[row > -np.inf]).max(initial=0.0) for row in rows)
    n = len(rows)

    def table_of(allowed):
        scores = np.where(np.asarray(allowed).astype(bool), flat, -np.inf)
        if as_array:
            scores = scores.reshape(n, -1)
        else:
            scores = np.split(scores, first[1:n])
        out = max_marginals(scores)
        if len(out) != n or any(
                np.shape(a) != np.shape(b) for a, b in zip(out, rows)):
            raise ValueError(
                "max_marginals must return one number for each state of each variable, "
                "in the form of unary")
        out = np.concatenate([np.asarray(row, dtype=np.float64) for row in out])
        if np.isnan(out).any():
            raise ValueError("max_marginals returned NaN")
        if (out[np.asarray(allowed) == 0] > -np.inf).any():
            raise ValueError(
                "max_marginals gave a score to a state that its argument forbids")
        return out

    def new_part(allowed):
        """Part with its best labeling, or None where there is none."""
        cdef Part made = Part()
        cdef double value
        cdef Py_ssize_t tied
        made.allowed = allowed
        made.table = table_of(allowed)
        made.labeling = np.zeros(n, dtype=np.intp)
        made.stale = False
        tied = read_off(made.table, bounds, size, made.labeling, &value)
        if value == -INFINITY:
            return None
        made.score = value
        narrow = np.array(allowed)
        while tied >= 0:
            chosen = first[tied] + made.labeling[tied]
            narrow[first[tied]:first[tied + 1]] = 0
            narrow[chosen] = 1
            tied = read_off(table_of(narrow), bounds, size, made.labeling, &value)
            if value == -INFINITY:
                raise ValueError(
                    "max_marginals contradicts itself: a state with a score of "
                    f"{made.score} leaves no labeling")
            made.score = value
        made.find_next(bounds)
        return made

    parts = [new_part(np.ones(len(flat), dtype=np.uint8))]
    if parts[0] is None:
        return np.zeros((0, n), dtype=np.int32), np.zeros(0)
    found = [parts[0]]
    last = parts[0].score
    while len(found) < most:
        best = parts[0]
        for part in parts:
            if part.next_score > best.next_score:
                best = part
        if best.next_score == -INFINITY:
            break
        if best.stale:
            best.table = table_of(best.allowed)
            best.stale = False
            best.find_next(bounds)
            continue
        v, j = best.next_variable, best.next_state
        allowed = np.array(best.allowed)
        allowed[first[v]:first[v + 1]] = 0
        allowed[first[v] + j] = 1
        other = new_part(allowed)
        best.allowed[bounds[v] + j] = 0
        best.stale = True
        best.find_next(bounds)
        if other is None:
            continue
        last = other.score = min(other.score, last)  # up to rounding
        parts.append(other)
        found.append(other)
    labelings = np.array([part.best() for part in found], dtype=np.int32)
    return labelings, np.array([part.score for part in found])
