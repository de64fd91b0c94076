cdef struct PairPoint:
    # probability a that the first label is on, b that the second label is on, and s
    # that both labels are on
    double first, second
    double both


cdef double step_pair(double score, double curvature, double center_first,
                      double center_second, double rho,
                      PairPoint* point) noexcept nogil
