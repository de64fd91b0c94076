"""LP relaxation of labels that are on or off, with scores of labels and of pairs.

The LP relaxation of the best labeling is

    max  sum_j c_j y_j + sum_e v_e s_e,   max(0, y_j + y_k - 1) <= s_e <= min(y_j, y_k)

over y in [0, 1]^n, where label j scores c_j (`unary`) and a pair e = (j, k) scores v_e
(`pair`). The vertices of this polytope are half-integral, and a minimum cut in a graph
with two nodes per label finds a best vertex: label j has a node j for y_j and a node
j', number n + j, for 1 - y_j. A pair that attracts joins nodes of equal kind, a pair
that repels nodes of different kind (Hammer, Hansen and Simeone, "Roof duality,
complementation and persistency in quadratic 0-1 optimization", Mathematical Programming
28, 1984; Boros and Hammer, "Pseudo-Boolean optimization", 2002). A label whose two
nodes are on the same side of the cut is one half. Some best labeling has the values of
all other labels (persistency), so that a point without halves is a best labeling. If
every pair attracts, there are no halves. States 0, 1 and 2 stand for 0, 1/2 and 1.

The cut has only the labels of a core. At any labeling z, let b_j be the cost of
flipping label j alone, and v'_jk the score that flipping both j and k adds to flipping
each: v_jk if both are off or both are on in z, otherwise -v_jk. In terms of flips x the
problem has the same form,

    max  - sum_j b_j x_j + sum_e v'_e s_e

As s_e <= x_j, a label with b_j >= the sum of its positive v' gains nothing by flipping,
whatever other labels do: in some best point of the relaxation this label does not flip.
Its pairs are then left out, so that further labels may satisfy the condition. The
labels that remain are the core. Usually the core is empty if no single flip improves z.

For each label, the kernel needs only the sums of its scores with labels that are on, so
that the work is proportional to the number of pairs of these labels.
"""

from libc.math cimport fabs
from libc.stdint cimport int32_t
from libc.stdlib cimport free

from sksstruct.inference.cuts._maxflow cimport FlowArc, FlowTrees
from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport (
    const_doubles, const_int32s, const_intps, doubles, int32s,
)

from sksstruct.inference.cuts._flow_arrays import (
    check_finite, check_rows, pair_lists, roof_arrays, start_states,
)

# Largest number of rounds of single flips before the core is formed. The result is
# right for any labeling: rounds only make the core smaller.
cdef int MOST_ROUNDS = 20
# Labels of the core flip only if the relative gain of the flips is above this number;
# smaller gains may be rounding errors.
cdef double ROUNDING = 1e-13
# Number of labels up to which all 2^n labelings are enumerated.
cdef int MOST_LABELS = 20


