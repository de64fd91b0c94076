# What a part costs that is not where it was observed.


cdef inline double truncated_distance(Py_ssize_t position, Py_ssize_t observed,
                                      Py_ssize_t width, double unit) noexcept nogil:
    """Return min(1, distance^2 / unit^2) of two positions, row * width + column."""
    cdef double row = position // width - observed // width
    cdef double column = position % width - observed % width
    cdef double square = (row * row + column * column) / (unit * unit)
    # a part that is lost costs the same wherever it is
    return square if square < 1.0 else 1.0
