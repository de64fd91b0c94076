"""Labels that are on or off and pairs of them that score together: the LP relaxation.

    max  sum_j c_j y_j + sum_e v_e s_e,   max(0, y_j + y_k - 1) <= s_e <= min(y_j, y_k)

over y in [0, 1]^n, where label j scores c_j (`unary`) and a pair e = (j, k) scores v_e
(`pair`). The vertices of this polytope are half-integral, and a minimum cut in a graph
of twice the labels finds the best one: label j has a node j for y_j and a node j' for
1 - y_j, number n + j. A pair that attracts joins nodes of the same kind, one that
repels those of different kinds (Hammer, Hansen and Simeone, "Roof duality,
complementation and persistency in quadratic 0-1 optimization", Mathematical Programming
28, 1984; Boros and Hammer, "Pseudo-Boolean optimization", 2002). Labels whose two nodes
are on the same side of the cut are one half. The others have their value in some best
labeling (persistency), and where there is no half the answer is exact: always if every
pair attracts.

States 0, 1 and 2 stand for 0, 1/2 and 1.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.inference.cuts._maxflow cimport FlowTrees

from sksstruct.inference._checks import check_edges, check_scores

# Beyond this many labels 2^n labelings are too many for `exact`.
MOST_LABELS = 20


cdef class RoofDual(FlowTrees):
    """Solver for the best on/off labelings or their LP relaxation, for given pairs.

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
        self._pairs = pairs.astype(np.int32)
        first, second = pairs.T
        # Each pair is listed under both its labels. One entry more than needed, so
        # that there is always a first one.
        ends = np.concatenate([first, second])
        order = np.argsort(ends, kind="stable")
        partners = np.concatenate([second, first])[order]
        self._first_partner = np.searchsorted(
            ends[order], np.arange(n_labels + 1)).astype(np.intp)
        self._partner = np.append(partners, 0).astype(np.int32)
        self._partner_pair = np.append(order % max(len(pairs), 1), 0).astype(np.int32)
        # Four edges for each pair: j k, k' j', j k' and k j'. Its score decides which
        # two of them have capacity.
        doubled = np.stack([np.column_stack([first, second]),
                            np.column_stack([second + n_labels, first + n_labels]),
                            np.column_stack([first, second + n_labels]),
                            np.column_stack([second, first + n_labels])], axis=1)
        FlowTrees.__init__(self, np.ascontiguousarray(doubled.reshape(-1, 2)),
                           2 * n_labels)

    def solve(self, unary, pairwise, *, exact=False):
        """Find the best half-integral point, or the best labeling.

        Parameters
        ----------
        unary : array-like of shape (n_labels,)
            Score of each label if it is on.
        pairwise : array-like of shape (n_pairs,)
            Score of each pair if both are on.
        exact : bool, default=False
            Whether to find the best labeling by enumeration. Only for few labels.

        Returns
        -------
        y : ndarray of shape (n_labels,)
            0, 1, or one half.
        value : float
            Its score, an upper bound on the scores of all labelings.
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
        cdef const double[::1] scores = unary
        # one more, so that there is always a first one
        cdef const double[::1] pair_scores = np.append(pairwise, 0.0)
        cdef int32_t[::1] states = np.zeros(self.n_labels, dtype=np.int32)
        cdef double[::1] fields = np.empty(self.n_labels)
        cdef double value
        # not a Python object, for what follows
        cdef bint all_of_them = exact
        with nogil:
            if all_of_them:
                self.enumerate(&scores[0], &pair_scores[0], &fields[0], &states[0])
            else:
                self.relax(&scores[0], &pair_scores[0], &states[0])
            value = self.value(&scores[0], &pair_scores[0], &states[0])
        return np.asarray(states) / 2.0, value

    cdef bint attracts(self, const double* pair) noexcept nogil:
        """Whether no pair repels."""
        # -0.0 and 0.0 do not: such pairs have no capacity at all
        cdef Py_ssize_t e
        for e in range(self.n_pairs):
            if pair[e] < 0.0:
                return False
        return True

    cdef double value(self, const double* unary, const double* pair,
                      const int32_t* states) noexcept nogil:
        """Score of the point with these states."""
        cdef Py_ssize_t label, e
        cdef double total = 0.0
        for label in range(self.n_labels):
            total += 0.5 * states[label] * unary[label]
        for e in range(self.n_pairs):
            total += 0.5 * pair[e] * together(
                states[self._pairs[e, 0]], states[self._pairs[e, 1]], pair[e])
        return total

    cdef void relax(self, const double* unary, const double* pair,
                    int32_t* states) noexcept nogil:
        """The best half-integral point."""
        cdef Py_ssize_t label
        self._set_capacities(unary, pair)
        self._start()
        self._maximize()
        # Node j on the source's side says y_j = 1, node j' says y_j = 0; where both or
        # none of them are, y_j is one half.
        for label in range(self.n_labels):
            states[label] = <int32_t> (
                1 + self._from_source(label)
                - self._from_source(self.n_labels + label))

    cdef void _set_capacities(self, const double* unary,
                              const double* pair) noexcept nogil:
        """Capacities of the doubled graph, each half of what it stands for twice."""
        cdef Py_ssize_t label, e, edge
        cdef double half
        for label in range(self.n_labels):
            self._terminal[label] = 0.5 * unary[label]
        for e in range(self.n_pairs):
            half = 0.5 * pair[e]
            for edge in range(4 * e, 4 * e + 4):
                self._residual[self._arc_of[edge]] = 0.0
                self._residual[self._arcs[self._arc_of[edge]].sister] = 0.0
            if half > 0.0:
                # v y_j y_k = v y_j - v y_j (1 - y_k)
                self._terminal[self._pairs[e, 0]] += half
                self._residual[self._arc_of[4 * e]] = half
                self._residual[self._arc_of[4 * e + 1]] = half
            # v y_j y_k costs -v where j is with the source and k' with the sink
            elif half < 0.0:
                self._residual[self._arc_of[4 * e + 2]] = -half
                self._residual[self._arc_of[4 * e + 3]] = -half
        # The graph is its own mirror image: node j' is to the sink what j is to the
        # source, and the arcs of a pair are mirrored above.
        for label in range(self.n_labels):
            self._terminal[self.n_labels + label] = -self._terminal[label]

    cdef void enumerate(self, const double* unary, const double* pair,
                        double* fields, int32_t* states) noexcept nogil:
        """The best labeling, by visiting all of them with one change at a time.

        fields (n_labels,) is scratch: what the score gains when a label is switched on.
        """
        cdef Py_ssize_t label, code, best_code = 0, gray = 0
        cdef double score = 0.0, best = 0.0, sign
        # all labels off at first, which scores 0
        for label in range(self.n_labels):
            fields[label] = unary[label]
        # Gray codes: the label that changes is the lowest bit set in the count.
        for code in range(1, 1 << self.n_labels):
            label = 0
            while not (code >> label) & 1:
                label += 1
            gray ^= 1 << label
            sign = 1.0 if (gray >> label) & 1 else -1.0
            # With fields kept a labeling costs no more than its label has partners.
            score += sign * fields[label]
            self._spread(pair, label, sign, fields)
            if score > best:
                best, best_code = score, gray
        for label in range(self.n_labels):
            states[label] = <int32_t> (2 * ((best_code >> label) & 1))

    cdef void _spread(self, const double* pair, Py_ssize_t label, double sign,
                      double* fields) noexcept nogil:
        """Tell the partners of a label that it was switched on (sign 1) or off (-1)."""
        cdef Py_ssize_t place
        for place in range(self._first_partner[label], self._first_partner[label + 1]):
            fields[self._partner[place]] += sign * pair[self._partner_pair[place]]
