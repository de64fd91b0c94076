from libc.stdint cimport int32_t


cdef struct Local:
    # a label that may move, or is on: its number, q, where it is to go, the gain of
    # being on without pairs, and the q that it had at the beginning
    int32_t label
    double q, target, gain, before
    # the places of its links; of labels that do not move there are none
    Py_ssize_t first, last


cdef struct Link:
    # The pair of a label and another local one: its number, s and score. If both may
    # move there are two links, each the twin of the other, else the twin is -1.
    int32_t pair, other, twin
    double both, score


cdef class LabelSteps:
    # curvature of a label and of a pair
    cdef double _label_curvature, _pair_curvature
    # local labels, and links between any two of them
    cdef Local* _local
    cdef Link* _links
    cdef Py_ssize_t _n, _n_links, _local_capacity, _link_capacity
    # the direction of a step, and the labels that it moves; a subclass has the memory
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
    """Whether a label is neither on nor off."""
    return 0.0 < q < 1.0
