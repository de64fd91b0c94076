cdef class Clock:
    cdef readonly double deadline

    cdef bint late(self) noexcept nogil
