from libc.stdint cimport int32_t


cdef struct Local:
    # A label that may move or has q > 0. `target` is the z of the label, `before` its q
    # before the steps of the visit, and `gain` the derivative of the dual along q,
    # without the pairs of the label.
    int32_t label
    double q, target, gain, before
    # the label has the links first to last - 1; none if it does not move
    Py_ssize_t first, last


cdef struct Link:
    # A pair of a moving label with another local label: number of the pair, place of
    # the other label, s and score of the pair. A pair of two moving labels has two
    # links, each with the place of the other link as its twin; else the twin is -1.
    int32_t pair, other, twin
    double both, score


cdef class LabelSteps:
    # minus the second derivative of the dual along q of a label, and along s of a pair
    cdef double _label_curvature, _pair_curvature
    # local labels of the visited example, and the links of their pairs
    cdef Local* _local
    cdef Link* _links
    cdef Py_ssize_t _n, _n_links, _local_capacity, _link_capacity
    # for each local label: the change of q per unit of step size, and whether the label
    # has q different from z and is not yet in a group; memory of the subclass, like the
    # lists below
    cdef double* _direction
    cdef unsigned char* _waits
    # lists of local labels: the labels that may move, the labels with q different from
    # z, and the labels that a step moves together
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
    """Return whether 0 < q < 1."""
    return 0.0 < q < 1.0