cdef class LabelPairs:
    """Pairs of labels and their scores, listed under both labels.

    Parameters
    ----------
    pairs : array-like of shape (n_pairs, 2)
        Pairs of different labels, each at most once.
    n_labels : int
        Number of labels.
    """

    def __init__(self, pairs, n_labels):
        self._owned = arrays = pair_lists(pairs, n_labels)
        self.pairs, self.n_labels, self.n_pairs = arrays[0], n_labels, len(arrays[0])
        self.places = const_int32s(arrays[1])
        self.lists.n_labels, self.lists.n_pairs = n_labels, self.n_pairs
        self.lists.first_partner = const_intps(arrays[2])
        self.lists.partner = const_int32s(arrays[3])
        self.lists.partner_pair = const_int32s(arrays[4])
        self.lists.score = doubles(arrays[5])
        self.lists.attraction = doubles(arrays[6])
        self.lists.repulsion = doubles(arrays[7])

    def set_scores(self, pair_scores):
        """Set the scores of all pairs.

        Parameters
        ----------
        pair_scores : array-like of shape (n_pairs,)
            Score of each pair if both of its labels are on.
        """
        pair_scores = check_finite("pairwise", pair_scores, (self.n_pairs,))
        self.load(const_doubles(pair_scores))

    cdef void load(self, const double* pair_scores) noexcept nogil:
        """Set the scores of all pairs, in the order of their numbers."""
        cdef Py_ssize_t place
        for place in range(2 * self.n_pairs):
            self.lists.score[place] = pair_scores[self.lists.partner_pair[place]]
        self.add_up()

    cdef void add_up(self) noexcept nogil:
        """Sum the positive and the negative pair scores of each label."""
        cdef PairLists graph = self.lists
        cdef Py_ssize_t label, place
        cdef double attraction, repulsion, score
        for label in range(graph.n_labels):
            attraction = repulsion = 0.0
            for place in range(graph.first_partner[label],
                               graph.first_partner[label + 1]):
                score = graph.score[place]
                attraction += score if score > 0.0 else 0.0
                repulsion -= score if score < 0.0 else 0.0
            graph.attraction[label], graph.repulsion[label] = attraction, repulsion

    cdef void put(self, Py_ssize_t pair, double score) noexcept nogil:
        """Set the score of one pair, and update the sums of its labels."""
        cdef PairLists graph = self.lists
        cdef Py_ssize_t first = self.places[2 * pair]
        cdef Py_ssize_t second = self.places[2 * pair + 1]
        cdef double old = graph.score[first]
        # the list of either label has the other label as the partner of this pair
        cdef Py_ssize_t label = graph.partner[second], other = graph.partner[first]
        cdef double attraction = (
            (score if score > 0.0 else 0.0) - (old if old > 0.0 else 0.0))
        graph.score[first] = graph.score[second] = score
        graph.attraction[label] += attraction
        graph.attraction[other] += attraction
        # the score is attraction minus repulsion
        graph.repulsion[label] += attraction - (score - old)
        graph.repulsion[other] += attraction - (score - old)

    def best_labels(self, unary, pairwise):
        """Find the best labeling for given scores by enumeration.

        Parameters
        ----------
        unary : array-like of shape (n_labels,)
            Score of each label if it is on.
        pairwise : array-like of shape (n_pairs,)
            Score of each pair if both of its labels are on.

        Returns
        -------
        y : ndarray of shape (n_labels,), int32
            0 or 1 for each label.
        """
        if self.n_labels > MOST_LABELS:
            raise ValueError(
                f"{self.n_labels} labels have too many labelings to try them all: the "
                f"most are {MOST_LABELS} labels")
        unary = check_finite("unary", unary, (self.n_labels,))
        pairwise = check_finite("pairwise", pairwise, (self.n_pairs,))
        # arrays of n_labels entries: scratch of `enumerate`, and states 0 and 2
        fields, y = 0.0 * unary, (0.0 * unary).astype("i4")
        cdef const double* scores = const_doubles(unary)
        cdef const double* pair_scores = const_doubles(pairwise)
        cdef double* gains = doubles(fields)
        cdef int32_t* states = int32s(y)
        with nogil:
            self.enumerate(scores, pair_scores, gains, states)
        return y // 2

    cdef void enumerate(self, const double* unary, const double* pair,
                        double* fields, int32_t* states) noexcept nogil:
        """Write the best labeling; visit all labelings, changing one label at a time.

        fields (n_labels,) is scratch: the gain of the score if a label is switched on.
        """
        cdef PairLists graph = self.lists
        cdef Py_ssize_t label, place, code, best_code = 0, gray = 0
        cdef double score = 0.0, best = 0.0, sign
        # the first labeling has all labels off, and score 0
        for label in range(graph.n_labels):
            fields[label] = unary[label]
        # Gray code: the lowest set bit of the count is the label that changes
        for code in range(1, 1 << graph.n_labels):
            label = 0
            while not (code >> label) & 1:
                label += 1
            gray ^= 1 << label
            sign = 1.0 if (gray >> label) & 1 else -1.0
            # with `fields` up to date, a labeling takes one loop over the partners of
            # the changed label
            score += sign * fields[label]
            for place in range(graph.first_partner[label],
                               graph.first_partner[label + 1]):
                fields[graph.partner[place]] += sign * pair[graph.partner_pair[place]]
            if score > best:
                best, best_code = score, gray
        for label in range(graph.n_labels):
            states[label] = <int32_t> (2 * ((best_code >> label) & 1))


