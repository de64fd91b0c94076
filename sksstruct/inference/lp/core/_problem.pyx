"""A factor graph as the solvers see it: pointers to tables, and messages through them.

The message of an edge is a max-plus product, out(x_v) = max_{x_u} a(x_u) + w t(x_u,
x_v). With Potts tables and truncated linear or quadratic ones it takes linear time
(Felzenszwalb and Huttenlocher, Efficient belief propagation for early vision, 2006).
With large dense tables the states x_u are visited by a(x_u) + max_{x_v} w t(x_u, x_v),
largest first, until no other can change anything: the sparsity of Huang et al. (2017),
Section 3.2, in exact messages. No table is copied, so that the product with a transpose
reads columns where few states are left, and whole rows else.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdlib cimport calloc, free, malloc

cdef extern from "sksstruct/inference/lp/core/_rows.h" nogil:
    void sks_forward(Py_ssize_t rows, Py_ssize_t cols, double w, const double* a,
                     const double* table, double* out) noexcept
    void sks_backward(Py_ssize_t rows, Py_ssize_t cols, double w, const double* a,
                      const double* table, double* out) noexcept
    double sks_row_raise(Py_ssize_t n, double p, double w, const double* row,
                         double* out) noexcept
    double sks_largest(Py_ssize_t n, const double* a) noexcept
    void sks_extremes(Py_ssize_t rows, Py_ssize_t cols, const double* table,
                      double* row_high, double* col_high) noexcept

# Tables with fewer rows or columns are multiplied in full.
cdef Py_ssize_t LARGE = 48


cdef double entry_of(const TableSpec* t, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    """Score of a pair of states, without the edge's weight."""
    cdef double d
    if t.kind == DENSE:
        return t.data[i * t.cols + j]
    if t.kind == POTTS:
        return t.a if i == j else t.b
    d = <double>(i - j)
    if t.kind == LINEAR:
        d = t.a * (d if d > 0 else -d)
    else:
        d = t.a * d * d
    return -d if d < t.b else -t.b


cdef void _potts(Py_ssize_t n, double agree, double differ, const double* a,
                 double* out) noexcept nogil:
    # the best of the other states is the best of all, but for the best itself
    cdef Py_ssize_t i, best = 0
    cdef double second = -INFINITY, other, same
    for i in range(1, n):
        if a[i] > a[best]:
            best = i
    for i in range(n):
        if i != best and a[i] > second:
            second = a[i]
    for i in range(n):
        other = (second if i == best else a[best]) + differ
        same = a[i] + agree
        out[i] = same if same > other else other


cdef void _linear(Py_ssize_t n, double scale, double limit, const double* a,
                  double* out) noexcept nogil:
    cdef Py_ssize_t i
    cdef double high = sks_largest(n, a) - limit
    out[0] = a[0]
    for i in range(1, n):
        out[i] = max(a[i], out[i - 1] - scale)
    for i in range(n - 2, -1, -1):
        out[i] = max(out[i], out[i + 1] - scale)
    for i in range(n):
        out[i] = max(out[i], high)


cdef void _quadratic(Py_ssize_t n, double scale, double limit, const double* a,
                     double* out, Scratch* scratch) noexcept nogil:
    # upper envelope of the parabolas a_i - scale (x - i)^2
    cdef Py_ssize_t i, n_top, k = 0
    cdef double cross, d, high = sks_largest(n, a) - limit
    cdef double* begin = scratch.value
    cdef Py_ssize_t* top = scratch.index
    if scale == 0.0:
        high = sks_largest(n, a)
        for i in range(n):
            out[i] = high
        return
    top[0] = 0
    begin[0] = -INFINITY
    for i in range(1, n):
        while True:
            cross = ((scale * i * i - a[i]) - (scale * top[k] * top[k] - a[top[k]])) \
                / (2.0 * scale * (i - top[k]))
            if cross > begin[k] or k == 0:
                break
            k -= 1
        if cross > begin[k]:
            k += 1
        top[k] = i
        begin[k] = cross if k else -INFINITY
    n_top = k
    k = 0
    for i in range(n):
        while k < n_top and begin[k + 1] < i:
            k += 1
        d = <double>(i - top[k])
        out[i] = max(a[top[k]] - scale * d * d, high)


