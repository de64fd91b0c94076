# Residuals of the consistency constraints, by which solvers adapt rho.

from libc.math cimport fabs

from sksstruct.solvers.dual_decomposition._active_sets cimport (
    ActiveLabels, PairEnd,
)


cdef struct Residuals:
    # sums of the squares and of the absolute values of the entries of the residuals
    # M_vf q_f - q_v, over pairs and cliques f, their variables v and labels
    double square
    double distance
    # sums of the squares of the entries of q_v and of u_vf over the same f, v and
    # labels: residuals are reported relative to the roots of these sums
    double size
    double multipliers


cdef inline void add_residual(Residuals* sums, double residual, double q,
                              double u) noexcept nogil:
    """Add one entry of M_vf q_f - q_v, and the entries of q_v and u_vf, to the sums."""
    sums.square += residual * residual
    sums.distance += fabs(residual)
    sums.size += q * q
    sums.multipliers += u * u


cdef inline double relative_norm(double square, double whole) noexcept nogil:
    """Return the ratio of two norms, given their squares; 0 if the second norm is 0."""
    return (square / whole) ** 0.5 if whole else 0.0


cdef inline void move_multipliers(PairEnd* end, double eta,
                                  Residuals* sums) noexcept nogil:
    """Update u += eta (M q_f - q_v) at one end of a pair, (13) of Yen et al. (2016)."""
    cdef ActiveLabels* labels = end.labels
    cdef Py_ssize_t k
    cdef double residual
    for k in range(labels.size):
        residual = end.marginal[k] - labels.q[k]
        end.u[k] += eta * residual
        # `total` sums M q_f + u over the pairs of the variable: with it, the gain of a
        # label needs no loop over pairs
        labels.total[k] += eta * residual
        add_residual(sums, residual, labels.q[k], end.u[k])
