"""The best boxes in an image, by branch and bound.

A set of boxes is four intervals, of the first and last row and column. Its bound is the
sum of the positive weights in the largest box and of the negative ones in the smallest,
each four look-ups in an integral image, and -inf if the smallest holds a forbidden
pixel; the longest interval is halved (Lampert, Blaschko and Hofmann, 2008). Of equal
bounds the last made comes first, so that plateaus are searched in depth.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc

from sksstruct.inference.search._branch_and_bound import SearchResult
from sksstruct.inference._checks import check_k, check_scores, check_sums


cdef struct Boxes:
    double bound
    int64_t number      # of equal bounds the highest comes first
    int32_t low[4]      # first row, last row, first column, last column
    int32_t high[4]


cdef inline bint precedes(const Boxes* x, const Boxes* y) noexcept nogil:
    return x.bound > y.bound or (x.bound == y.bound and x.number > y.number)


cdef inline double box_sum(const double[:, ::1] integral, Py_ssize_t r0, Py_ssize_t r1,
                           Py_ssize_t c0, Py_ssize_t c1) noexcept nogil:
    """Sum over rows r0..r1 and columns c0..c1, both ends included."""
    if r0 > r1 or c0 > c1:
        return 0.0
    return (integral[r1 + 1, c1 + 1] - integral[r0, c1 + 1]
            - integral[r1 + 1, c0] + integral[r0, c0])


cdef class Queue:
    """Sets of boxes, the highest bound first."""

    cdef Boxes* _items
    cdef Py_ssize_t _count, _room

    def __dealloc__(self):
        free(self._items)

    cdef int push(self, const Boxes* item) except -1 nogil:
        cdef Py_ssize_t x = self._count, above
        cdef Boxes* larger
        if x == self._room:
            larger = <Boxes*> realloc(
                self._items, (2 * self._room + 64) * sizeof(Boxes))
            if larger == NULL:
                raise MemoryError()
            self._items = larger
            self._room = 2 * self._room + 64
        while x > 0:
            above = (x - 1) // 2
            if not precedes(item, &self._items[above]):
                break
            self._items[x] = self._items[above]
            x = above
        self._items[x] = item[0]
        self._count += 1
        return 0

    cdef Boxes pop(self) noexcept nogil:
        cdef Boxes first = self._items[0]
        cdef Boxes* last = &self._items[self._count - 1]
        cdef Py_ssize_t x = 0, below
        self._count -= 1
        while 2 * x + 1 < self._count:
            below = 2 * x + 1
            if below + 1 < self._count and precedes(
                    &self._items[below + 1], &self._items[below]):
                below += 1
            if not precedes(&self._items[below], last):
                break
            self._items[x] = self._items[below]
            x = below
        self._items[x] = last[0]
        return first


def best_boxes(weights, k=1, *, max_nodes=None):
    """The k boxes of an image with the highest sums of weights.

    Parameters
    ----------
    weights : array-like of shape (height, width)
        Weight of each pixel; ``-inf`` for pixels that no box may hold. Large negative
        numbers for those would cost the digits of the others.
    k : int, default=1
        Number of boxes.
    max_nodes : int, default=None
        Give up after so many sets of boxes.

    Returns
    -------
    result : SearchResult
        `labelings` of shape (n, 4) has rows (top, left, bottom, right), so that box i
        is ``weights[top:bottom, left:right]``; no box is empty. Boxes of equal score
        come in an order that depends on the weights only.

    Raises
    ------
    ValueError
        If the weights are not a matrix, one is NaN or ``+inf``, their sums are too
        large, or k is not a positive integer.

    References
    ----------
    C. H. Lampert, M. B. Blaschko and T. Hofmann, "Beyond sliding windows: object
    localization by efficient subwindow search", CVPR 2008.

    Examples
    --------
    >>> from sksstruct.inference import best_boxes
    >>> result = best_boxes([[-1, -1, -1], [-1, 2, 3], [-1, 1, -2]])
    >>> result.labelings.tolist(), result.scores.tolist()
    ([[1, 1, 2, 3]], [5.0])
    """
    weights = check_scores("weights", weights, ndim=2)
    if not weights.size:
        raise ValueError(f"weights must not be empty, got shape {weights.shape}")
    check_sums("weights", weights.size, weights)
    height, width = weights.shape
    boxes_in_all = height * (height + 1) * width * (width + 1) // 4
    cdef Py_ssize_t most = min(check_k(k), boxes_in_all)
    cdef int64_t limit = -1
    if max_nodes is not None:
        limit = min(check_k(max_nodes, "max_nodes"), 2**62)
    barred = weights == -np.inf
    finite = np.where(barred, 0.0, weights)
    images = np.zeros((3, height + 1, width + 1))
    for image, values in zip(
            images, (np.maximum(finite, 0.0), np.minimum(finite, 0.0), barred)):
        image[1:, 1:] = values.cumsum(axis=0).cumsum(axis=1)
    cdef const double[:, ::1] positive = images[0], negative = images[1]
    cdef const double[:, ::1] forbidden = images[2]
    cdef Queue queue = Queue()
    cdef Boxes item, part
    cdef Py_ssize_t longest, j, side, found = 0
    cdef int32_t middle
    cdef int64_t visited = 0, number = 0
    cdef Py_ssize_t room = 64
    boxes = np.empty((room, 4), dtype=np.int32)
    cdef int32_t[:, ::1] out = boxes
    for j in range(4):
        item.low[j] = 0
        item.high[j] = <int32_t> (height if j < 2 else width) - 1
    item.bound, item.number = INFINITY, 0
    if height == width == 1 and barred[0, 0]:
        most = 0  # the only set is never split, and so not looked at
    with nogil:
        queue.push(&item)
        while queue._count and found < most and visited != limit:
            item = queue.pop()
            visited += 1
            longest = 0
            for j in range(1, 4):
                if item.high[j] - item.low[j] > item.high[longest] - item.low[longest]:
                    longest = j
            if item.high[longest] == item.low[longest]:
                if found == room:
                    with gil:
                        room *= 2
                        boxes = np.concatenate([boxes, np.empty_like(boxes)])
                        out = boxes
                out[found, 0], out[found, 1] = item.low[0], item.low[2]
                out[found, 2], out[found, 3] = item.low[1] + 1, item.low[3] + 1
                found += 1
                continue
            middle = (item.low[longest] + item.high[longest]) // 2
            for side in range(2):
                part = item
                if side == 0:
                    part.high[longest] = middle
                else:
                    part.low[longest] = middle + 1
                if part.low[0] > part.high[1] or part.low[2] > part.high[3]:
                    continue
                if box_sum(forbidden, part.high[0], part.low[1], part.high[2],
                           part.low[3]) > 0.0:
                    continue
                number += 1
                part.number = number
                part.bound = box_sum(
                    positive, part.low[0], part.high[1], part.low[2], part.high[3]
                ) + box_sum(
                    negative, part.high[0], part.low[1], part.high[2], part.low[3])
                queue.push(&part)
    complete = found == most or not queue._count
    boxes = boxes[:found]
    # without what the integral images round
    scores = np.array([weights[t:b, l:r].sum() for t, l, b, r in boxes.tolist()])
    return SearchResult(boxes, scores, int(visited), complete)
