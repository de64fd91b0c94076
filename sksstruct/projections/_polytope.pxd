cdef struct PolytopeScratch:
    double* best        # (n_duals,) multipliers of the line search
    double* gradient    # (n_duals,)
    double* step        # (n_duals,)
    double* band        # (n_duals, 2 * n_states)

cdef Py_ssize_t count_duals(Py_ssize_t n_edges, Py_ssize_t n_states) noexcept nogil

cdef double project_chain(
    Py_ssize_t n_edges, Py_ssize_t n_states, const double* m, double mass,
    double* duals, PolytopeScratch* ws, double* out) noexcept nogil
