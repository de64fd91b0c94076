"""Sequences in which one interval is marked, bound to data.

Score of an interval y = (start, stop) of a sequence with rows of features F:

    sum_{start <= t < stop} F_t . w + bias

One block of weights of one column scores every position; the keys of an interval are
its positions. The loss is the number of positions on which y and the observed interval
y_i differ, divided by the length |y_i|. It is a sum over positions as well,

    |y_i| L(y) = |y_i| + sum_{t in y} (1 - 2 [t in y_i]),

so that the oracle is the same with and without the loss.
"""

from libc.stdint cimport int32_t

from afternoon._interval cimport Interval, find_interval
from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.tables._table cimport BoundTable, TableScratch


cdef class BoundInterval(BoundTable):
    """Sequences bound to data; the parameters are those of `BoundTable`."""

    # What solvers may ask for; of the k best intervals this oracle knows nothing.
    oracles = ("max",)

    cdef int add_loss(self, TableScratch* ws, Py_ssize_t i,
                      double scale) except -1 nogil:
        """Add `scale` times the loss to the scores of positions and the constant."""
        cdef Py_ssize_t start = self._y_true[2 * i], stop = self._y_true[2 * i + 1], t
        cdef double cost = scale / (stop - start)
        for t in range(self._blocks[0].offsets[i + 1] - self._blocks[0].offsets[i]):
            ws.theta[t] += -cost if start <= t < stop else cost
        ws.constant += scale
        return 0

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        """The best interval at the potentials in the workspace, and its value."""
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Interval best = find_interval(
            self._blocks[0].offsets[i + 1] - self._blocks[0].offsets[i], ws.theta)
        y[0], y[1] = <int32_t> best.start, <int32_t> best.stop
        value[0] = ws.constant + best.score
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        """Loss of an interval."""
        cdef int32_t start = self._y_true[2 * i], stop = self._y_true[2 * i + 1]
        cdef int32_t both = max(min(stop, y[1]) - max(start, y[0]), 0)
        value[0] = <double> (stop - start + y[1] - y[0] - 2 * both) / (stop - start)
        return 0

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        """Keys of an interval, and how many there are."""
        cdef int32_t t
        for t in range(y[0], y[1]):
            keys[t - y[0]] = t
        return y[1] - y[0]
