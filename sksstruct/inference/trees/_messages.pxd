# The steps of max-product on a tree, shared by chains, forests and graphs.
#
# Rows are scores of the n states of one variable. A message from a child to its parent
# is, for each state b of the parent, max_a row[a] + table[a, b] over the states a of
# the child; it is added to the parent's row. On the way back each child takes its
# lowest best state given that of its parent. Tables have rows of ld entries. A table
# that is stored from child to parent goes through `sks_maxplus`, which is the fastest.

from libc.math cimport INFINITY


cdef inline Py_ssize_t best_state(Py_ssize_t n, const double* row) noexcept nogil:
    """The lowest of the n states of largest score."""
    cdef Py_ssize_t state, best = 0
    cdef double highest = row[0]
    # strictly larger only: the lowest state wins a tie
    for state in range(1, n):
        if row[state] > highest:
            highest = row[state]
            best = state
    return best


cdef inline Py_ssize_t best_state_given(
    Py_ssize_t n, const double* row, const double* pair_scores, Py_ssize_t stride
) noexcept nogil:
    """The lowest of the n best states given the state of the parent.

    State a scores pair_scores[stride * a] together with it: a column of a table from
    child to parent (stride ld), or a row of one from parent to child (stride 1).
    """
    cdef Py_ssize_t state, best = 0
    cdef double score, highest = row[0] + pair_scores[0]
    # the same tie rule: that of `viterbi` and `max_product`
    for state in range(1, n):
        score = row[state] + pair_scores[stride * state]
        if score > highest:
            highest = score
            best = state
    return best


cdef inline Py_ssize_t best_state_given_potts(
    Py_ssize_t n, const double* row, double agreement, Py_ssize_t state_of_parent
) noexcept nogil:
    """The lowest of the n best states where that of the parent gains by agreement."""
    cdef Py_ssize_t state, best = 0
    cdef double score, highest = -INFINITY
    for state in range(n):
        score = row[state]
        if state == state_of_parent:
            score += agreement
        if score > highest:
            highest = score
            best = state
    return best


cdef inline void add_turned_message(
    Py_ssize_t n, Py_ssize_t n_parent, Py_ssize_t ld, const double* row,
    const double* table, double* out
) noexcept nogil:
    """Add the message through a table that is stored from parent to child."""
    cdef Py_ssize_t state, state_of_parent
    cdef double score, highest
    for state_of_parent in range(n_parent):
        highest = table[0] + row[0]
        for state in range(1, n):
            score = table[state] + row[state]
            highest = score if score > highest else highest
        out[state_of_parent] += highest
        table += ld


cdef inline void add_potts_message(Py_ssize_t n, const double* row, double agreement,
                                   double* out) noexcept nogil:
    """Add the message through a table with one score on its diagonal, else zero."""
    cdef Py_ssize_t state, best = 0
    cdef double score, other, highest = row[0], second = -INFINITY
    for state in range(1, n):
        if row[state] > highest:
            second, highest, best = highest, row[state], state
        elif row[state] > second:
            second = row[state]
    # A state of the parent gets that of the same state, or the best of the others:
    # which is the best of all, and for the best itself the second.
    for state in range(n):
        score = row[state] + agreement
        other = second if state == best else highest
        out[state] += other if other > score else score
