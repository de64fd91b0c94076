"""Sum-product on chains with scores of triples of labels.

The notation is that of `_sumproduct.pyx`; x(a, b, c) is the exponential of a triple's
score, and one for triples without a weight. The weights of prefixes that end in labels
b, c at t - 1 and t are

    alpha_t(b, c) = v(b, c) u_t(c) sum_a alpha_{t-1}(a, b) x(a, b, c)

where all a without weights before b share one row of ones (`_triples.pyx`). No sum has
negative terms, so that every sum is as exact as its terms. The backward recursion is

    beta_{t-1}(a, b) = sum_c x(a, b, c) v(b, c) u_t(c) beta_t(b, c)

and alpha_t beta_t are the probabilities of pairs. The backward pass drops pairs less
probable than 1e-15; their number times 1e-15 bounds the error of the means.

Messages are scaled, and compared with a limit, as in `_sumproduct.pyx`. If they could
underflow, the recursions are computed in log space.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.utils._simd cimport (
    sks_add_table, sks_axpy, sks_exp_row, sks_logplus, sks_max, sks_rescale,
    sks_scores_f64, sks_step_back, sks_weigh,
)

from sksstruct.utils._layout import aligned_zeros

# TINY is that of `_sumproduct.pyx`. The backward pass drops pairs less probable than
# LEAST.
cdef double TINY = 1e-290, LEAST = 1e-15


cdef class TripleTable:
    """Weights of triples, times a factor, and their exponentials.

    Parameters
    ----------
    triples : LabelTriples
        Triples that have a weight.
    """

    def __cinit__(self, LabelTriples triples):
        rows = aligned_zeros(triples.n_rows * triples.ld)
        cdef double[::1] ahead = rows
        cdef Py_ssize_t padded = (triples.n_weights + 7) // 8 * 8
        cdef double[::1] weights = aligned_zeros(2 * padded)
        # entries of triples without a weight stay exp(0) = 1, and the padding stays 0
        rows.reshape(-1, triples.ld)[:, :triples.n_labels] = 1.0
        self.triples, self._arrays = triples, (ahead, weights)
        self.ahead, self.weights = &ahead[0], &weights[0]
        self._powers = self.weights + padded

    cdef int load(self, const double* weights, double factor,
                  bint exponentials) noexcept nogil:
        """Set the weights, times a factor, low, high and, on request, exponentials."""
        cdef Py_ssize_t n = self.triples.n_weights, k
        cdef double scale, low
        self.low = self.high = 0.0
        for k in range(n):
            self.weights[k] = factor * weights[k]
            self.low = min(self.low, self.weights[k])
            self.high = max(self.high, self.weights[k])
        # max-product needs no exponentials, and neither do sums in log space, which
        # replace these sums if weights differ by more than the bound
        if exponentials and self.high - self.low <= 600.0:
            # `sks_exp_row` exponentiates many weights at once, relative to the largest
            scale = exp(sks_exp_row(
                n, (n + 7) // 8 * 8, self.weights, self._powers, &low))
            for k in range(n):
                self.ahead[self.triples.place[k]] = scale * self._powers[k]
        return 0


cdef class SecondOrderSums:
    """Sum-product on chains with triples, with the scratch of one thread.

    Parameters
    ----------
    table : TripleTable
        Weights of triples; they may change from call to call.
    max_size : int
        Length of the longest chain.
    """

    def __cinit__(self, TripleTable table, Py_ssize_t max_size):
        cdef Py_ssize_t n = table.triples.n_labels, ld = table.triples.ld
        cdef Py_ssize_t cells = table.triples.n_rows * ld
        cdef double[::1] memory = aligned_zeros(
            2 * cells + (max_size + 2) * (n + 1) * ld + 4 * ld + max_size)
        self.table, self._arrays = table, memory
        self._n, self._ld = n, ld
        self._outer, self._scores = &memory[0], &memory[cells]
        self._prefix = self._scores + cells
        self._suffix = self._prefix + max_size * n * ld
        self._pairs = self._suffix + n * ld
        self._u = self._pairs + n * ld
        self._row = self._u + max_size * ld
        self._zeros = self._row + ld
        self._values = self._zeros + ld
        self._shares = self._values + 2 * ld
        self._scales = self._shares + 2 * ld

    cdef int expect(
        self, Py_ssize_t size, const double* theta, const EdgeTable* tables,
        Py_ssize_t step, double* nodes, double weight, double* edges,
        Py_ssize_t edges_step, double* triples, double* log_partition
    ) except -1 nogil:
        """Write the node marginals; add weight times pair and triple marginals.

        There are at least two positions. Pair marginals are added to edges, and triple
        marginals to triples, unless these are NULL; nodes is NULL if the caller asks
        for the log-partition only. Otherwise see `sum_product_padded`.
        """
        cdef bint scaled
        self._size, self._theta, self._tables, self._step = size, theta, tables, step
        self._nodes, self._weight, self._triples = nodes, weight, triples
        self._edges, self._edges_step = edges, edges_step
        scaled = self._sum_prefixes(log_partition)
        if not scaled:
            log_partition[0] = self._sum_logarithms()
        # there are no means if every labeling is forbidden, or if the caller asks for
        # the log-partition only
        if log_partition[0] == -INFINITY or nodes == NULL:
            return 0
        memset(nodes, 0, size * self._ld * sizeof(double))
        if scaled:
            self._find_means()
        else:
            self._find_means_of_logarithms(log_partition[0])
        return 0

    # ---- scaled messages ----

    cdef bint _sum_prefixes(self, double* log_partition) noexcept nogil:
        """Sum the weights of all prefixes; return False if a weight could underflow."""
        cdef Py_ssize_t n = self._n, ld = self._ld, t, b, count
        cdef double low, lowest = 0.0, lowest_edge = 0.0, mass, limit
        cdef const EdgeTable* table
        cdef double* out
        log_partition[0] = 0.0
        for t in range(self._size):
            log_partition[0] += sks_exp_row(
                n, ld, self._theta + t * ld, self._u + t * ld, &low)
            lowest = min(low, lowest)
        if log_partition[0] == -INFINITY:
            return True
        for t in range(self._size - 1 if self._step else 1):
            lowest_edge = min(self._tables[t].low, lowest_edge)
        lowest += lowest_edge + self.table.low - self.table.high
        # exp(lowest): the product of the smallest factors of a message at one position
        if lowest < -600.0:
            return False
        limit = TINY * exp(-lowest)
        for t in range(1, self._size):
            table = self._tables + (t - 1) * self._step
            out = self._prefix + t * n * ld
            mass = 0.0
            for b in range(n):
                if t == 1:
                    memset(self._row, 0, ld * sizeof(double))
                    sks_axpy(ld, self._u[b], table.ahead + b * ld, self._row)
                else:
                    count = self.table.triples.gather(
                        b, out - n * ld, True, self._values)
                    sks_scores_f64(
                        count, NULL, self._values, 1.0,
                        self.table.ahead + self.table.triples.first_row[b] * ld, ld,
                        self._zeros, self._row)
                    sks_weigh(ld, self._row, table.ahead + b * ld, self._row)
                mass += sks_weigh(ld, self._row, self._u + t * ld, out + b * ld)
            if mass == 0.0:
                log_partition[0] = -INFINITY
                return True
            if mass < TINY:
                return False
            log_partition[0] += log(mass) + table.shift
            self._scales[t] = 1.0 / mass
            low = INFINITY
            for b in range(n):
                low = min(low, sks_rescale(ld, 1.0 / mass, out + b * ld))
            if low < limit:
                return False
        return True

    cdef void _find_means(self) noexcept nogil:
        """Add the marginals of labels, pairs and triples, from the last position on."""
        cdef Py_ssize_t n = self._n, ld = self._ld, t, b, k
        for k in range(n * ld):
            self._suffix[k] = 1.0
        for t in range(self._size - 1, 0, -1):
            for b in range(n):
                sks_weigh(ld, self._prefix + (t * n + b) * ld, self._suffix + b * ld,
                          self._pairs + b * ld)
            self._add_pairs(t)
            if t == 1:
                break
            for b in range(n):
                self._row[b] = self._weigh_suffixes(t, b)
            memset(self._suffix, 0, n * ld * sizeof(double))
            for b in range(n):
                if self._row[b] > 0.0:
                    self._step_back(t, b)
        self._add_triples()

    cdef void _add_pairs(self, Py_ssize_t t) noexcept nogil:
        """Add marginals of pairs at t - 1, t to `_nodes` and, weighted, to `_edges`."""
        cdef Py_ssize_t n = self._n, ld = self._ld, b, c
        for b in range(n):
            sks_axpy(ld, 1.0, self._pairs + b * ld, self._nodes + t * ld)
            for c in range(n if t == 1 else 0):
                self._nodes[b] += self._pairs[b * ld + c]
        if self._edges != NULL:
            sks_add_table(n * ld, self._weight, self._pairs,
                          self._edges + (t - 1) * self._edges_step)

    cdef double _weigh_suffixes(self, Py_ssize_t t, Py_ssize_t b) noexcept nogil:
        """Replace the probability of each pair (b, c) by the weight of its suffixes.

        The weight is zero for pairs that are less probable than LEAST. Returns the
        largest weight.
        """
        cdef Py_ssize_t n = self._n, ld = self._ld, c
        cdef double* pairs = self._pairs + b * ld
        cdef const double* ahead = self._tables[(t - 1) * self._step].ahead + b * ld
        cdef const double* suffix = self._suffix + b * ld
        cdef const double* u = self._u + t * ld
        cdef double scale = self._scales[t], given
        for c in range(n):
            given = ahead[c] * u[c] * suffix[c] * scale
            pairs[c] = given if pairs[c] >= LEAST else 0.0
        return sks_max(n, pairs)

    cdef void _step_back(self, Py_ssize_t t, Py_ssize_t b) noexcept nogil:
        """Write the weights of suffixes that begin with each a at t - 2 and b at t - 1.

        Collects the means of triples (a, b, c) in `_outer`.
        """
        cdef Py_ssize_t n = self._n, ld = self._ld, k
        cdef Py_ssize_t first = self.table.triples.first_row[b] * ld
        cdef const int32_t* before = self.table.triples.before + b * n
        # the last row stands for all pairs (a, b) without weights; `_add_triples` does
        # not read the means that it collects
        cdef Py_ssize_t last = self.table.triples.gather(
            b, self._prefix + (t - 1) * n * ld, True, self._values) - 1
        sks_step_back(
            last + 1, ld, self.table.ahead + first, self._pairs + b * ld, self._values,
            self._shares, NULL if self._triples == NULL else self._outer + first)
        for k in range(n):
            self._suffix[before[k] * ld + b] = self._shares[min(k, last)]

    cdef void _add_triples(self) noexcept nogil:
        """Add to `_triples` the means that `_step_back` collected, times `ahead`."""
        cdef Py_ssize_t k, place
        if self._triples == NULL:
            return
        for k in range(self.table.triples.n_weights):
            place = self.table.triples.place[k]
            self._triples[k] += (
                self._weight * self._outer[place] * self.table.ahead[place])
        memset(self._outer, 0, self.table.triples.n_rows * self._ld * sizeof(double))

    # ---- logarithms ----

    cdef double _sum_logarithms(self) noexcept nogil:
        """Sum the weights of prefixes in log space; return the log-partition."""
        cdef Py_ssize_t n = self._n, ld = self._ld, t, b, k, count
        cdef const int32_t* before
        cdef const double* pairs
        cdef double* out
        cdef double total = 0.0, high = -INFINITY
        for k in range(self.table.triples.n_weights):
            self._scores[self.table.triples.place[k]] = self.table.weights[k]
        for t in range(1, self._size):
            out, pairs = self._prefix + t * n * ld, self._prefix + (t - 1) * n * ld
            memcpy(out, self._tables[(t - 1) * self._step].scores,
                   n * ld * sizeof(double))
            for b in range(n):
                sks_axpy(ld, 1.0, self._theta + t * ld, out)
                if t == 1:
                    for k in range(n):
                        out[k] += self._theta[b]
                else:
                    count = self.table.triples.gather(b, pairs, False, self._values)
                    # `gather` wrote the maximum over labels a without a row; log space
                    # needs the logarithm of a sum
                    before, total = self.table.triples.before + b * n, 0.0
                    high = self._values[count - 1]
                    for k in range(count - 1, n if high > -INFINITY else 0):
                        total += exp(pairs[before[k] * ld + b] - high)
                    self._values[count - 1] += log(total) if total > 0.0 else 0.0
                    sks_logplus(
                        count, ld, self._values,
                        self._scores + self.table.triples.first_row[b] * ld, out)
                out += ld
        out, high, total = self._prefix + (self._size - 1) * n * ld, -INFINITY, 0.0
        for b in range(n):
            for k in range(n):
                high = max(high, out[b * ld + k])
        for b in range(n if high > -INFINITY else 0):
            for k in range(n):
                total += exp(out[b * ld + k] - high)
        return high + log(total) if high > -INFINITY else high

    cdef void _find_means_of_logarithms(self, double log_partition) noexcept nogil:
        """Add the marginals of labels, pairs and triples, computed in log space."""
        cdef Py_ssize_t n = self._n, ld = self._ld, t, b, c
        cdef const double* last = self._prefix + (self._size - 1) * n * ld
        for b in range(n):
            for c in range(n):
                self._suffix[b * ld + c] = exp(last[b * ld + c] - log_partition)
        # `_add_pairs` adds whole rows: their padding must be zero
        memset(self._pairs, 0, n * ld * sizeof(double))
        for t in range(self._size - 1, 0, -1):
            for b in range(n):
                memcpy(self._pairs + b * ld, self._suffix + b * ld, n * sizeof(double))
            self._add_pairs(t)
            memset(self._suffix, 0, n * ld * sizeof(double))
            for b in range(n if t > 1 else 0):
                for c in range(n):
                    if self._pairs[b * ld + c] > 0.0:
                        self._distribute_pair(t, b, c, self._pairs[b * ld + c])

    cdef void _distribute_pair(self, Py_ssize_t t, Py_ssize_t b, Py_ssize_t c,
                               double share) noexcept nogil:
        """Distribute the probability of a pair among the labels before the pair."""
        cdef Py_ssize_t n = self._n, ld = self._ld, a, k
        cdef const double* prefix = self._prefix + (t - 1) * n * ld + b
        cdef double high = -INFINITY, total = 0.0
        cdef int32_t labels[3]
        for a in range(n):
            k = self.table.triples.row[a * n + b]
            self._values[a] = prefix[a * ld] + (
                self._scores[k * ld + c] if k >= 0 else 0.0)
            high = max(high, self._values[a])
        for a in range(n):
            self._values[a] = exp(self._values[a] - high)
            total += self._values[a]
        labels[1], labels[2] = <int32_t> b, <int32_t> c
        for a in range(n):
            self._values[a] *= share / total
            self._suffix[a * ld + b] += self._values[a]
            labels[0] = <int32_t> a
            k = self.table.triples.find(labels) if self._triples != NULL else -1
            if k >= 0:
                self._triples[k] += self._weight * self._values[a]
