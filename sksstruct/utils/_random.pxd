# Random numbers without the GIL: xorshift64* (Vigna, ACM TOMS 42, 2016). The state has
# 64 bits, which must not all be zero; callers seed it from a RandomState.

from libc.stdint cimport uint64_t


cdef inline uint64_t step_random(uint64_t* state) noexcept nogil:
    """Advance the state and return it; the lowest bits are random too."""
    state[0] ^= state[0] >> 12
    state[0] ^= state[0] << 25
    state[0] ^= state[0] >> 27
    return state[0]


cdef inline uint64_t random_below(uint64_t* state, uint64_t bound) noexcept nogil:
    """Return a random number 0 <= x < bound, for bounds far below 2^32."""
    return ((step_random(state) * <uint64_t> 2685821657736338717ULL) >> 32) % bound
