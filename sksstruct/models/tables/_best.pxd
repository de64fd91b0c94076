from libc.stdint cimport int32_t

# A list of the k items of highest value, in descending order of value. Among items of
# equal value, the one that was inserted first is first.


cdef inline Py_ssize_t keep_best(Py_ssize_t count, Py_ssize_t k, double value,
                                 int32_t item, double* values,
                                 int32_t* items) noexcept nogil:
    """Insert an item into the list of the k best so far; return the list's length."""
    cdef Py_ssize_t place = count
    if count == k:
        # most items are not better than the last of the list
        if value <= values[k - 1]:
            return count
        place -= 1
    while place > 0 and values[place - 1] < value:
        # in a full list, the last item is overwritten
        values[place], items[place] = values[place - 1], items[place - 1]
        place -= 1
    values[place], items[place] = value, item
    return min(count + 1, k)
