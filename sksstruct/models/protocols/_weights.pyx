"""Weights, and what optimisation keeps beside them.

A model reads potentials from any vector and scatters changes A_i^T d into any vector;
which vectors these are is said here and nowhere else. In the notation of Osokin et al.
(2016), Sections 3.1 and H:

    v   the unconstrained weights, w = sum_i p_i/alpha A_i^T (mu_i(y_i) - mu_i)
    w   v truncated to a box, lower <= w <= upper; the same memory without a box
    u   the changes of v, each times a weight of its own, for averages of the iterates

`LazyWeights` are for steps that shrink and shift all weights, where an example reads
only a few of them. Weights are numbered by k, rows of them are what is read together.
"""

import numpy as np

from sksstruct.utils._simd cimport sks_axpy

from sksstruct.utils._layout import aligned_zeros


cdef class Weights:
    """Zero weights, with memory for an average, and with a box if one is given.

    Parameters
    ----------
    size : int
        Number of weights.
    average : bool, default=False
        Whether there is a vector u.
    box : tuple of ndarray, default=None
        Lower and upper bounds of each weight.

    Attributes
    ----------
    w, v, u : ndarray of shape (size,)
        See the head of the module; u is None without an average.
    lower, upper : ndarray of shape (size,) or None
        The box.
    """

    def __init__(self, Py_ssize_t size, *, bint average=False, box=None):
        cdef double[::1] view
        cdef const double[::1] bound
        self.size = size
        # without a box nothing is ever truncated, and one vector is enough
        self.w = self.v = aligned_zeros(size)
        self.u = aligned_zeros(size) if average else None
        if box is not None:
            self.v = aligned_zeros(size)
            self.lower, self.upper = box
            # zero need not be in the box
            np.clip(self.v, self.lower, self.upper, out=self.w)
            bound = self.lower
            self._lower = &bound[0]
            bound = self.upper
            self._upper = &bound[0]
        view = self.w
        self._w = &view[0]
        view = self.v
        self._v = &view[0]
        self.collect_average(average)

    def collect_average(self, bint collect):
        """Say whether changes go into u from now on."""
        cdef double[::1] view
        # models add to u wherever this is not NULL
        self._u = NULL
        if collect:
            view = self.u
            self._u = &view[0]

    def set(self, v):
        """Go to other unconstrained weights."""
        # in place: models and solvers hold addresses of these vectors
        self.v[:] = v
        if self.lower is not None:
            np.clip(self.v, self.lower, self.upper, out=self.w)

    cdef void truncate(self, Py_ssize_t first, Py_ssize_t count) noexcept nogil:
        """Bring w up to date with v for first <= k < first + count.

        There must be a box.
        """
        cdef Py_ssize_t k
        cdef double value
        for k in range(first, first + count):
            value = self._v[k]
            value = self._lower[k] if value < self._lower[k] else value
            self._w[k] = self._upper[k] if value > self._upper[k] else value


cdef class LazyWeights(Weights):
    """Weights that shrink and shift without being touched:

        w = scale (v + (total - last) direction)

    row by row, where `last` is what `total` was when the row was last brought up to
    date. A step w <- shrink w - rate direction changes the two numbers `scale` and
    `total`, and an example brings the rows it reads up to date when it is visited.

    Parameters
    ----------
    size : int
        Number of weights.

    Attributes
    ----------
    scale, total : float
        Factor of all weights, and how far they have moved along the direction.
    """

    def __init__(self, Py_ssize_t size):
        Weights.__init__(self, size)
        self.scale = 1.0

    def start(self, direction, Py_ssize_t row_size, exists=None):
        """Begin steps along a direction; all rows are up to date.

        Parameters
        ----------
        direction : ndarray of shape (size,)
            What is subtracted; must not change until the steps are over.
        row_size : int
            Number of weights that are brought up to date together.
        exists : ndarray of shape (size,), uint8, or None
            0 for weights that stay zero.
        """
        cdef const double[::1] along = direction
        cdef double[::1] last
        cdef const unsigned char[::1] flags
        if along.shape[0] != self.size:
            raise ValueError(f"expected {self.size} weights, got {along.shape[0]}")
        self.scale, self.total = 1.0, 0.0
        # a row has a number of its own, and not each weight: an example reads weights
        # by rows, and one number is looked at where many would have to be
        self._row_size, self._n_rows = row_size, self.size // row_size
        self._up_to = np.zeros(self._n_rows)
        last = self._up_to
        self._direction, self._last = &along[0], &last[0]
        self._owned, self._exists = [direction, exists], NULL
        if exists is not None:
            flags = exists
            self._exists = &flags[0]

    cdef void catch_up(self, Py_ssize_t row) noexcept nogil:
        """Bring a row of v up to date."""
        cdef Py_ssize_t k, first = row * self._row_size
        cdef double behind = self.total - self._last[row]
        # a row is often read again before the next step
        if behind != 0.0 and self._n_rows == 1:
            # all weights at once, whose number need not be that of whole vectors
            for k in range(self._row_size):
                self._v[k] += behind * self._direction[k]
        elif behind != 0.0:
            sks_axpy(self._row_size, behind, self._direction + first, self._v + first)
        self._last[row] = self.total
        if self._exists != NULL:
            # Changes by examples go to all weights of a row; those that do not exist
            # are put back to zero before the row is read.
            for k in range(first, first + self._row_size):
                self._v[k] *= self._exists[k]

    def finish(self):
        """Bring all rows up to date and scale them, so that v is the weights."""
        cdef Py_ssize_t row
        for row in range(self._n_rows):
            self.catch_up(row)
        self.v *= self.scale
        # further steps begin with a factor that is not small
        self.scale, self.total = 1.0, 0.0
        # there are no rows if no step was ever taken
        if self._n_rows:
            self._up_to[:] = 0.0
