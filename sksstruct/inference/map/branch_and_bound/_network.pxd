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
    # variables: values from first[v] to first[v + 1]; the first size[v] of `values` are
    # alive, `place` says where in it a value is
    cdef Py_ssize_t[::1] first
    cdef int32_t[::1] values, place
    cdef int64_t[::1] size, unary
    # at least the largest cost of a value that is alive
    cdef int64_t[::1] highest
    # what went from each variable to c0
    cdef int64_t[::1] settled
    # factors: scopes in increasing order; for each place in a scope, where its deltas
    # begin: what was taken out of the table for each value
    cdef Py_ssize_t[::1] scope_first, delta_first
    cdef int32_t[::1] scope
    cdef int64_t[::1] delta
    cdef int32_t[::1] residue
    cdef const int64_t** tables
    cdef list _owners
    # of a variable: its places in scopes, and the factors
    cdef Py_ssize_t[::1] in_first
    cdef int32_t[::1] in_place, in_factor
    # what to undo
    cdef Saved* _trail
    cdef Py_ssize_t n_saved, _trail_capacity
    # scratch: a number for each value of a variable, and the digits of a tuple
    cdef int64_t[::1] least, extra
    cdef int32_t[::1] digit

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
