from libc.stdint cimport int32_t, uint8_t


cdef struct Potentials:
    # potentials of one example, called `at` in signatures; see `_structure.pyx`
    double* theta
    double constant
    Py_ssize_t size, rows
    const double* shared
    const double* others
    double* memory


cdef class OracleMemory:
    # Scratch of one thread, called `oracle` in signatures. `search` is an object that a
    # structure may create to find the k best labelings.
    cdef object search
    # the labelings that an oracle found last, in rows, and their values
    cdef int32_t* labelings
    cdef double* values
    cdef Py_ssize_t _capacity, _value_capacity
    # a buffer for any numbers that a structure stores, and its capacity
    cdef double* scratch
    cdef Py_ssize_t scratch_capacity

    cdef int make_room(self, Py_ssize_t count, Py_ssize_t size) except -1 nogil


cdef class Structure:
    # attributes and methods: see `_structure.pyx`
    cdef readonly Py_ssize_t n_examples, max_size, max_keys
    cdef readonly Py_ssize_t memory_size, n_others, others_of_key, most_other_keys
    cdef readonly object sizes, starts, labels
    cdef readonly bint labeled, reads_shared, one_entry, first_block_decides
    cdef readonly object partial
    cdef readonly list meaning
    # `sizes`, `starts` and `labels` as memoryviews, for loops without the interpreter
    cdef const Py_ssize_t[::1] _sizes, _starts
    cdef const int32_t[::1] _y_true
    # Constraints: whether a labeling may pick each entry, in rows of length
    # `_known_step`; and for each example its first row, or -1. NULL without
    # constraints.
    cdef object _known_arrays
    cdef const Py_ssize_t* _known_at
    cdef const uint8_t* _known
    cdef Py_ssize_t _known_step

    # ---- labelings ----
    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil
    cdef int has_key(self, Py_ssize_t i, Py_ssize_t key) except -1 nogil
    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil
    # ---- the loss ----
    cdef int add_loss(self, Potentials* at, Py_ssize_t i,
                      double scale) except -1 nogil
    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil
    # ---- oracles ----
    cdef int decode(self, Potentials* at, OracleMemory oracle, Py_ssize_t i,
                    int32_t* y) except -1 nogil
    cdef Py_ssize_t topk(self, Potentials* at, OracleMemory oracle, Py_ssize_t i,
                         Py_ssize_t k) except -1 nogil
    cdef int expect(self, Potentials* at, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil
    cdef int expect_observed(self, Potentials* at, Py_ssize_t i, double mu,
                             double* means, double* value) except -1 nogil
    cdef void forbid_others(self, Potentials* at, Py_ssize_t i) noexcept nogil
    # ---- weights that are potentials themselves ----
    cdef Py_ssize_t other_keys(self, Py_ssize_t i) noexcept nogil
    cdef double other_score(self, Py_ssize_t i, Py_ssize_t key,
                            const double* others) noexcept nogil
    cdef Py_ssize_t add_other(self, Py_ssize_t i, Py_ssize_t key, double change,
                              double* others) except -1 nogil

    cdef tuple _arrays(self, Potentials* at)
