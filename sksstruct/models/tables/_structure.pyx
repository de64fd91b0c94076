"""A structure: what labelings are, what they lose, and the oracles that find them.

A structure works on the potentials of one example, and knows neither features nor
weights: `BoundTable` forms potentials from these, and gives changes back to them. The
potentials theta_i are tables, one after the other, and a labeling y is the list of the
entries that it picks, its keys:

    score(y) = sum of theta over the keys of y

A labeling is a record of `sizes[i]` small integers. An example may have a key twice,
where labelings share a part.

Features of some scores depend on the labeling. These scores have keys beyond the
tables, and a few weights of their own, `others`, which are the same for all examples.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport const_intps, const_uint8s


cdef array_of(Py_ssize_t size, double* values):
    """Return an array of so many values at an address."""
    # views of nothing are not allowed
    return np.asarray(<double[:size]> values) if size else np.empty(0)


cdef class OracleMemory:
    """What oracles keep for one thread: a search for the k best, and what it found."""

    def __dealloc__(self):
        free(self.labelings)
        free(self.values)
        free(self.scratch)

    cdef int make_room(self, Py_ssize_t count, Py_ssize_t size) except -1 nogil:
        """Make room for so many labelings of a size."""
        reserve(<void**> &self.labelings, &self._capacity, count * size,
                sizeof(int32_t))
        reserve(<void**> &self.values, &self._value_capacity, count, sizeof(double))
        return 0


cdef class Structure:
    """The labelings of examples; a subclass defines them.

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
        Number of floats that oracles use, `Potentials.memory`.
    n_others : int
        Number of weights that are potentials themselves.
    others_of_key : int
        How many of them, side by side, the features of one key go with.
    most_other_keys : int
        Number of keys beyond the tables, of the example that has most.
    one_entry : bool
        Whether a labeling is one integer, the entry that it picks of the one row of its
        example; there is one block then.
    first_block_decides : bool
        Whether the entries that a labeling picks of the first block determine it.
    labels : ndarray of int32
        Observed labelings, one after the other.
    labeled : bool
        Whether they are known.
    reads_shared : bool
        Whether all oracles, and the loss, read the shared table at `Potentials.shared`.
    partial : ndarray of shape (n_examples,), bool, or None
        Examples of whose labeling only a part was observed; `labels` has one that
        agrees with it. None: there are none.
    meaning : list
        Arrays and numbers that say what keys stand for; problems with the same meaning
        share labelings.

    Notes
    -----
    Oracles read the struct `Potentials`: the tables `theta` (`size` entries) with the
    loss added, but for a `constant` part of it; the weights `others`; and floats for
    scratch, `memory`. Where the last block of weights is shared, its table is at
    `shared`: in `theta` as entry `rows` and the following ones, or, if the structure
    sets `reads_shared`, in the weights themselves, where nothing may be written.
    """

    # Names of the oracles that are defined here: "max", "topk" and "exp"; "projection"
    # and "factors" say that `models/roles.py` has a dual of this kind.
    oracles = ("max", "topk")
    # As of `BoundModel`.
    prefers_sums = False
    # Tells those who ask for an oracle that is missing why it is.
    oracle_note = None
    # Whether the names of weights need the data, and not only the layout.
    views_need_data = False
    # The solver that "auto" stands for, where it is not the one for all models.
    preferred_solver = None
    # Visits with the oracle cost so many times what visits of known labelings cost.
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
        # subclasses with messages ask for more
        self.memory_size = 1
        self.meaning = []

    def own_memory(self):
        """Return what oracles keep for one thread."""
        return OracleMemory()

    # ---- labelings ----

    # Whether y is a labeling of example i, and whether its labelings have a key: states
    # from elsewhere may hold any numbers. Padding of rows is known not to be a key.
    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        raise NotImplementedError

    cdef int has_key(self, Py_ssize_t i, Py_ssize_t key) except -1 nogil:
        return 1

    # Keys of y, with repetitions where a part is shared; returns their number.
    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        raise NotImplementedError

    # ---- the loss ----

    # Add `scale` times the loss to the tables and the constant.
    cdef int add_loss(self, Potentials* at, Py_ssize_t i,
                      double scale) except -1 nogil:
        raise NotImplementedError

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        raise NotImplementedError

    # ---- oracles ----

    # The best labeling; of those that tie, always the same one. `find` does it where
    # the oracle is not compiled.
    cdef int decode(self, Potentials* at, OracleMemory own, Py_ssize_t i,
                    int32_t* y) except -1 nogil:
        cdef const int32_t[::1] labels
        with gil:
            labels = self.find(i, *self._arrays(at))
            # what is not compiled may be a user's
            if labels.shape[0] != self._sizes[i]:
                raise ValueError(
                    f"expected {self._sizes[i]} labels, got {labels.shape[0]}")
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

    # Up to k best labelings, the best first, which `own` holds then; returns their
    # number. `find_topk` does it where the oracle is not compiled.
    cdef Py_ssize_t topk(self, Potentials* at, OracleMemory own, Py_ssize_t i,
                         Py_ssize_t k) except -1 nogil:
        cdef const int32_t[:, ::1] rows
        with gil:
            found = self.find_topk(i, *self._arrays(at), k)
            rows = np.ascontiguousarray(found, dtype=np.int32)
            own.make_room(rows.shape[0], self._sizes[i])
            if rows.size:
                memcpy(own.labelings, &rows[0, 0], rows.nbytes)
            return rows.shape[0]

    def find_topk(self, i, theta, others, k):
        """Return the k best labelings of an example, in rows, the best first."""
        raise NotImplementedError

    # The distribution in which the probability of y is proportional to
    # exp(score(y) / mu): `value` becomes mu log sum_y exp(score(y) / mu), and the
    # constant; `means` the expected number of each key, padding included, and then the
    # means of the features of the other weights.
    cdef int expect(self, Potentials* at, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        raise NotImplementedError

    # The same distribution of the labelings that agree with what was observed, for
    # examples that are `partial`; the tables may be changed.
    cdef int expect_observed(self, Potentials* at, Py_ssize_t i, double mu,
                             double* means, double* value) except -1 nogil:
        self.forbid_others(at, i)
        return self.expect(at, i, mu, means, value)

    # ---- what is known of labelings ----

    def set_known(self, known, Py_ssize_t step):
        """Set what is known of labelings, whose parts have the tables' first rows.

        In prediction `decode` finds no other labelings. In training it is what was
        observed of an example that is `partial`.

        Parameters
        ----------
        known : list of ndarray of shape (size, step), uint8, or None
            Whether each part of a labeling may have an entry of its row; None in the
            list, or for it: all.
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
        """Forbid what does not agree with what is known of an example."""
        cdef const uint8_t* known
        cdef Py_ssize_t k
        if self._known_at == NULL or self._known_at[i] < 0:
            return
        known = self._known + self._known_at[i] * self._known_step
        # in place: potentials are formed again for each call
        for k in range(self._sizes[i] * self._known_step):
            if not known[k]:
                at.theta[k] = -INFINITY

    # ---- weights that are potentials themselves ----

    # Number of the keys of an example beyond its tables.
    cdef Py_ssize_t other_keys(self, Py_ssize_t i) noexcept nogil:
        return 0

    # Score of such a key, counted from the end of the tables.
    cdef double other_score(self, Py_ssize_t i, Py_ssize_t key,
                            const double* others) noexcept nogil:
        return 0.0

    # others += change times the features of such a key; returns the first of the
    # `others_of_key` weights that it goes with.
    cdef Py_ssize_t add_other(self, Py_ssize_t i, Py_ssize_t key, double change,
                              double* others) except -1 nogil:
        raise NotImplementedError
