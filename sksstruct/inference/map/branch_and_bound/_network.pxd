from libc.stdint cimport int32_t, int64_t


# One number that was changed, and what it was before.
cdef struct Saved:
    int64_t* where
    int64_t value


cdef class CostNetwork:
    cdef readonly Py_ssize_t n_variables, n_factors
    # costs in c0 count for all labelings; those of `limit` or more are of no interest
    cdef readonly int64_t c0, limit
    # the part that is searched: variables from `begin` to `end`, of which those before
    # `own_end` lose values that cost too much, and the others those that cost `top`; 0:
    # there is no such part, and all variables lose them
    cdef Py_ssize_t begin, own_end, end
    cdef int64_t top
    # entries that were looked at: the clock of everything that has to be repeatable
    cdef readonly int64_t work
    # what has all the arrays
    cdef object _owned
    # variables: values from first[v] to first[v + 1]; the first size[v] of `values` are
    # alive, `place` says where in it a value is
    cdef const Py_ssize_t* first
    cdef int32_t* values
    cdef int32_t* place
    cdef int64_t* size
    cdef int64_t* unary
    # at least the largest cost of a value that is alive
    cdef int64_t* highest
    # what went from each variable to c0
    cdef int64_t* settled
    # factors: scopes in increasing order; for each place in a scope, where its deltas
    # begin: what was taken out of the table for each value
    cdef const Py_ssize_t* scope_first
    cdef const Py_ssize_t* delta_first
    cdef const int32_t* scope
    cdef int64_t* delta
    cdef int32_t* residue
    cdef const int64_t** tables
    # of a variable: its places in scopes, and the factors
    cdef const Py_ssize_t* in_first
    cdef const int32_t* in_place
    cdef const int32_t* in_factor
    # what to undo
    cdef Saved* _trail
    cdef Py_ssize_t n_saved, _trail_capacity
    # scratch: a number for each value of a variable, and the digits of a tuple
    cdef int64_t* least
    cdef int32_t* digit

    cdef int save(self, int64_t* where) except -1 nogil
    cdef void undo(self, Py_ssize_t mark) noexcept nogil
    cdef bint alive(self, Py_ssize_t variable, Py_ssize_t value) noexcept nogil
    cdef int remove(self, Py_ssize_t variable, Py_ssize_t value) except -1 nogil
    cdef int restrict(self, Py_ssize_t variable, const int32_t* chosen,
                      Py_ssize_t n_chosen, bint keep) except -1 nogil
    cdef void _seat(self, Py_ssize_t variable, Py_ssize_t value,
                    Py_ssize_t seat) noexcept nogil
    cdef int take(self, Py_ssize_t place, Py_ssize_t value,
                  int64_t cost) except -1 nogil
    cdef bint settle(self, Py_ssize_t variable) except -1 nogil
    cdef int64_t too_much(self, Py_ssize_t variable) noexcept nogil
    cdef Py_ssize_t n_tuples(self, Py_ssize_t factor) noexcept nogil
    cdef void minimize(self, Py_ssize_t factor, Py_ssize_t target,
                       bint full) noexcept nogil
