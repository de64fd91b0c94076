from libc.stdint cimport int32_t, int64_t


# Entry of the trail: address of a changed number, and its value before the change.
cdef struct Saved:
    int64_t* where
    int64_t value


cdef class CostNetwork:
    cdef readonly Py_ssize_t n_variables, n_factors
    # c0 is part of the cost of every labeling; labelings that cost `limit` or more are
    # not searched for
    cdef readonly int64_t c0, limit
    # variables `begin` to `end` are searched: variables before `own_end` lose values
    # that would raise c0 to the limit, the other variables lose values that cost `top`;
    # without clusters `own_end` is the number of variables, and `top` is unused
    cdef Py_ssize_t begin, own_end, end
    cdef int64_t top
    # number of table entries read: a measure of work that is the same in every run
    cdef readonly int64_t work
    # namespace of the arrays that the pointers below point into
    cdef object _owned
    # values of variable v are at first[v] to first[v + 1]; the first size[v] of
    # `values` there are alive, and `place` is the position (seat) of each value in this
    # list
    cdef const Py_ssize_t* first
    cdef int32_t* values
    cdef int32_t* place
    cdef int64_t* size
    cdef int64_t* unary
    # upper bound on the costs of the alive values of each variable
    cdef int64_t* highest
    # cost that has been moved from each variable to c0
    cdef int64_t* settled
    # factors: scopes in increasing order; each place in a scope has deltas (cost moved
    # from the table to each value of its variable) and residues (last supports)
    cdef const Py_ssize_t* scope_first
    cdef const Py_ssize_t* delta_first
    cdef const int32_t* scope
    cdef int64_t* delta
    cdef int32_t* residue
    cdef const int64_t** tables
    # of each variable: its places in all scopes, and the factors of these places
    cdef const Py_ssize_t* in_first
    cdef const int32_t* in_place
    cdef const int32_t* in_factor
    # the trail: changes to undo
    cdef Saved* _trail
    cdef Py_ssize_t n_saved, _trail_capacity
    # workspace: a cost for each value of one variable, and the digits of a tuple
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
