# Residuals of the consistency constraints, which tell how rho is to be changed.

from libc.math cimport fabs

from sksstruct.solvers.dual_decomposition._active_sets cimport (
    ActiveLabels, PairEnd,
)


cdef struct Residuals:
    # Sums over pairs f, their variables v and the labels of these, of the entries of
    # M_vf q_f - q_v: squares, and absolute values
    double square
    double distance
    # and of the squares of q_v and u_vf, to which they are compared
    double size
    double multipliers


cdef inline void add_residual(Residuals* sums, double residual, double q,
                              double u) noexcept nogil:
    """Count one entry of M_vf q_f - q_v, and those of q_v and u_vf beside it."""
    sums.square += residual * residual
    sums.distance += fabs(residual)
    sums.size += q * q
    sums.multipliers += u * u


cdef inline double relative_norm(double square, double whole) noexcept nogil:
    """The norm of which one square is known, relative to another; 0 without that."""
    return (square / whole) ** 0.5 if whole else 0.0


cdef inline void move_multipliers(PairEnd* end, double eta,
                                  Residuals* sums) noexcept nogil:
    """u += eta (M q_f - q_v) at one end of a pair (13)."""
    cdef ActiveLabels* labels = end.labels
    cdef Py_ssize_t k
    cdef double residual
    for k in range(labels.size):
        residual = end.marginal[k] - labels.q[k]
        end.u[k] += eta * residual
        # so that a label's gain needs no sum over its pairs
        labels.total[k] += eta * residual
        add_residual(sums, residual, labels.q[k], end.u[k])
