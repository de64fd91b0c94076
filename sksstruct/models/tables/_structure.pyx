"""A structure: labelings, their losses, and the oracles that find them.

A structure works on the potentials of one example, and knows neither features nor
weights: `BoundTable` forms potentials from them, and scatters changes to the weights.
The potentials theta_i are consecutive tables, and a labeling y is the list of the
entries that it picks, its keys:

    score(y) = sum of theta over the keys of y

A labeling is stored as `sizes[i]` integers. A labeling may have a key several times, if
parts of it share an entry of a table.

Some scores have features that depend on the labeling. These scores have keys beyond the
tables, and a few separate weights, `others`, which all examples share.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport const_intps, const_uint8s


cdef array_of(Py_ssize_t size, double* values):
    """Return an array of `size` values at an address."""
    # a memoryview of no values is an error
    return np.asarray(<double[:size]> values) if size else np.empty(0)


cdef class OracleMemory:
    """Scratch of oracles for one thread: a search for the k best, and its results."""

    def __dealloc__(self):
        free(self.labelings)
        free(self.values)
        free(self.scratch)

    cdef int make_room(self, Py_ssize_t count, Py_ssize_t size) except -1 nogil:
        """Make room for `count` labelings of `size` integers."""
        reserve(<void**> &self.labelings, &self._capacity, count * size,
                sizeof(int32_t))
        reserve(<void**> &self.values, &self._value_capacity, count, sizeof(double))
        return 0


cdef class Structure:
    """Base class: the labelings of examples, their losses, and the oracles.

    Parameters
    ----------
    sizes : array-like of shape (n_examples,)
        Lengths of the labelings.
    y_true : ndarray of shape (sum of sizes,), int32, or None
        Observed labelings; None for prediction.
    max_keys : int
        Largest number of keys of a labeling.

    Attributes
    ----------
    n_examples, max_size : int
        Number of examples, and length of the longest labeling.
    memory_size : int
        Number of floats of scratch for oracles, `Potentials.memory`.
    n_others : int
        Number of weights that are potentials themselves.
    others_of_key : int
        Number of consecutive weights in `others` that one key multiplies.
    most_other_keys : int
        Largest number of keys beyond the tables, over the examples.
    one_entry : bool
        Whether a labeling is one integer, the entry that it picks of the only row of
        its example; there is one block then.
    first_block_decides : bool
        Whether the entries that a labeling picks of the first block determine it.
    labels : ndarray of int32
        Observed labelings, one after the other.
    labeled : bool
        Whether labelings were observed.
    reads_shared : bool
        Whether all oracles, and the loss, read the shared table at `Potentials.shared`.
    partial : ndarray of shape (n_examples,), bool, or None
        Examples whose labeling was observed in part; `labels` has one labeling that
        agrees with the observed part. None: there are no such examples.
    meaning : list
        Arrays and numbers that identify the parts that keys stand for; problems with
        equal lists have the same labelings.

    Notes
    -----
    Oracles read the struct `Potentials`: the tables `theta` (`size` entries) with the
    loss added, except a `constant` part of the loss; the weights `others`; and scratch
    for floats, `memory`. If the last block of weights is shared, its table is at
    `shared`: in `theta` from entry `rows` on or, if the structure sets `reads_shared`,
    the weights themselves, which must not be written to.
    """

    # Names of the oracles that the structure has: "max", "topk" and "exp". "projection"
    # means that `models/roles.py` has a dual as one vector, "factors" that it has
    # factors, and "label_sets" that these are factors of label sets.
    oracles = ("max", "topk")
    # Whether smoothing that a user requests by its name sums over all labelings.
    prefers_sums = False
    # The reason in error messages why an oracle is missing.
    oracle_note = None
    # Whether the names of weights need the data, and not only the layout.
    views_need_data = False
    # The solver for "auto", where it differs from the choice for all models.
    preferred_solver = None
    # Cost of a visit that calls the oracle, relative to a visit of known labelings.
    oracle_cost = 2.0

    def __cinit__(self, sizes, y_true, Py_ssize_t max_keys, *args, **kwargs):
        self.sizes = np.ascontiguousarray(sizes, dtype=np.intp)
        self._sizes = self.sizes
        self.n_examples = len(self.sizes)
        self.max_size = self.sizes.max()
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])
        self._starts = self.starts
        self.labeled = y_true is not None
        self.labels = np.zeros(1, dtype=np.int32)
        if self.labeled:
            self.labels = np.ascontiguousarray(y_true, dtype=np.int32)
        self._y_true = self.labels
        self.max_keys = max(max_keys, 1)
        self.first_block_decides = True
        # subclasses whose oracles need scratch in `Potentials.memory` set a larger size
        self.memory_size = 1
        self.meaning = []

    def own_memory(self):
        """Return scratch of oracles for one thread."""
        return OracleMemory()

    # ---- labelings ----

    # Whether y is a labeling of example i, and whether labelings of example i may have
    # a key: solvers check numbers of a saved state. Callers exclude keys of padding.
    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        raise NotImplementedError

    cdef int has_key(self, Py_ssize_t i, Py_ssize_t key) except -1 nogil:
        return 1

    # Write the keys of y and return their number. A key is written once for each part
    # of y that picks its entry.
    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        raise NotImplementedError

    # ---- the loss ----

    # Add `scale` times the loss to the tables and to the constant.
    cdef int add_loss(self, Potentials* at, Py_ssize_t i,
                      double scale) except -1 nogil:
        raise NotImplementedError

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        raise NotImplementedError

    # ---- oracles ----

    # Write the best labeling; among ties, always the same one. Subclasses override this
    # method, or `find` if the oracle is not compiled.
    cdef int decode(self, Potentials* at, OracleMemory oracle, Py_ssize_t i,
                    int32_t* y) except -1 nogil:
        cdef const int32_t[::1] labels
        with gil:
            labels = self.find(i, *self._arrays(at))
            # `find` may be a user's method, whose result is checked
            if labels.shape[0] != self._sizes[i]:
                raise ValueError(
                    f"the oracle must return {self._sizes[i]} labels for example {i}, "
                    f"got {labels.shape[0]}")
            if labels.shape[0]:
                memcpy(y, &labels[0], labels.shape[0] * sizeof(int32_t))
        return 0

    cdef tuple _arrays(self, Potentials* at):
        """Return the potentials as arrays: tables and other weights."""
        return (array_of(at.size, at.theta),
                array_of(self.n_others, <double*> at.others))

    def find(self, i, theta, others):
        """Return the best labeling of an example at its potentials."""
        raise NotImplementedError

    # Write up to k best labelings, in descending order of score, to `oracle`; return
    # their number. Subclasses override this method, or `find_topk` if the oracle is not
    # compiled.
    cdef Py_ssize_t topk(self, Potentials* at, OracleMemory oracle, Py_ssize_t i,
                         Py_ssize_t k) except -1 nogil:
        cdef const int32_t[:, ::1] rows
        with gil:
            found = self.find_topk(i, *self._arrays(at), k)
            rows = np.ascontiguousarray(found, dtype=np.int32)
            oracle.make_room(rows.shape[0], self._sizes[i])
            if rows.size:
                memcpy(oracle.labelings, &rows[0, 0], rows.nbytes)
            return rows.shape[0]

    def find_topk(self, i, theta, others, k):
        """Return the k best labelings of an example, in rows, the best first."""
        raise NotImplementedError

    # Sums of the distribution proportional to exp(score(y) / mu): `value` becomes mu
    # log sum_y exp(score(y) / mu), plus the constant; `means` becomes the expected
    # number of times that each key occurs, padding included, followed by the means of
    # the features of `others`.
    cdef int expect(self, Potentials* at, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        raise NotImplementedError

    # `expect` over the labelings that agree with the observed part, for examples that
    # are `partial`; overwrites the tables.
    cdef int expect_observed(self, Potentials* at, Py_ssize_t i, double mu,
                             double* means, double* value) except -1 nogil:
        self.forbid_others(at, i)
        return self.expect(at, i, mu, means, value)

    # ---- constraints on labelings ----

    def set_known(self, known, Py_ssize_t step):
        """Constrain labelings; part t of a labeling picks an entry of row t.

        In prediction, `decode` finds only labelings that satisfy the constraints. In
        training, the constraints are the observed parts of examples that are `partial`.

        Parameters
        ----------
        known : list of ndarray of shape (size, step), uint8, or None
            Whether each part of a labeling may have an entry of its row. None for an
            example, or instead of the list, allows all labelings.
        step : int
            Number of entries of a row.
        """
        known = [None] * self.n_examples if known is None else known
        counts = np.array([0 if rows is None else len(rows) for rows in known])
        if not counts.any():
            return
        at = np.where(counts > 0, np.cumsum(counts) - counts, -1).astype(np.intp)
        rows = np.concatenate([rows.ravel() for rows in known if rows is not None])
        self._known_arrays, self._known_step = (at, rows), step
        self._known_at, self._known = const_intps(at), const_uint8s(rows)
        if self.labeled:
            self.partial = counts > 0

    cdef void forbid_others(self, Potentials* at, Py_ssize_t i) noexcept nogil:
        """Forbid entries that contradict the constraints of an example."""
        cdef const uint8_t* known
        cdef Py_ssize_t k
        if self._known_at == NULL or self._known_at[i] < 0:
            return
        known = self._known + self._known_at[i] * self._known_step
        # theta may be overwritten: potentials are formed again for each call
        for k in range(self._sizes[i] * self._known_step):
            if not known[k]:
                at.theta[k] = -INFINITY

    # ---- weights that are potentials themselves ----

    # Return the number of keys of an example beyond its tables.
    cdef Py_ssize_t other_keys(self, Py_ssize_t i) noexcept nogil:
        return 0

    # Return the score of a key beyond the tables; `key` is counted from their end.
    cdef double other_score(self, Py_ssize_t i, Py_ssize_t key,
                            const double* others) noexcept nogil:
        return 0.0

    # Add change times the features of a key beyond the tables to others; return the
    # index of the first of the `others_of_key` weights of the key.
    cdef Py_ssize_t add_other(self, Py_ssize_t i, Py_ssize_t key, double change,
                              double* others) except -1 nogil:
        raise NotImplementedError
