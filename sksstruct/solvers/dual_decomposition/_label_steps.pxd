from libc.stdint cimport int32_t


cdef struct Local:
    # a label that may move or has q > 0: number; q; the target z; the derivative of the
    # dual along q, without the label's pairs; q before the steps
    int32_t label
    double q, target, gain, before
    # range of its links; empty for labels that do not move
    Py_ssize_t first, last


cdef struct Link:
    # A pair of a moving label with another local label: number of the pair, place of
    # the other label, s and score of the pair. A pair of two moving labels has two
    # links, each with the place of the other link as its twin; else the twin is -1.
    int32_t pair, other, twin
    double both, score


cdef class LabelSteps:
    # curvature along q of a label and along s of a pair
    cdef double _label_curvature, _pair_curvature
    # local labels, and the links of their pairs
    cdef Local* _local
    cdef Link* _links
    cdef Py_ssize_t _n, _n_links, _local_capacity, _link_capacity
    # Scratch that the subclass owns. For each local label: the direction of a step, and
    # whether the label waits for a group. Lists of local labels: all that may move, all
    # with q different from z, and the group that a step moves.
    cdef double* _direction
    cdef unsigned char* _waits
    cdef int32_t* _moving
    cdef int32_t* _drawn
    cdef int32_t* _group
    cdef Py_ssize_t _n_moving

    cdef double _gap(self) noexcept nogil
    cdef void _improve(self) noexcept nogil
    cdef void _step_groups(self, Py_ssize_t n_drawn) noexcept nogil
    cdef void _step_alone(self, int32_t label) noexcept nogil
    cdef double _slope_alone(self, Py_ssize_t label, double d, double t,
                             double* curvature) noexcept nogil
    cdef void _search(self, Py_ssize_t size) noexcept nogil
    cdef double _slope(self, Py_ssize_t size, double t) noexcept nogil
    cdef void _move(self, Py_ssize_t size, double t) noexcept nogil


cdef inline bint is_open(double q) noexcept nogil:
    """Whether a label has 0 < q < 1."""
    return 0.0 < q < 1.0
