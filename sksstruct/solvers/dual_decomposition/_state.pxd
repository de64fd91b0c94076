from libc.stdint cimport int32_t, int64_t

from sksstruct.models.protocols._factors cimport FactorModel
from sksstruct.utils._arena cimport Arena


cdef struct Variable:
    int32_t n, room, degree
    int32_t* label
    double* q
    double* total


cdef struct Side:
    int32_t room
    double* marginal
    double* u


cdef struct Pair:
    int32_t n, room
    int32_t* entry
    int32_t* left           # places in the lists of the two variables
    int32_t* right
    double* q
    Side sides[2]


cdef struct Room:
    # scratch for the largest factor met so far
    Py_ssize_t size
    double* value
    double* z
    double* old
    double* target
    double* left
    double* right
    double* norm


cdef class GDMMState:
    cdef readonly FactorModel model
    cdef readonly double alpha, rho, infeasibility, primal_residual, dual_residual
    cdef readonly int64_t calls
    cdef public double ignore            # gains below this part of the loss
    cdef Variable* _variables
    cdef Pair* _pairs
    cdef Room _room
    cdef Arena _arena
    cdef readonly double block_gap, residual_square
    cdef double _moved
    cdef char* _on                       # factors that were let in by Algorithm 3

    cdef int _widen(self, Py_ssize_t size) except -1 nogil
    cdef int32_t _place(self, Variable* variable, int32_t label) except -1 nogil
    cdef int _join(self, Pair* pair, int32_t entry, int32_t left,
                   int32_t right) except -1 nogil
    cdef int _fit_sides(self, Py_ssize_t f) except -1 nogil
    cdef int _let_in(self, Py_ssize_t i, double factor, const double[::1] parts,
                     bint linear) except -1 nogil
    cdef int _variable_gains(self, Py_ssize_t v, double* gain) except -1 nogil
    cdef int _load_pair(self, Py_ssize_t f) except -1 nogil
    cdef double _pair_gain(self, Pair* pair, Py_ssize_t k) noexcept nogil
    cdef int _find_pair(self, Py_ssize_t f, bint linear, double floor, int32_t* a,
                        int32_t* b, double* value) except -1 nogil
    cdef double _variable_progress(self, Py_ssize_t v, double factor,
                                   double part) except -1.0 nogil
    cdef double _pair_progress(self, Py_ssize_t f, double factor,
                               bint linear) except -1.0 nogil
    cdef int _visit_variable(self, Py_ssize_t v, double factor,
                             double part) except -1 nogil
    cdef bint _is_new(self, Pair* pair, Py_ssize_t entry) noexcept nogil
    cdef double _curvature(self, Pair* pair) noexcept nogil
    cdef int _visit_pair(self, Py_ssize_t f, double factor,
                         bint linear) except -1 nogil
