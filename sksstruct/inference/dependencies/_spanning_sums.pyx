"""Sums over all dependency trees, by elimination without subtraction.

The sum over all trees of the products of their weights is a determinant (Tutte, 1948;
Koo et al., 2007). Gaussian elimination removes one word after the other: when word k
with pivot s_k = sum_h w_hk is removed, its weights are added to those of other words,

    w_hm += w_km w_hk / s_k,

and the determinant is the product of the pivots. A diagonal entry is the sum of its
column, so that the elimination needs no subtraction (Grassmann, Taksar and Heyman,
1985). The result is accurate even if the matrix is ill-conditioned.

The probability of head h of word k is proportional to w_hk e_h, where e_h is the
probability that a walk from h, which steps from a word to a head by weight, reaches the
root before k (Wilson, 1996). If k is the last remaining word, e follows by
substitution. By recursive halving each word is the last one once: one half of the words
is removed, then recursively one half of the rest, and likewise with the halves
exchanged. The algorithm takes O(n^3).

With a single root, the weights of arcs from the root count as infinitely small: a pivot
is the sum of all other weights. If this sum is zero, the word must be the one below the
root, and replaces the root.

T. Koo, A. Globerson, X. Carreras and M. Collins, "Structured prediction models via
the matrix-tree theorem", EMNLP-CoNLL 2007.
W. K. Grassmann, M. I. Taksar and D. P. Heyman, "Regenerative analysis and steady state
distributions for Markov chains", Operations Research 33(5), 1985.
D. B. Wilson, "Generating random spanning trees more quickly than the cover time", STOC
1996.
"""

from libc.math cimport INFINITY, NAN, exp, fabs, log, log1p
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.dependencies._arcs cimport load_rows, row_length, weigh_rows
from sksstruct.utils._pointers cimport const_doubles, doubles
from sksstruct.utils._simd cimport sks_axpy, sks_dot, sks_logsum, sks_rescale, sks_weigh

# Weights are probabilities of heads, and terms that underflow in a sum are below
# 1e-308: negligible as long as no product of pivots is smaller than this.
cdef double SMALLEST = 1e-280


cdef struct Elimination:
    Py_ssize_t n, ld
    bint logs
    double zero, one
    const double* arcs  # (n + 1, ld): weight of arcs[modifier, head]
    # for each word: weights of the arcs from all heads; zero for heads removed before
    # the word
    double** row
    double* pivot       # pivot of each removed word
    double* zeros       # (ld,)
    # (ld,): probability that a walk from each head reaches the root before the last
    # remaining word; and probability of each head of this word
    double* escape
    double* shares
    int32_t* order      # removed words, the first removed word first
    double* means
    # state of the elimination: number of removed words; word that replaced the root;
    # whether the root, or its replacement, may have any number of words; and product of
    # pivots
    Py_ssize_t n_out, substitute
    bint rooted
    double product


cdef Py_ssize_t n_levels(Py_ssize_t n) noexcept nogil:
    """Return the number of tables for n words: the halvings of n, and two more."""
    cdef Py_ssize_t levels = 2
    while n > 1:
        n = (n + 1) // 2
        levels += 1
    return levels


cdef Py_ssize_t spanning_scratch(Py_ssize_t n) noexcept nogil:
    """Number of doubles of memory that `nonprojective_sums` needs."""
    return (n_levels(n) * (n + 1) + 3) * row_length(n) + 4 * (n + 1)


cdef double eliminate(Elimination* e, const int32_t* others, Py_ssize_t n_others,
                      Py_ssize_t word) noexcept nogil:
    """Eliminate a word from the rows of the words `others`; return the word's pivot."""
    cdef double* row = e.row[word]
    cdef double* other
    cdef double root = row[0], factor
    cdef Py_ssize_t i, head
    cdef bint replaces
    if not e.rooted:
        row[0] = e.zero
    factor = sks_logsum(e.ld, row, e.zeros) if e.logs else sum_of(e.ld, row)
    row[0] = root
    replaces = not e.rooted and factor == e.zero
    if replaces:
        factor = root
    e.pivot[word], e.order[e.n_out] = factor, <int32_t> word
    e.n_out += 1
    e.product = e.product + factor if e.logs else e.product * factor
    for i in range(n_others):
        other = e.row[others[i]]
        if replaces:
            other[0] = other[word]
        elif other[word] != e.zero and factor != e.zero:
            if e.logs:
                for head in range(e.n + 1):
                    other[head] = log_plus(other[head],
                                           other[word] - factor + row[head])
            else:
                sks_axpy(e.ld, other[word] / factor, row, other)
            other[others[i]] = e.zero
        other[word] = e.zero
    if replaces:
        e.rooted, e.substitute = True, word
    return factor


cdef inline double sum_of(Py_ssize_t ld, const double* row) noexcept nogil:
    """Return the sum of a row, as four independent sums."""
    cdef double a = 0.0, b = 0.0, c = 0.0, d = 0.0
    cdef Py_ssize_t i
    for i in range(0, ld, 4):
        a += row[i]
        b += row[i + 1]
        c += row[i + 2]
        d += row[i + 3]
    return (a + b) + (c + d)


cdef inline double log_plus(double x, double y) noexcept nogil:
    """Return log(exp(x) + exp(y))."""
    if y == -INFINITY:
        return x
    if x == -INFINITY:
        return y
    return max(x, y) + log1p(exp(-fabs(x - y)))


