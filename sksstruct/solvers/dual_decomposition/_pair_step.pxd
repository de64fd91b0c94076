cdef struct PairPoint:
    # probabilities a and b that each label is on, and s that both are
    double first, second
    double both


cdef double step_pair(double score, double curvature, double center_first,
                      double center_second, double rho,
                      PairPoint* point) noexcept nogil
