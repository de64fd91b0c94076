"""Best assignments of rows to columns.

The rows are assigned one after the other, each along the shortest augmenting path to a
free column (Jonker and Volgenant, 1987, in the form of Crouse, "On implementing 2D
rectangular assignment algorithms", IEEE Transactions on Aerospace and Electronic
Systems 52(4), 2016). Ties are broken as by `scipy.optimize.linear_sum_assignment`, so
that both find the same assignment: free columns come first, then columns in the order
of a list from which reached columns are removed, and whose last column replaces a
removed one.
"""

from libc.math cimport INFINITY


cdef struct Labels:
    # Dual variables ("prices") of the rows and of the columns; for each column, the
    # length of the shortest path to the column, the row before the column on this path,
    # and the row assigned to the column, or -1; and a list of the columns: first those
    # not yet reached, then the reached columns.
    double* row_price
    double* column_price
    double* length
    Py_ssize_t* before
    Py_ssize_t* row
    Py_ssize_t* remaining


cdef Py_ssize_t assignment_memory(Py_ssize_t n_columns) noexcept nogil:
    """Return the number of doubles of memory that `assign` needs."""
    return 6 * n_columns


cdef Py_ssize_t shortest_path(Py_ssize_t n_columns, const double* scores,
                              Py_ssize_t start, Labels* labels) noexcept nogil:
    """Find the shortest path from a row to a free column; return -1 if there is none.

    Otherwise `remaining` holds, from the returned index on, the free column and then
    all columns on shorter paths.
    """
    cdef Py_ssize_t n_remaining = n_columns, row = start, k, column, place
    cdef double reached = 0.0, length, least
    # columns are listed in descending order: if all scores are equal, row i then gets
    # column i
    for k in range(n_columns):
        labels.remaining[k] = n_columns - 1 - k
        labels.length[k] = INFINITY
    while True:
        least, place = INFINITY, -1
        for k in range(n_remaining):
            column = labels.remaining[k]
            length = (reached - scores[row * n_columns + column]
                      - labels.row_price[row] - labels.column_price[column])
            if length < labels.length[column]:
                labels.length[column], labels.before[column] = length, row
            if labels.length[column] < least or (
                    labels.length[column] == least and labels.row[column] < 0):
                least, place = labels.length[column], k
        if least == INFINITY:
            return -1
        reached, column = least, labels.remaining[place]
        n_remaining -= 1
        labels.remaining[place] = labels.remaining[n_remaining]
        labels.remaining[n_remaining] = column
        if labels.row[column] < 0:
            return n_remaining
        row = labels.row[column]


cdef bint assign(Py_ssize_t n_rows, Py_ssize_t n_columns, const double* scores,
                 double* memory, Py_ssize_t* columns) noexcept nogil:
    """Find the assignment of rows to columns with the highest sum of scores.

    Returns False if every assignment is forbidden.

    Parameters
    ----------
    n_rows, n_columns : int
        Numbers of rows and of columns; n_rows <= n_columns.
    scores : double*
        Scores of pairs, row by row; -inf forbids a pair.
    memory : double*
        `assignment_memory` doubles.
    columns : Py_ssize_t*
        Output: the column of each row.
    """
    cdef Labels labels
    cdef Py_ssize_t start, k, first, column, row, last
    cdef double least
    labels.row_price, labels.column_price = memory, memory + n_columns
    labels.length = memory + 2 * n_columns
    labels.before = <Py_ssize_t*> (memory + 3 * n_columns)
    labels.row, labels.remaining = (
        labels.before + n_columns, labels.before + 2 * n_columns)
    for k in range(n_columns):
        labels.row_price[k] = labels.column_price[k] = 0.0
        labels.row[k] = -1
    for start in range(n_rows):
        first = shortest_path(n_columns, scores, start, &labels)
        if first < 0:
            return False
        last = labels.remaining[first]
        least = labels.length[last]
        # prices change so that each pair on the path has the sum of its prices as score
        labels.row_price[start] += least
        for k in range(first + 1, n_columns):
            column = labels.remaining[k]
            labels.row_price[labels.row[column]] += least - labels.length[column]
            labels.column_price[column] -= least - labels.length[column]
        # each row on the path moves to the next column of the path
        while True:
            row = labels.before[last]
            labels.row[last] = row
            column = columns[row]
            columns[row] = last
            last = column
            if row == start:
                break
    return True