cdef void write_means(Elimination* e, Py_ssize_t last) noexcept nogil:
    """Write the probabilities of the heads of the last remaining word."""
    cdef Py_ssize_t i, word, head
    cdef double* escape = e.escape
    cdef double* shares = e.shares
    cdef const double* arcs = e.arcs + last * e.ld
    cdef double total
    for i in range(e.ld):
        escape[i] = e.zero
    escape[0] = e.one
    for i in range(e.n_out - 1, -1, -1):
        word = e.order[i]
        if word == e.substitute:
            escape[word], escape[0] = e.one, e.zero
        elif e.logs:
            escape[word] = sks_logsum(e.ld, e.row[word], escape) - e.pivot[word]
        else:
            escape[word] = sks_dot(e.ld, e.row[word], escape) / e.pivot[word]
    if e.logs:
        total = sks_logsum(e.ld, arcs, escape)
        for head in range(e.n + 1):
            shares[head] = exp(arcs[head] + escape[head] - total)
    else:
        total = sks_weigh(e.ld, arcs, escape, shares)
        sks_rescale(e.ld, 1.0 / total, shares)
    for head in range(e.n + 1):
        e.means[head * e.n + last - 1] = shares[head]


cdef bint leave_each(Elimination* e, int32_t* words, Py_ssize_t size, double* table,
                     double* memory) noexcept nogil:
    """Write the probabilities of the heads of each of some words.

    Each word becomes the last remaining word once, by recursive halving. Returns False
    on underflow.

    The rows of the words are in `table`, and may be changed.
    """
    cdef Py_ssize_t i, side, n_left, n_out = e.n_out, substitute = e.substitute
    cdef Py_ssize_t cells = (e.n + 1) * e.ld
    cdef bint rooted = e.rooted
    cdef double product = e.product
    cdef double* rows
    if size == 1:
        write_means(e, words[0])
        return True
    for side in range(2):
        n_left = size // 2 if side == 0 else size - size // 2
        rows = table if side else memory
        for i in range(size):
            e.row[words[i]] = rows + words[i] * e.ld
            if side == 0:
                memcpy(e.row[words[i]], table + words[i] * e.ld, e.ld * sizeof(double))
        # side 1 leaves the second half, which the reversal moves to the front
        if side:
            for i in range(size // 2):
                words[i], words[size - 1 - i] = words[size - 1 - i], words[i]
        for i in range(size - 1, n_left - 1, -1):
            eliminate(e, words, i, words[i])
            if not e.logs and not e.product >= SMALLEST:
                return False
        if not leave_each(e, words, n_left, rows, memory if side else memory + cells):
            return False
        e.n_out, e.substitute, e.rooted, e.product = n_out, substitute, rooted, product
    return True


cdef double run(Elimination* e, bint single_root, double* table,
                int32_t* words) noexcept nogil:
    """Return the logarithm of the sum over all trees, or NaN on underflow.

    The probabilities of arcs are written to `means`, unless it is NULL.
    """
    cdef Py_ssize_t word, cells = (e.n + 1) * e.ld
    cdef double* memory = table + cells
    cdef double value
    e.zero = -INFINITY if e.logs else 0.0
    e.one = 0.0 if e.logs else 1.0
    e.n_out, e.substitute, e.rooted = 0, 0, not single_root
    e.product = e.one
    memcpy(memory, table, cells * sizeof(double))
    for word in range(1, e.n + 1):
        e.row[word] = memory + word * e.ld
        words[word - 1] = <int32_t> word
    for word in range(e.n, 0, -1):
        eliminate(e, words, word - 1, word)
        if not e.logs and not e.product >= SMALLEST:
            return NAN
    value = e.product if e.logs else log(e.product)
    if value == -INFINITY or e.means == NULL:
        return value
    e.n_out, e.substitute, e.rooted, e.product = 0, 0, not single_root, e.one
    memcpy(memory, table, cells * sizeof(double))
    if not leave_each(e, words, e.n, memory, memory + cells):
        return NAN
    return value


cdef double nonprojective_sums(Py_ssize_t n, bint single_root, const double* scores,
                               double scale, double* scratch,
                               double* means) noexcept nogil:
    """Return the log-partition of scaled scores; write the probability of each arc."""
    cdef Elimination e
    cdef double shift, value
    cdef double* rest
    cdef int32_t* words
    e.n, e.ld, e.arcs, e.means, e.logs = n, row_length(n), scratch, means, False
    rest = scratch + n_levels(n) * (n + 1) * e.ld
    e.zeros, e.escape, e.shares = rest, rest + e.ld, rest + 2 * e.ld
    rest += 3 * e.ld
    e.pivot, e.row = rest, <double**> (rest + n + 1)
    e.order = <int32_t*> (rest + 2 * (n + 1))
    words = e.order + n + 1
    memset(e.zeros, 0, e.ld * sizeof(double))
    if means != NULL:
        memset(means, 0, (n + 1) * n * sizeof(double))
    load_rows(n, scores, scale, scratch)
    shift = weigh_rows(n, single_root, scratch)
    if shift == -INFINITY:
        return shift
    value = run(&e, single_root, scratch, words)
    if value == value:
        return shift + value
    # sums of logarithms do not underflow, but take several times as long
    e.logs = True
    load_rows(n, scores, scale, scratch)
    return run(&e, single_root, scratch, words)


def sums_memory(Py_ssize_t n):
    """Return the number of doubles of memory that `find_sums` needs."""
    return spanning_scratch(n)


def find_sums(bint single_root, scores, double scale, scratch, marginals):
    """Write the probabilities of arcs, and return the log-partition."""
    cdef Py_ssize_t n = marginals.shape[1]
    cdef const double* arcs = const_doubles(scores)
    cdef double* memory = doubles(scratch)
    cdef double* means = doubles(marginals)
    cdef double value
    with nogil:
        value = nonprojective_sums(n, single_root, arcs, scale, memory, means)
    return value
