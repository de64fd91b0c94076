"""Weights, and the vectors that solvers store with them.

A model reads potentials from any vector and scatters changes A_i^T d into any vector;
only this module defines these vectors. In the notation of Osokin et al. (2016),
Sections 3.1 and H:

    v   the unconstrained weights, w = sum_i p_i/alpha A_i^T (mu_i(y_i) - mu_i)
    w   v truncated: to a box, lower <= w <= upper, or towards zero by a threshold, for
        a penalty threshold |w|_1 (Shalev-Shwartz and Zhang, 2016, Section 4); the same
        memory as v without a truncation
    u   the changes of v, each times a factor, for averages of the iterates

S. Shalev-Shwartz and T. Zhang, "Accelerated proximal stochastic dual coordinate ascent
for regularized loss minimization", Mathematical Programming 155, 2016.

`LazyWeights` are for steps that shrink and shift all weights, while an example reads
few weights. Weights have numbers k; rows are weights that are read together.
"""

import numpy as np

from libc.math cimport copysign, fabs
from libc.string cimport memset

from sksstruct.utils._simd cimport sks_axpy

from sksstruct.utils._layout import aligned_zeros


cdef class Weights:
    """Weights, initially zero, with an optional average, box or threshold.

    Parameters
    ----------
    size : int
        Number of weights.
    average : bool, default=False
        Whether there is a vector u.
    box : tuple of ndarray, default=None
        Lower and upper bounds of each weight.
    threshold : float, default=0.0
        Distance by which w is closer to zero than v. Not with a box.
    support : ndarray of int, default=None
        Weights that exist; missing weights stay zero. Not with a box.

    Attributes
    ----------
    w, v, u : ndarray of shape (size,)
        The vectors of the module's docstring; u is None without an average.
    lower, upper : ndarray of shape (size,) or None
        The box.
    marks : ndarray of uint8, or None
        See `mark_rows`.
    """

    def __init__(self, Py_ssize_t size, *, bint average=False, box=None,
                 double threshold=0.0, support=None):
        cdef double[::1] view
        self.size = size
        # without a truncation one vector is enough
        self.w = self.v = aligned_zeros(size)
        self.u = aligned_zeros(size) if average else None
        self.threshold = threshold
        self._truncates = box is not None or threshold > 0.0 or support is not None
        self._asks = self._truncates
        if self._truncates:
            self.v = aligned_zeros(size)
            self._bind_limits(box, support)
        view = self.w
        self._w = &view[0]
        view = self.v
        self._v = &view[0]
        self.collect_average(average)

    def _bind_limits(self, box, support):
        """Store the limits that w is truncated to."""
        cdef const double[::1] bound
        cdef const unsigned char[::1] flags
        if box is not None:
            self.lower, self.upper = box
            bound = self.lower
            self._lower = &bound[0]
            bound = self.upper
            self._upper = &bound[0]
            # v is zero, which may be outside the box
            np.clip(self.v, self.lower, self.upper, out=self.w)
        elif support is not None:
            self._flags = np.zeros(self.size, dtype=np.uint8)
            self._flags[support] = 1
            flags = self._flags
            self._kept = &flags[0]

    def collect_average(self, bint collect):
        """Set whether changes are added to u from now on."""
        cdef double[::1] view
        # models add to u unless its address is NULL
        self._u = NULL
        if collect:
            view = self.u
            self._u = &view[0]

    def mark_rows(self, Py_ssize_t width):
        """Mark rows of `width` weights in `marks` when they change, from now on."""
        cdef unsigned char[::1] marks
        self.marks = np.zeros((self.size + width - 1) // width, dtype=np.uint8)
        marks = self.marks
        self._marks, self._width, self._asks = &marks[0], width, True

    def set(self, v):
        """Replace the unconstrained weights v."""
        # in place, as models and solvers hold addresses of these vectors
        self.v[:] = v
        if self._truncates:
            # the squared norm starts at zero, without rounding errors of earlier
            # changes
            self.w[:], self.squares = 0.0, 0.0
            self.truncate(0, self.size)

    def recenter(self, double[::1] center, double keep, double back, double pull,
                 double threshold):
        """Set v to keep v - back center + pull w, and then center to the old w.

        Also sets the threshold, which must be zero without a truncation.
        """
        cdef Py_ssize_t k
        cdef double weight
        with nogil:
            for k in range(self.size):
                weight = self._w[k]
                self._v[k] = keep * self._v[k] - back * center[k] + pull * weight
                center[k] = weight
        self.threshold = threshold
        if self._truncates:
            self.truncate(0, self.size)

    cdef void touch(self, Py_ssize_t first, Py_ssize_t count) noexcept nogil:
        """Truncate and mark weights first <= k < first + count, whose v was changed."""
        cdef size_t row, last
        if self._truncates:
            self.truncate(first, count)
        if self._marks != NULL and count > 0:
            row = <size_t> first // self._width
            last = <size_t> (first + count - 1) // self._width
            memset(self._marks + row, 1, last - row + 1)

    cdef void truncate(self, Py_ssize_t first, Py_ssize_t count) noexcept nogil:
        """Set w to the truncated v for first <= k < first + count.

        w and v must be separate arrays.
        """
        cdef Py_ssize_t k
        cdef double value, size, before = 0.0, after = 0.0
        if self._lower != NULL:
            for k in range(first, first + count):
                value = self._v[k]
                value = self._lower[k] if value < self._lower[k] else value
                self._w[k] = self._upper[k] if value > self._upper[k] else value
            return
        for k in range(first, first + count):
            before += self._w[k] * self._w[k]
        # without branches, so that the loop is vectorized
        for k in range(first, first + count):
            size = fabs(self._v[k]) - self.threshold
            self._w[k] = copysign(size if size > 0.0 else 0.0, self._v[k])
        if self._kept != NULL:
            for k in range(first, first + count):
                self._w[k] *= self._kept[k]
        for k in range(first, first + count):
            after += self._w[k] * self._w[k]
        self.squares += after - before


cdef class LazyWeights(Weights):
    """Weights that shrink and shift as a whole, without a pass over the vector:

        w = scale (v + (total - last) direction)

    row by row, where `last` is the value of `total` at the last update of the row. A
    step w <- shrink w - rate direction changes only the numbers `scale` and `total`. A
    visit of an example first updates the rows that the example reads.

    Parameters
    ----------
    size : int
        Number of weights.
    average : bool, default=False
        Whether there is a vector u.

    Attributes
    ----------
    scale, total : float
        Factor of all weights, and distance of the steps along the direction.
    direction : ndarray of shape (size,)
        The direction.
    """

    def __init__(self, Py_ssize_t size, *, bint average=False):
        Weights.__init__(self, size, average=average)
        self.scale = 1.0

    def start(self, direction, Py_ssize_t row_size, exists=None):
        """Begin steps along a direction, with all rows up to date.

        Parameters
        ----------
        direction : ndarray of shape (size,)
            Direction of all steps; must not change until `finish`.
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
        # `last` is stored per row rather than per weight, as examples read whole rows;
        # the last row may be shorter
        self._row_size = row_size
        self._n_rows = (self.size + row_size - 1) // row_size
        self._up_to = np.zeros(self._n_rows)
        last = self._up_to
        self._direction, self._last = &along[0], &last[0]
        self.direction, self._owned, self._exists = direction, exists, NULL
        if exists is not None:
            flags = exists
            self._exists = &flags[0]

    cdef void catch_up(self, Py_ssize_t row) noexcept nogil:
        """Bring a row of v up to date."""
        cdef Py_ssize_t k, first = row * self._row_size
        cdef Py_ssize_t last = min(first + self._row_size, self.size)
        cdef double behind = self.total - self._last[row]
        # a row that is read again before the next step is up to date
        if behind != 0.0 and (self._n_rows == 1 or last - first < self._row_size):
            # a single row of all weights, or a shorter last row, may not fill whole
            # SIMD vectors
            for k in range(first, last):
                self._v[k] += behind * self._direction[k]
        elif behind != 0.0:
            sks_axpy(self._row_size, behind, self._direction + first, self._v + first)
        self._last[row] = self.total
        if self._exists != NULL:
            # changes by examples are added to all weights of a row; missing weights are
            # cleared here, before the row is read
            for k in range(first, last):
                self._v[k] *= self._exists[k]

    def catch_up_all(self):
        """Bring all rows up to date."""
        cdef Py_ssize_t row
        for row in range(self._n_rows):
            self.catch_up(row)

    def finish(self):
        """Bring all rows up to date and scale them, so that v is the weights."""
        self.catch_up_all()
        self.v *= self.scale
        # reset, as further steps would make `scale` tiny
        self.scale, self.total = 1.0, 0.0
        # there are no rows before the first `start`
        if self._n_rows:
            self._up_to[:] = 0.0
