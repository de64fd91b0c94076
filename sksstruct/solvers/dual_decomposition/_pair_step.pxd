cdef struct PairPoint:
    double a, b, s


cdef double step_pair(double v, double curvature, double ca, double cb, double rho,
                      PairPoint* point) noexcept nogil
