# Scores of the arcs of n words. The root is head 0 and the words are 1 to n: the arc
# from a head to a modifier is at scores[head * n + modifier - 1], -inf without an arc.
# Entries of a word as its own head are ignored. A labeling has the head of each word,
# heads[modifier - 1]; with single_root exactly one head is 0.

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t

from sksstruct.utils._simd cimport sks_exp_row, sks_rescale


cdef inline Py_ssize_t row_length(Py_ssize_t n) noexcept nogil:
    """Return the length of a padded row of n + 1 heads, a multiple of 8."""
    return (n + 8) // 8 * 8


cdef inline void load_rows(Py_ssize_t n, const double* scores, double scale,
                           double* rows) noexcept nogil:
    """Write scaled scores of arcs, with a row for each modifier and -inf elsewhere.

    `rows` is of shape (n + 1, row_length(n)); a row has a column for each head.
    """
    cdef Py_ssize_t ld = row_length(n), head, modifier, entry
    for entry in range((n + 1) * ld):
        rows[entry] = -INFINITY
    for head in range(n + 1):
        for modifier in range(1, n + 1):
            if head != modifier:
                rows[modifier * ld + head] = scale * scores[head * n + modifier - 1]


cdef inline double weigh_rows(Py_ssize_t n, bint single_root,
                              double* rows) noexcept nogil:
    """Exponentiate rows, and divide each by its sum; return the log of the divisors.

    The result is the logarithm of the factor by which all trees' weights were divided.
    With a single root, arcs from the root are not part of the sums. As each tree has
    one arc from the root, weights of arcs from the root are divided by the largest of
    these weights. The result is -inf if no word may be below a single root, or, without
    a single root, if a word has no head.
    """
    cdef Py_ssize_t ld = row_length(n), head, modifier
    # Shifts of rows and logarithms of sums have separate totals, so that the logarithms
    # keep their digits if large shifts cancel.
    cdef double total = 0.0, logs = 0.0, highest = -INFINITY, top, low, root, mass
    cdef double root_of_highest = 0.0, top_of_highest = 0.0, log_of_highest = 0.0
    cdef double* row
    # each tree has one arc per row, so that all trees are divided by the same number
    for modifier in range(1, n + 1):
        row = rows + modifier * ld
        root = row[0]
        if single_root:
            row[0] = -INFINITY
        top = sks_exp_row(n + 1, ld, row, row, &low)
        if top == -INFINITY and not single_root:
            return -INFINITY
        mass = 0.0
        for head in range(n + 1):
            mass += row[head]
        # only the root can be the head of this word
        if top == -INFINITY:
            top, mass = 0.0, 1.0
        sks_rescale(ld, 1.0 / mass, row)
        mass = log(mass)
        if single_root:
            row[0] = (root - top) - mass
            # the divisor of the word with the highest arc from the root cancels, and is
            # left out
            if row[0] > highest:
                highest, root_of_highest = row[0], root
                top, top_of_highest = top_of_highest, top
                mass, log_of_highest = log_of_highest, mass
        total += top
        logs += mass
    if not single_root:
        return total + logs
    if highest == -INFINITY:
        return -INFINITY
    for modifier in range(1, n + 1):
        rows[modifier * ld] = exp(rows[modifier * ld] - highest)
    return (total + root_of_highest) + logs


cdef inline double tree_score(Py_ssize_t n, const double* scores,
                              const int32_t* heads) noexcept nogil:
    """Return the sum of the scores of a tree's arcs."""
    cdef Py_ssize_t modifier
    cdef double total = 0.0
    for modifier in range(n):
        total += scores[heads[modifier] * n + modifier]
    return total