cdef void _pruned(const TableSpec* t, double w, bint backward, const double* a,
                  double* out, Scratch* scratch) noexcept nogil:
    cdef Py_ssize_t n = t.cols if backward else t.rows      # states that send
    cdef Py_ssize_t size = t.rows if backward else t.cols   # and that receive
    cdef const double* high = t.col_high if backward else t.row_high
    cdef bint columns = backward and not t.symmetric
    cdef double* promise = scratch.value
    cdef Py_ssize_t* order = scratch.index
    cdef Py_ssize_t i, j, k, best = 0, count = 0
    cdef double low, c, top
    for i in range(n):
        promise[i] = a[i] + w * high[i]
    for i in range(1, n):
        if promise[i] > promise[best]:
            best = i
    if columns:
        low = INFINITY
        for j in range(size):
            out[j] = a[best] + w * t.data[j * t.cols + best]
            if out[j] < low:
                low = out[j]
    else:
        for j in range(size):
            out[j] = -INFINITY
        low = sks_row_raise(size, a[best], w, t.data + best * t.cols, out)
    for i in range(n):
        if promise[i] > low and i != best:
            order[count] = i
            count += 1
    if columns:
        if count * 8 > n:
            sks_backward(t.rows, t.cols, w, a, t.data, out)
            return
        for j in range(size):
            top = out[j]
            for k in range(count):
                c = a[order[k]] + w * t.data[j * t.cols + order[k]]
                if c > top:
                    top = c
            out[j] = top
        return
    if count * 4 > n * 3:
        sks_forward(t.rows, t.cols, w, a, t.data, out)
        return
    # the most promising of those left, while it can change anything
    while count:
        best = 0
        for k in range(1, count):
            if promise[order[k]] > promise[order[best]]:
                best = k
        i = order[best]
        if promise[i] <= low:
            return
        low = sks_row_raise(size, a[i], w, t.data + i * t.cols, out)
        count -= 1
        order[best] = order[count]
        if count > 64:
            # what cannot matter any more leaves, so that the search stays short
            j = 0
            for k in range(count):
                if promise[order[k]] > low:
                    order[j] = order[k]
                    j += 1
            count = j


cdef void send(const TableSpec* t, double w, bint backward, const double* a,
               double* out, Scratch* scratch) noexcept nogil:
    """out = max-plus product of a with w times the table, or its transpose."""
    cdef Py_ssize_t i, j
    cdef double c
    if t.kind == DENSE:
        if t.row_high != NULL and w > 0.0:
            _pruned(t, w, backward, a, out, scratch)
        elif backward:
            sks_backward(t.rows, t.cols, w, a, t.data, out)
        else:
            sks_forward(t.rows, t.cols, w, a, t.data, out)
    elif t.kind == POTTS:
        _potts(t.rows, w * t.a, w * t.b, a, out)
    elif w < 0.0:
        # distances that attract are not transforms: all pairs
        for j in range(t.cols):
            out[j] = -INFINITY
            for i in range(t.rows):
                c = a[i] + w * entry_of(t, i, j)
                if c > out[j]:
                    out[j] = c
    elif t.kind == LINEAR:
        _linear(t.rows, w * t.a, w * t.b if w > 0.0 else 0.0, a, out)
    else:
        _quadratic(t.rows, w * t.a, w * t.b if w > 0.0 else 0.0, a, out, scratch)


cdef bint holds(int condition, double limit, Py_ssize_t count,
                Py_ssize_t last) noexcept nogil:
    """Whether a condition holds where so many variables are on, and the last."""
    if condition == XOR:
        return count == 1
    if condition == ATMOSTONE:
        return count <= 1
    if condition == OR:
        return count >= 1
    if condition == OROUT:
        return (count > last) == last
    if condition == XOROUT:
        return count - last == last
    return count <= limit


cdef bint _is_potts(TableSpec* spec) noexcept nogil:
    """Two different entries, one of them on the diagonal: noted as such."""
    cdef Py_ssize_t i, j, n = spec.rows
    cdef double a = spec.data[0], b = spec.data[1]
    for i in range(n):
        for j in range(n):
            if spec.data[i * n + j] != (a if i == j else b):
                return False
    spec.kind, spec.a, spec.b = POTTS, a, b
    return True


