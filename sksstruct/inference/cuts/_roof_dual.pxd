from libc.stdint cimport int32_t

from sksstruct.inference.cuts._maxflow cimport FlowTrees


cdef class RoofDual(FlowTrees):
    cdef readonly Py_ssize_t n_labels, n_pairs
    cdef const int32_t[:, ::1] _pairs
    # Scores of pairs come from the caller, each time others.
    # Partners of label j in pairs, and which pairs these are, are at the places
    # _first_partner[j] .. _first_partner[j + 1] - 1 of two lists.
    cdef const Py_ssize_t[::1] _first_partner
    cdef const int32_t[::1] _partner, _partner_pair

    cdef bint attracts(self, const double* pair) noexcept nogil
    cdef void relax(self, const double* unary, const double* pair,
                    int32_t* states) noexcept nogil
    cdef void enumerate(self, const double* unary, const double* pair,
                        double* fields, int32_t* states) noexcept nogil
    cdef double value(self, const double* unary, const double* pair,
                      const int32_t* states) noexcept nogil
    cdef void _set_capacities(self, const double* unary,
                              const double* pair) noexcept nogil
    cdef void _spread(self, const double* pair, Py_ssize_t label, double sign,
                      double* fields) noexcept nogil


cdef inline int32_t together(int32_t first, int32_t second,
                             double score) noexcept nogil:
    """s of a pair in halves: the most where it attracts, else the least."""
    if score > 0.0:
        return first if first < second else second
    return first + second - 2 if first + second > 2 else 0
