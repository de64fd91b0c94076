"""Labels that are on or off and pairs of them that score together: the LP relaxation.

    max  sum_j c_j y_j + sum_e v_e s_e,   max(0, y_j + y_k - 1) <= s_e <= min(y_j, y_k)

The vertices of this polytope are half-integral, and a minimum cut in a graph of twice
the labels finds the best one: every label has a node for y_j and one for 1 - y_j, a
pair that attracts joins nodes of the same kind, one that repels those of different
kinds (Hammer, Hansen and Simeone, "Roof duality, complementation and persistency in
quadratic 0-1 optimization", Mathematical Programming 28, 1984; Boros and Hammer,
"Pseudo-Boolean optimization", 2002). Labels at which the two nodes agree are one half.
The others have their value in some best labeling (persistency), and where there is no
half the answer is exact: always if every pair attracts.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.inference.cuts._maxflow cimport FlowTrees

from sksstruct.inference._checks import check_edges, check_scores

# Beyond this many labels 2^n is too many for `exact`.
MOST_LABELS = 20


cdef class RoofDual(FlowTrees):
    """Best on/off labelings and their LP relaxation, for one set of pairs.

    Parameters
    ----------
    pairs : array-like of shape (n_pairs, 2)
        Pairs of different labels.
    n_labels : int
        Number of labels.
    """

    def __init__(self, pairs, n_labels):
        pairs = check_edges(pairs, n_labels)
        self.n_labels, self.n_pairs = n_labels, len(pairs)
        self._pairs = np.ascontiguousarray(pairs, dtype=np.int32).reshape(-1, 2)
        j = np.asarray(pairs, dtype=np.intp).reshape(-1, 2)
        ends = np.concatenate([j[:, 0], j[:, 1]])
        order = np.argsort(ends, kind="stable")
        self._near_first = np.searchsorted(
            ends[order], np.arange(n_labels + 1)).astype(np.intp)
        self._near = np.append(np.concatenate([j[:, 1], j[:, 0]])[order], 0).astype(
            np.int32)
        self._near_pair = np.append(order % max(len(j), 1), 0).astype(np.int32)
        # of each pair (j, k): j k, k' j', j k', k j', of which two have capacity
        j, k = np.asarray(pairs, dtype=np.intp).reshape(-1, 2).T
        doubled = np.stack([np.column_stack([j, k]),
                            np.column_stack([k + n_labels, j + n_labels]),
                            np.column_stack([j, k + n_labels]),
                            np.column_stack([k, j + n_labels])], axis=1)
        FlowTrees.__init__(self, np.ascontiguousarray(doubled.reshape(-1, 2)),
                           2 * n_labels)

    def solve(self, unary, pairwise, *, exact=False):
        """Best half-integral point, or best labeling.

        Parameters
        ----------
        unary : array-like of shape (n_labels,)
            Score of each label if it is on.
        pairwise : array-like of shape (n_pairs,)
            Score of each pair if both are on.
        exact : bool, default=False
            Whether to find a best labeling, by enumeration; for few labels.

        Returns
        -------
        y : ndarray of shape (n_labels,)
            0, 1, or one half.
        value : float
            Its score, an upper bound of that of all labelings.
        """
        unary = np.ascontiguousarray(check_scores("unary", unary, 1))
        pairwise = np.ascontiguousarray(check_scores("pairwise", pairwise, 1))
        if unary.shape != (self.n_labels,) or pairwise.shape != (self.n_pairs,):
            raise ValueError(
                f"unary and pairwise must have shapes {(self.n_labels,)} and "
                f"{(self.n_pairs,)}, got {unary.shape} and {pairwise.shape}")
        if not (np.isfinite(unary).all() and np.isfinite(pairwise).all()):
            raise ValueError("scores must be finite")
        if exact and self.n_labels > MOST_LABELS:
            raise ValueError(
                f"{self.n_labels} labels have too many labelings to try them all")
        cdef const double[::1] c = unary
        cdef const double[::1] v = np.append(pairwise, 0.0)
        cdef int32_t[::1] states = np.zeros(self.n_labels, dtype=np.int32)
        cdef double[::1] fields = np.empty(self.n_labels)
        cdef double value
        cdef bint all_of_them = exact
        with nogil:
            if all_of_them:
                self.enumerate(&c[0], &v[0], &fields[0], &states[0])
            else:
                self.relax(&c[0], &v[0], &states[0])
            value = self.value(&c[0], &v[0], &states[0])
        return np.asarray(states) / 2.0, value

    cdef bint attracts(self, const double* pair) noexcept nogil:
        """Whether no pair repels."""
        cdef Py_ssize_t e
        for e in range(self.n_pairs):
            if pair[e] < 0.0:
                return False
        return True

    cdef double value(self, const double* unary, const double* pair,
                      const int32_t* states) noexcept nogil:
        """Score of states 0, 1, 2 that stand for 0, 1/2, 1."""
        cdef Py_ssize_t j, e
        cdef double total = 0.0
        for j in range(self.n_labels):
            total += 0.5 * states[j] * unary[j]
        for e in range(self.n_pairs):
            total += 0.5 * pair[e] * together(
                states[self._pairs[e, 0]], states[self._pairs[e, 1]], pair[e])
        return total

    cdef void relax(self, const double* unary, const double* pair,
                    int32_t* states) noexcept nogil:
        """The best half-integral point, as states 0, 1, 2."""
        cdef Py_ssize_t L = self.n_labels, j, e, a
        cdef double half
        for j in range(L):
            self._terminal[j] = 0.5 * unary[j]
        for e in range(self.n_pairs):
            j = self._pairs[e, 0]
            half = 0.5 * pair[e]
            for a in range(4 * e, 4 * e + 4):
                self._residual[self._arc[a]] = 0.0
                self._residual[self._sister[self._arc[a]]] = 0.0
            if half > 0.0:
                # v y_j y_k = v y_j - v y_j (1 - y_k)
                self._terminal[j] += half
                self._residual[self._arc[4 * e]] = half
                self._residual[self._arc[4 * e + 1]] = half
            elif half < 0.0:
                self._residual[self._arc[4 * e + 2]] = -half
                self._residual[self._arc[4 * e + 3]] = -half
        for j in range(L):
            self._terminal[L + j] = -self._terminal[j]
        self._start()
        self._maximise()
        for j in range(L):
            states[j] = <int32_t> (
                1 + self._from_source(j) - self._from_source(L + j))

    cdef void enumerate(self, const double* unary, const double* pair,
                        double* fields, int32_t* states) noexcept nogil:
        """The best labeling, by visiting all of them with one change at a time."""
        cdef Py_ssize_t L = self.n_labels, j, code, best_code = 0, gray = 0
        cdef double score = 0.0, best = 0.0, sign
        for j in range(L):
            fields[j] = unary[j]
        for code in range(1, 1 << L):
            j = 0
            while not (code >> j) & 1:
                j += 1
            gray ^= 1 << j
            sign = 1.0 if (gray >> j) & 1 else -1.0
            score += sign * fields[j]
            self._spread(pair, j, sign, fields)
            if score > best:
                best, best_code = score, gray
        for j in range(L):
            states[j] = <int32_t> (2 * ((best_code >> j) & 1))

    cdef void _spread(self, const double* pair, Py_ssize_t j, double sign,
                      double* fields) noexcept nogil:
        """Tell the other labels of pairs that label j was switched."""
        cdef Py_ssize_t a, e
        for a in range(self._near_first[j], self._near_first[j + 1]):
            e = self._near_pair[a]
            fields[self._near[a]] += sign * pair[e]