cdef class MAPProblem:
    """Pointers into a graph without evidence and without -inf.

    Parameters
    ----------
    graph : FactorGraph
        The graph, which is kept.
    penalty : float, default=0.0
        Score of a condition that does not hold, in the place of -inf.
    """

    def __cinit__(self, graph, penalty=0.0):
        cdef Py_ssize_t e, k, v, t
        cdef Py_ssize_t[::1] place
        self.graph, self.penalty = graph, penalty
        self.n, self.m = graph.n_variables, graph.n_edges
        self.n_higher = graph.n_factors
        self.states, self.first = graph.n_states, graph.first_state
        self.max_states = int(graph.n_states.max(initial=1))
        self.unary = np.array(graph.unaries)
        self.ends, self.table_of = graph.edges, graph.edge_tables
        self.weighted = graph.edge_weights is not None
        self.weights = graph.edge_weights if self.weighted else np.ones(1)
        self._keep = []
        self.specs = <TableSpec*>calloc(max(1, len(graph.tables)), sizeof(TableSpec))
        self._scratch = <double*>malloc(self.max_states * sizeof(double))
        self._index = <Py_ssize_t*>malloc(self.max_states * sizeof(Py_ssize_t))
        if not self.specs or not self._scratch or not self._index:
            raise MemoryError
        self.scratch.value = self._scratch
        self.scratch.index = self._index
        uses = np.bincount(graph.edge_tables, minlength=len(graph.tables))
        for t, table in enumerate(graph.tables):
            self._specify(t, table, uses[t])

        self.adj_first = np.zeros(self.n + 1, dtype=np.intp)
        self.adj_edge = np.empty(2 * self.m, dtype=np.int32)
        place = np.zeros(self.n + 1, dtype=np.intp)
        for e in range(self.m):
            for k in range(2):
                self.adj_first[self.ends[e, k] + 1] += 1
        for v in range(self.n):
            self.adj_first[v + 1] += self.adj_first[v]
            place[v] = self.adj_first[v]
        for e in range(self.m):
            for k in range(2):
                v = self.ends[e, k]
                self.adj_edge[place[v]] = e
                place[v] += 1

        sizes = [len(scope) for scope in graph.factor_scopes]
        self.scope_first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        scopes = np.concatenate([*graph.factor_scopes, []]).astype(np.intp)
        self.scope = scopes
        self.higher_table = np.array(graph.factor_tables)
        order = np.argsort(scopes, kind="stable")
        counts = np.bincount(scopes, minlength=self.n)
        self.in_first = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        factor = np.repeat(np.arange(self.n_higher), sizes)
        self.in_factor = factor[order].astype(np.intp)
        place_in = np.arange(len(scopes)) - np.asarray(self.scope_first)[factor]
        self.in_place = place_in[order].astype(np.intp)

    def _specify(self, Py_ssize_t t, table, uses):
        cdef TableSpec* spec = &self.specs[t]
        cdef const double[::1] flat
        cdef double[::1] high
        spec.kind = table.kind
        if table.kind == LOGIC:
            flat = np.array(table.negated, dtype=np.float64)
            self._keep.append(flat)
            spec.data = &flat[0]
            spec.a = table.conditions.index(table.condition)
            spec.b = -1.0 if table.limit is None else table.limit
            return
        if len(table.shape) == 2:
            spec.rows, spec.cols = table.shape
        if table.kind != DENSE:
            spec.a, spec.b = table.parameters
            return
        values = table.dense()
        flat = values.reshape(-1)
        spec.data = &flat[0]
        self._keep.append(flat)
        if values.ndim != 2 or not uses:
            return
        if spec.rows == spec.cols > 2 and _is_potts(spec):
            return
        if min(table.shape) >= LARGE:
            high = np.empty(spec.rows + spec.cols)
            self._keep.append(high)
            spec.row_high = &high[0]
            spec.col_high = &high[spec.rows]
            sks_extremes(spec.rows, spec.cols, spec.data, spec.row_high, spec.col_high)
            spec.symmetric = (uses > 4 and spec.rows == spec.cols
                              and np.array_equal(values, values.T))

    def __dealloc__(self):
        free(self.specs)
        free(self._scratch)
        free(self._index)

    cdef double weight(self, Py_ssize_t e) noexcept nogil:
        return self.weights[e] if self.weighted else 1.0

    cdef double entry(self, Py_ssize_t e, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
        """Score of the states i and j of the ends of an edge."""
        cdef double c = entry_of(&self.specs[self.table_of[e]], i, j)
        return c * self.weights[e] if self.weighted else c

    cdef void add_states(self, Py_ssize_t e, bint backward, Py_ssize_t state,
                         double* out) noexcept nogil:
        """out[j] += score of (state, j), or with backward of (j, state)."""
        cdef const TableSpec* t = &self.specs[self.table_of[e]]
        cdef double w = self.weight(e)
        cdef Py_ssize_t j
        if t.kind == DENSE and backward:
            for j in range(t.rows):
                out[j] += w * t.data[j * t.cols + state]
        elif t.kind == DENSE:
            for j in range(t.cols):
                out[j] += w * t.data[state * t.cols + j]
        elif t.kind == POTTS:
            for j in range(t.cols):
                out[j] += w * t.b
            out[state] += w * (t.a - t.b)
        else:
            for j in range(t.cols):
                out[j] += w * entry_of(t, state, j)

    cdef void message(self, Py_ssize_t e, bint backward, const double* a,
                      double* out) noexcept nogil:
        send(&self.specs[self.table_of[e]], self.weight(e), backward, a, out,
             &self.scratch)

    cdef double higher_entry(self, Py_ssize_t f, const int32_t* x) noexcept nogil:
        """Score of a factor of three or more variables."""
        cdef const TableSpec* t = &self.specs[self.higher_table[f]]
        cdef Py_ssize_t k, v, at = 0, begin = self.scope_first[f]
        cdef Py_ssize_t count = 0, last = 0, end = self.scope_first[f + 1]
        if t.kind == DENSE:
            for k in range(begin, end):
                v = self.scope[k]
                at = at * self.states[v] + x[v]
            return t.data[at]
        for k in range(begin, end):
            last = x[self.scope[k]] != <int32_t>t.data[k - begin]
            count += last
        return 0.0 if holds(<int>t.a, t.b, count, last) else self.penalty

    cdef double score(self, const int32_t* x) noexcept nogil:
        """Score of a labeling, factors of three or more variables left out."""
        cdef Py_ssize_t v, e
        cdef double total = 0.0
        for v in range(self.n):
            total += self.unary[self.first[v] + x[v]]
        for e in range(self.m):
            total += self.entry(e, x[self.ends[e, 0]], x[self.ends[e, 1]])
        return total

    def labeling_score(self, labeling):
        """Score of a labeling.

        Parameters
        ----------
        labeling : ndarray of shape (n_variables,), int32
            States.

        Returns
        -------
        score : float
            Its score, with penalties in the place of -inf.
        """
        cdef Py_ssize_t f
        cdef const int32_t[::1] x = np.ascontiguousarray(labeling, dtype=np.int32)
        cdef double total
        if not self.n:
            return 0.0
        with nogil:
            total = self.score(&x[0])
            for f in range(self.n_higher):
                total += self.higher_entry(f, &x[0])
        return total

    def max_product(self, Py_ssize_t edge, values, bint backward=False):
        """Message of one edge.

        Parameters
        ----------
        edge : int
            The edge (u, v).
        values : ndarray of shape (n_states[u],), or of v with backward
            What is added to the edge's scores.
        backward : bool, default=False
            From v to u.

        Returns
        -------
        message : ndarray of shape (n_states[v],), or of u with backward
            Maxima over the states of the sender.
        """
        cdef const double[::1] a = np.ascontiguousarray(values, dtype=np.float64)
        cdef Py_ssize_t receiver = self.ends[edge, 0 if backward else 1]
        cdef double[::1] out = np.empty(self.states[receiver])
        if a.shape[0] != self.states[self.ends[edge, 1 if backward else 0]]:
            raise ValueError("values must have an entry for each state")
        self.message(edge, backward, &a[0], &out[0])
        return np.asarray(out)

    def indicator(self, labeling):
        """Marginals of a labeling.

        Parameters
        ----------
        labeling : ndarray of shape (n_variables,)
            States.

        Returns
        -------
        marginals : ndarray of shape (n_states.sum(),)
            1 at each variable's state, else 0.
        """
        flat = np.zeros(self.first[self.n])
        flat[np.asarray(self.graph.first_state)[:self.n] + labeling] = 1.0
        return flat
