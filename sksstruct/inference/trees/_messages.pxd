# The steps of max-product on a tree, shared by chains, forests and graphs.
#
# A row has the scores of the n states of one variable. The message from a child to its
# parent is, for each state b of the parent, max_a row[a] + table[a, b] over the states
# a of the child; messages are added to the parent's row. Labels are then read from the
# root: each child takes its lowest best state, given the state of its parent. Tables
# have rows of ld entries. Messages through tables that are stored from child to parent
# are computed by `sks_maxplus`, which is fastest.

from libc.math cimport INFINITY


cdef inline Py_ssize_t best_state(Py_ssize_t n, const double* row) noexcept nogil:
    """The lowest state of largest score among n states."""
    cdef Py_ssize_t state, best = 0
    cdef double highest = row[0]
    # strict comparison: the lowest state wins ties
    for state in range(1, n):
        if row[state] > highest:
            highest = row[state]
            best = state
    return best


cdef inline Py_ssize_t best_state_given(
    Py_ssize_t n, const double* row, const double* pair_scores, Py_ssize_t stride
) noexcept nogil:
    """The lowest best state among n states, given the state of the parent.

    pair_scores[stride * a] scores state a with the parent's state: a column of a table
    from child to parent (stride ld), or a row of one from parent to child (stride 1).
    """
    cdef Py_ssize_t state, best = 0
    cdef double score, highest = row[0] + pair_scores[0]
    # strict comparison: the lowest state wins ties, as in `viterbi` and `max_product`
    for state in range(1, n):
        score = row[state] + pair_scores[stride * state]
        if score > highest:
            highest = score
            best = state
    return best


cdef inline Py_ssize_t best_state_given_potts(
    Py_ssize_t n, const double* row, double agreement, Py_ssize_t state_of_parent
) noexcept nogil:
    """The lowest best state, with `agreement` added to the score of one state.

    This state is the state of the parent.
    """
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
    """Add to out the message through a table that is stored from parent to child."""
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
    """Add the message through a table with agreement on the diagonal, else zeros."""
    cdef Py_ssize_t state, best = 0
    cdef double score, best_other, highest = row[0], second = -INFINITY
    for state in range(1, n):
        if row[state] > highest:
            second, highest, best = highest, row[state], state
        elif row[state] > second:
            second = row[state]
    # The message to a state of the parent is the larger of two scores: that of the same
    # state of the child plus agreement, and that of the best other state, which is the
    # second best state if the same state is the best one.
    for state in range(n):
        score = row[state] + agreement
        best_other = second if state == best else highest
        out[state] += best_other if best_other > score else score