cdef class ReducedRoofDual(FlowTrees):
    """Solver that finds a best half-integral point of the LP relaxation.

    Parameters
    ----------
    graph : LabelPairs
        Pairs and their scores, which may change between calls. Threads may share a
        graph if each has its own `ReducedRoofDual`.
    """

    def __init__(self, LabelPairs graph):
        self.graph = graph
        edges, self._arrays = roof_arrays(graph.n_labels)
        # two nodes for each label; the edges are added for each core
        FlowTrees.__init__(self, edges, 2 * graph.n_labels)
        self._up, self._down = doubles(self._arrays[0]), doubles(self._arrays[1])
        self._budget, self._gains = doubles(self._arrays[2]), doubles(self._arrays[3])
        self._place, self._core = int32s(self._arrays[4]), int32s(self._arrays[5])
        self._flip, self._next = int32s(self._arrays[6]), int32s(self._arrays[7])

    def __dealloc__(self):
        free(self._core_pairs)
        free(self._own_arcs)
        free(self._own_residual)

    def solve(self, unary, start=None):
        """Find the best half-integral point for given scores of labels.

        Parameters
        ----------
        unary : array-like of shape (n_labels,)
            Score of each label if it is on.
        start : array-like of shape (n_labels,), default=None
            A labeling of 0 and 1 to start from. None: labels with a positive score.

        Returns
        -------
        y : ndarray of shape (n_labels,)
            0, 1, or one half.
        value : float
            Score of y, an upper bound on the scores of all labelings.
        """
        unary = check_finite("unary", unary, (self.graph.n_labels,))
        y = start_states(unary, start)
        cdef const double* scores = const_doubles(unary)
        cdef int32_t* states = int32s(y)
        cdef double value
        with nogil:
            self.relax(scores, states)
            value = self.value(scores, states)
        return y / 2.0, value

    def solve_all(self, unaries):
        """Find the best half-integral points for many rows of scores of labels.

        Parameters
        ----------
        unaries : ndarray of shape (n, n_labels), float64
            Score of each label if it is on; one row for each problem.

        Returns
        -------
        states : ndarray of shape (n, n_labels), int32
            0 for 0, 1 for one half, and 2 for 1.
        """
        unaries = check_rows(unaries, self.graph.n_labels)
        out = start_states(unaries, None)
        cdef const double* scores = const_doubles(unaries)
        cdef int32_t* states = int32s(out)
        cdef Py_ssize_t i, n = len(unaries), n_labels = self.graph.n_labels
        with nogil:
            for i in range(n):
                self.relax(scores + i * n_labels, states + i * n_labels)
        return out

    cdef double value(self, const double* unary, const int32_t* states) noexcept nogil:
        """Score of a half-integral point, given as states 0, 1 (one half) and 2."""
        cdef PairLists graph = self.graph.lists
        cdef Py_ssize_t label, place, partner
        cdef double total = 0.0
        for label in range(graph.n_labels):
            if not states[label]:
                continue
            total += 0.5 * states[label] * unary[label]
            for place in range(graph.first_partner[label],
                               graph.first_partner[label + 1]):
                partner = graph.partner[place]
                # a pair is listed under both of its labels, and counted once
                if partner < label and states[partner]:
                    total += 0.5 * graph.score[place] * together(
                        states[label], states[partner], graph.score[place])
        return total

    cdef int relax(self, const double* unary, int32_t* states) except -1 nogil:
        """Replace a labeling, in states 0 and 2, by a best half-integral point."""
        self._flip_singly(unary, states)
        self._find_core(unary, states)
        if self._n_core:
            self._shrink_core(states)
        if self._n_core:
            self._list_pairs(states)
            self._cut_attracting()
        if self._n_core:
            self._cut_core(states)
        return 0

    # ---- a labeling that no single flip improves ----

    cdef void _flip_singly(self, const double* unary, int32_t* states) noexcept nogil:
        """Flip single labels while the score rises, in at most MOST_ROUNDS rounds."""
        cdef Py_ssize_t label, n = self.graph.n_labels
        cdef double gain
        cdef bint changed
        for label in range(n):
            self._up[label] = self._down[label] = 0.0
        for label in range(n):
            if states[label]:
                self._update_partners(label, 1.0)
        for _round in range(MOST_ROUNDS):
            changed = False
            for label in range(n):
                gain = unary[label] + self._up[label] - self._down[label]
                if (gain < 0.0) if states[label] else (gain > 0.0):
                    self._update_partners(label, -1.0 if states[label] else 1.0)
                    states[label] = 2 - states[label]
                    changed = True
            if not changed:
                break

    cdef void _update_partners(self, Py_ssize_t label, double sign) noexcept nogil:
        """Update partners' sums after a label was switched on (sign 1) or off (-1)."""
        cdef PairLists graph = self.graph.lists
        cdef Py_ssize_t place
        cdef double score
        for place in range(graph.first_partner[label], graph.first_partner[label + 1]):
            score = sign * graph.score[place]
            if graph.score[place] > 0.0:
                self._up[graph.partner[place]] += score
            else:
                self._down[graph.partner[place]] -= score

    # ---- labels that may flip together ----

    cdef void _find_core(self, const double* unary,
                         const int32_t* states) noexcept nogil:
        """List as core the labels whose flip costs less than their pairs may gain.

        The cost is b_j, the gain the sum of positive v'; see the head of this file.
        """
        cdef PairLists graph = self.graph.lists
        cdef Py_ssize_t label
        cdef double most, gain
        self._n_core = 0
        for label in range(graph.n_labels):
            gain = unary[label] + self._up[label] - self._down[label]
            # v' is the score of the pair if the partner is in the same state, otherwise
            # minus this score
            if states[label]:
                most = graph.repulsion[label] - self._down[label] + self._up[label]
            else:
                gain = -gain
                most = graph.attraction[label] - self._up[label] + self._down[label]
            self._budget[label] = gain
            if gain < most:
                self._place[label] = <int32_t> self._n_core
                self._core[self._n_core] = <int32_t> label
                self._n_core += 1
            else:
                self._place[label] = -1

    cdef int _shrink_core(self, const int32_t* states) except -1 nogil:
        """Drop core labels whose flip costs at least what their core pairs may gain."""
        cdef PairLists graph = self.graph.lists
        cdef Py_ssize_t k, label, place, partner, n = 0, last = self._n_core
        cdef double most, score
        for k in range(self._n_core):
            label = self._core[k]
            most = 0.0
            for place in range(graph.first_partner[label],
                               graph.first_partner[label + 1]):
                partner = graph.partner[place]
                if self._place[partner] >= 0:
                    score = graph.score[place]
                    score = score if states[label] == states[partner] else -score
                    most += (score if score > 0.0 else 0.0)
            self._gains[label] = most
        # a dropped label may leave other labels without gain: repeat until none is
        # dropped
        while n < last:
            last, n = self._n_core, 0
            for k in range(last):
                label = self._core[k]
                if self._budget[label] < self._gains[label]:
                    self._core[n] = <int32_t> label
                    n += 1
                    continue
                self._place[label] = -1
                for place in range(graph.first_partner[label],
                                   graph.first_partner[label + 1]):
                    partner = graph.partner[place]
                    score = graph.score[place]
                    score = score if states[label] == states[partner] else -score
                    self._gains[partner] -= (score if score > 0.0 else 0.0)
            self._n_core = n
        return 0

    cdef int _list_pairs(self, const int32_t* states) except -1 nogil:
        """List the pairs within the core whose score is not zero."""
        cdef PairLists graph = self.graph.lists
        cdef Py_ssize_t k, label, place, partner
        cdef CorePair* item
        cdef double score
        self._n_core_pairs = 0
        for k in range(self._n_core):
            self._place[self._core[k]] = <int32_t> k
        for k in range(self._n_core):
            label = self._core[k]
            for place in range(graph.first_partner[label],
                               graph.first_partner[label + 1]):
                partner = graph.partner[place]
                score = graph.score[place]
                if partner > label or self._place[partner] < 0 or score == 0.0:
                    continue
                reserve(<void**> &self._core_pairs, &self._core_capacity,
                        self._n_core_pairs + 1, sizeof(CorePair))
                item = &self._core_pairs[self._n_core_pairs]
                item.first, item.second = <int32_t> k, self._place[partner]
                item.score = score if states[label] == states[partner] else -score
                self._n_core_pairs += 1
        return 0

    # ---- the cut ----

    cdef int _cut_attracting(self) except -1 nogil:
        """Shrink the core to the labels that flip if no two flips repel each other.

        Without pairs that repel, the gain of a set of flips is supermodular. Labels
        outside of the best set do not flip in some best point with all pairs, either:
        removing them from any set of flips loses no gain and adds no repulsion.
        """
        cdef Py_ssize_t k, n = 0, n_pairs = 0
        cdef CorePair* item
        self._form_graph(False)
        self._start()
        self._maximize()
        self.n_cut += self._n_core
        for k in range(self._n_core):
            self._flip[k] = -1
            if self._from_source(k):
                self._flip[k] = <int32_t> n
                self._core[n] = self._core[k]
                n += 1
        self._n_core = n
        # keep the pairs between the remaining labels, and set the labels' new places
        for k in range(self._n_core_pairs if n else 0):
            item = &self._core_pairs[k]
            if self._flip[item.first] >= 0 and self._flip[item.second] >= 0:
                self._core_pairs[n_pairs].first = self._flip[item.first]
                self._core_pairs[n_pairs].second = self._flip[item.second]
                self._core_pairs[n_pairs].score = item.score
                n_pairs += 1
        self._n_core_pairs = n_pairs
        return 0

    cdef int _cut_core(self, int32_t* states) except -1 nogil:
        """Flip labels of the core by a minimum cut, wholly or by half."""
        cdef Py_ssize_t k, n = self._n_core
        cdef int32_t label
        self._form_graph(True)
        self._start()
        self._maximize()
        for k in range(n):
            # Node k on the source's side means 1, node k' on this side means 0; both
            # nodes or neither node on this side means one half.
            self._flip[k] = <int32_t> (
                1 + self._from_source(k) - self._from_source(n + k))
        # flips without gain tie with no flips, and might introduce halves
        if not self._flips_gain():
            return 0
        for k in range(n):
            label = self._core[k]
            # a flip leads upwards from state 0, and downwards from state 2
            states[label] += self._flip[k] * (1 - states[label])
        return 0

    cdef bint _flips_gain(self) noexcept nogil:
        """Whether the flips of the core score more than no flips."""
        cdef Py_ssize_t k
        cdef CorePair* item
        cdef double gain = 0.0, size = 0.0, change
        for k in range(self._n_core):
            change = 0.5 * self._flip[k] * self._budget[self._core[k]]
            gain -= change
            size += fabs(change)
        for k in range(self._n_core_pairs):
            item = &self._core_pairs[k]
            change = 0.5 * item.score * together(
                self._flip[item.first], self._flip[item.second], item.score)
            gain += change
            size += fabs(change)
        return gain > ROUNDING * size

    cdef int _form_graph(self, bint doubled) except -1 nogil:
        """Set the capacities of the core's graph, each half of a score.

        The doubled graph has two nodes for each label and two edges for each pair,
        with capacity in one direction: pairs that attract join nodes of equal kind,
        other pairs nodes of different kind. The single graph has edges only for pairs
        that attract.
        """
        cdef Py_ssize_t k, n = self._n_core
        cdef CorePair* item
        self._n = 2 * n if doubled else n
        for k in range(self._n + 1):
            self._first[k] = 0
        # terminal capacity: minus half of the cost of flipping the label alone
        for k in range(n):
            self._terminal[k] = -0.5 * self._budget[self._core[k]]
        for k in range(self._n_core_pairs):
            item = &self._core_pairs[k]
            # count the arcs of each node in the entry of the next node; each edge has
            # two arcs
            if doubled or item.score > 0.0:
                self._first[item.first + 1] += 1
                self._first[item.second + 1] += 1
            if doubled:
                self._first[n + item.first + 1] += 1
                self._first[n + item.second + 1] += 1
            if item.score > 0.0:
                # v x_j x_k = v x_j - v x_j (1 - x_k): terminal capacity at j, and an
                # arc from j to k
                self._terminal[item.first] += 0.5 * item.score
        for k in range(self._n):
            self._first[k + 1] += self._first[k]
            self._next[k] = self._first[k]
        self._reserve_arcs(self._first[self._n])
        for k in range(self._n_core_pairs):
            item = &self._core_pairs[k]
            if item.score > 0.0:
                self._join(item.first, item.second, 0.5 * item.score)
                if doubled:
                    self._join(n + item.second, n + item.first, 0.5 * item.score)
            elif doubled:
                self._join(item.first, n + item.second, -0.5 * item.score)
                self._join(item.second, n + item.first, -0.5 * item.score)
        for k in range(n if doubled else 0):
            self._terminal[n + k] = -self._terminal[k]
        return 0

    cdef void _join(self, Py_ssize_t tail, Py_ssize_t head,
                    double capacity) noexcept nogil:
        """Add an edge with capacity from its tail to its head, and none back."""
        cdef int32_t arc = self._next[tail], sister = self._next[head]
        self._next[tail] += 1
        self._next[head] += 1
        self._arcs[arc] = FlowArc(<int32_t> head, sister)
        self._arcs[sister] = FlowArc(<int32_t> tail, arc)
        self._residual[arc], self._residual[sister] = capacity, 0.0

    cdef int _reserve_arcs(self, Py_ssize_t n_arcs) except -1 nogil:
        """Reserve memory for the residual capacities and heads of n_arcs arcs."""
        if n_arcs >= 2147483647:
            with gil:
                raise ValueError(
                    f"the graph needs {n_arcs} arcs, at most 2147483646 are supported: "
                    "use another solver")
        reserve(<void**> &self._own_residual, &self._residual_capacity, n_arcs,
                sizeof(double))
        reserve(<void**> &self._own_arcs, &self._arc_capacity, n_arcs, sizeof(FlowArc))
        self._residual, self._arcs = self._own_residual, self._own_arcs
        return 0
