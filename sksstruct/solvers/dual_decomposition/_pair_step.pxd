cdef struct PairPoint:
    # probabilities a and b of either label being on, and s of both being on
    double first, second
    double both


cdef double step_pair(double score, double curvature, double center_first,
                      double center_second, double rho,
                      PairPoint* point) noexcept nogil
