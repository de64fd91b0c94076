"""The best boxes in an image, by branch and bound.

A set of boxes is four intervals: of the first and last row, and of the first and last
column. Its bound is the sum of the positive weights in the largest box and of the
negative ones in the smallest, each four look-ups in an integral image, and -inf if the
smallest holds a forbidden pixel. The set with the highest bound is taken up and its
longest interval halved, until single boxes come out (efficient subwindow search,
Algorithm 1 of Lampert, Blaschko and Hofmann, 2008). Of equal bounds the last made comes
first, so that plateaus are searched in depth.

A loss, 1 minus the overlap with an observed box, is bounded apart (Blaschko and
Lampert, 2008): the intersection of any box of a set with the observed one holds that of
the smallest, and their union lies in that of the largest.
"""

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from sksstruct.utils._memory cimport reserve

from sksstruct.inference.search._branch_and_bound import SearchResult
from sksstruct.inference._checks import check_k, check_scores, check_sums

# The four intervals of a set.
cdef enum:
    TOP = 0
    BOTTOM = 1
    LEFT = 2
    RIGHT = 3
    # of the search, between looks at signals
    STEPS_OF_A_CALL = 16384


# Numbers of 32 bits: searches of large images keep very many sets.
cdef struct Boxes:
    double bound
    int64_t number      # of equal bounds the highest comes first
    int32_t low[4]
    int32_t high[4]


cdef inline bint precedes(const Boxes* one, const Boxes* other) noexcept nogil:
    """Whether a set comes before another; numbers make this a strict order."""
    return one.bound > other.bound or (
        one.bound == other.bound and one.number > other.number)


cdef inline double box_sum(const double[:, ::1] integral, Py_ssize_t top,
                           Py_ssize_t bottom, Py_ssize_t left,
                           Py_ssize_t right) noexcept nogil:
    """Sum over rows top..bottom and columns left..right, both ends included."""
    # the smallest box of a set may be empty: then nothing is in all of its boxes
    if top > bottom or left > right:
        return 0.0
    return (integral[bottom + 1, right + 1] - integral[top, right + 1]
            - integral[bottom + 1, left] + integral[top, left])


cdef class Queue:
    """Binary heap of sets of boxes, with the highest bound first.

    The children of the set at `place` are at 2 place + 1 and 2 place + 2.
    """

    cdef Boxes* _items
    cdef Py_ssize_t _count, _capacity

    def __dealloc__(self):
        free(self._items)

    cdef int push(self, const Boxes* item) except -1 nogil:
        """Add a set."""
        cdef Py_ssize_t place = self._count, above
        reserve(<void**> &self._items, &self._capacity, self._count + 1,
                sizeof(Boxes))
        # A gap goes up to where the set belongs, which saves swaps.
        while place > 0:
            above = (place - 1) // 2
            if not precedes(item, &self._items[above]):
                break
            self._items[place] = self._items[above]
            place = above
        self._items[place] = item[0]
        self._count += 1
        return 0

    cdef Boxes pop(self) noexcept nogil:
        """Remove and return the first set; there must be one."""
        cdef Boxes first = self._items[0]
        cdef Boxes* last = &self._items[self._count - 1]
        cdef Py_ssize_t place = 0, below
        self._count -= 1
        # The gap that the first leaves goes down to where the last belongs. The last
        # is read to the end from its old place, which is outside the heap now.
        while 2 * place + 1 < self._count:
            below = 2 * place + 1
            if below + 1 < self._count and precedes(
                    &self._items[below + 1], &self._items[below]):
                below += 1
            if not precedes(&self._items[below], last):
                break
            self._items[place] = self._items[below]
            place = below
        self._items[place] = last[0]
        return first


cdef class Search:
    """The integral images of an image, the sets in the queue, and the boxes found."""

    cdef const double[:, ::1] _positive, _negative, _forbidden
    cdef Queue _queue
    cdef int32_t* _found
    cdef Py_ssize_t _n_found, _capacity
    cdef int64_t _n_visited, _n_made
    # the observed box, top, bottom, left and right, and how often the loss counts
    cdef double[4] _observed
    cdef double _loss_weight

    def __init__(self, weights, observed, double loss_weight):
        height, width = weights.shape
        forbidden = weights == -np.inf
        # Forbidden pixels are counted apart: sums of -inf would differ by NaN.
        finite = np.where(forbidden, 0.0, weights)
        # row and column 0 are zero, so that the edges are no special case
        images = np.zeros((3, height + 1, width + 1))
        for image, values in zip(
                images, (np.maximum(finite, 0.0), np.minimum(finite, 0.0), forbidden)):
            image[1:, 1:] = values.cumsum(axis=0).cumsum(axis=1)
        self._positive, self._negative, self._forbidden = images
        self._queue = Queue()
        self._observed[TOP], self._observed[LEFT] = observed[0], observed[1]
        self._observed[BOTTOM], self._observed[RIGHT] = observed[2], observed[3]
        self._loss_weight = loss_weight

    def __dealloc__(self):
        free(self._found)

    cdef int start(self) except -1 nogil:
        """Put the set of all boxes into the queue."""
        cdef Boxes boxes
        cdef Py_ssize_t side
        for side in range(4):
            boxes.low[side] = 0
            # integral images have a row and a column more than the image
            boxes.high[side] = <int32_t> (
                self._positive.shape[0 if side <= BOTTOM else 1] - 2)
        # alone in the queue, it is taken up whatever its bound
        boxes.bound, boxes.number = INFINITY, 0
        self._queue.push(&boxes)
        return 0

    cdef int step(self) except -1 nogil:
        """Take up the set with the highest bound: split it, or note a single box."""
        cdef Boxes boxes = self._queue.pop()
        cdef Py_ssize_t side, longest = 0
        self._n_visited += 1
        # The longest interval: largest and smallest box, and so the bounds, come closer
        # to each other than by halving another one.
        for side in range(1, 4):
            if (boxes.high[side] - boxes.low[side]
                    > boxes.high[longest] - boxes.low[longest]):
                longest = side
        # The bound of a single box is its score: no other set has a better one.
        if boxes.high[longest] == boxes.low[longest]:
            self._note(&boxes)
        else:
            self._split(&boxes, longest)
        return 0

    cdef int _note(self, const Boxes* box) except -1 nogil:
        """Append a single box to those found, its ends made exclusive."""
        cdef int32_t* place
        reserve(<void**> &self._found, &self._capacity, self._n_found + 1,
                4 * sizeof(int32_t))
        place = self._found + 4 * self._n_found
        place[0], place[1] = box.low[TOP], box.low[LEFT]
        place[2], place[3] = box.low[BOTTOM] + 1, box.low[RIGHT] + 1
        self._n_found += 1
        return 0

    cdef int _split(self, const Boxes* boxes, Py_ssize_t side) except -1 nogil:
        """Put both halves of a set into the queue, without what cannot be a box."""
        cdef Boxes half
        # The upper half is made last, and so comes first if their bounds are equal.
        cdef int32_t middle = (boxes.low[side] + boxes.high[side]) // 2
        half = boxes[0]
        half.high[side] = middle
        self._push(&half)
        half = boxes[0]
        half.low[side] = middle + 1
        self._push(&half)
        return 0

    cdef int _push(self, Boxes* boxes) except -1 nogil:
        """Bound a set and put it into the queue, unless none of it is allowed."""
        # Where all first rows come after all last rows, or columns do, the set has no
        # box at all.
        if (boxes.low[TOP] > boxes.high[BOTTOM]
                or boxes.low[LEFT] > boxes.high[RIGHT]):
            return 0
        # All boxes of the set hold the smallest one, and what is forbidden in it.
        # Counts are exact: they are integers, even in floating-point numbers.
        if box_sum(self._forbidden, boxes.high[TOP], boxes.low[BOTTOM],
                   boxes.high[LEFT], boxes.low[RIGHT]) > 0.0:
            return 0
        self._n_made += 1
        boxes.number = self._n_made
        # No box has more of the positive weights than the largest one has, or less of
        # the negative ones than the smallest one has.
        boxes.bound = box_sum(
            self._positive, boxes.low[TOP], boxes.high[BOTTOM], boxes.low[LEFT],
            boxes.high[RIGHT]
        ) + box_sum(
            self._negative, boxes.high[TOP], boxes.low[BOTTOM], boxes.high[LEFT],
            boxes.low[RIGHT])
        if self._loss_weight > 0.0:
            boxes.bound += self._loss_weight * (1.0 - self._least_overlap(boxes))
        self._queue.push(boxes)
        return 0

    cdef double _least_overlap(self, const Boxes* boxes) noexcept nogil:
        """Return a bound of the overlap of all boxes of a set; of a single box it."""
        cdef double smallest = self._intersection(
            boxes.high[TOP], boxes.low[BOTTOM] + 1, boxes.high[LEFT],
            boxes.low[RIGHT] + 1)
        cdef double largest = self._intersection(
            boxes.low[TOP], boxes.high[BOTTOM] + 1, boxes.low[LEFT],
            boxes.high[RIGHT] + 1)
        cdef double area = (<double> (boxes.high[BOTTOM] + 1 - boxes.low[TOP])
                            * (boxes.high[RIGHT] + 1 - boxes.low[LEFT]))
        area += ((self._observed[BOTTOM] - self._observed[TOP])
                 * (self._observed[RIGHT] - self._observed[LEFT]))
        return smallest / (area - largest)

    cdef inline double _intersection(self, double top, double bottom, double left,
                                     double right) noexcept nogil:
        """Return the area that a box, which may be empty, shares with the observed."""
        cdef double height = (min(bottom, self._observed[BOTTOM])
                              - max(top, self._observed[TOP]))
        cdef double width = (min(right, self._observed[RIGHT])
                             - max(left, self._observed[LEFT]))
        return height * width if height > 0.0 and width > 0.0 else 0.0

    def found(self):
        """Return the boxes found, as rows (top, left, bottom, right)."""
        out = np.empty((self._n_found, 4), dtype=np.int32)
        cdef int32_t[:, ::1] rows = out
        if self._n_found:
            memcpy(&rows[0, 0], self._found, 4 * self._n_found * sizeof(int32_t))
        return out


def check_observed(observed):
    """Check an observed box: top, left, bottom and right."""
    observed = check_scores("observed", observed)
    if (observed.shape != (4,) or not np.isfinite(observed).all()
            or (observed[2:] <= observed[:2]).any()):
        raise ValueError(
            "observed must be a box (top, left, bottom, right) with bottom and right "
            f"beyond top and left, got {observed.tolist()}")
    return observed


def overlaps(boxes, observed):
    """Compute the intersection over union of many boxes with one."""
    sides = np.minimum(boxes[:, 2:], observed[2:]) - np.maximum(
        boxes[:, :2], observed[:2])
    both = np.maximum(sides, 0.0).prod(axis=1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    return both / (areas + (observed[2:] - observed[:2]).prod() - both)


def best_boxes(weights, k=1, *, observed=None, loss_weight=1.0, max_nodes=None):
    """Find the k boxes of an image with the highest sums of weights.

    Branch and bound [1]_ finds exactly the k best, in order.

    Parameters
    ----------
    weights : array-like of shape (height, width)
        Weight of each pixel; ``-inf`` for pixels that no box may contain. Large
        negative numbers instead of ``-inf`` would lose precision.
    k : int, default=1
        Number of boxes.
    observed : array-like of shape (4,), default=None
        A box (top, left, bottom, right). If given, the loss is added to the score,
        times `loss_weight`. The loss is 1 minus the overlap (intersection over union)
        with this box. This is the oracle of training with a structured hinge [2]_.
    loss_weight : float, default=1.0
        Factor of this loss; not negative.
    max_nodes : int, default=None
        Number of sets of boxes after which the search stops.

    Returns
    -------
    result : SearchResult
        `labelings` of shape (n, 4) has rows (top, left, bottom, right): the box is
        ``weights[top:bottom, left:right]``. No box is empty. The order of boxes with
        equal scores depends only on the weights.

    Raises
    ------
    ValueError
        If the weights are not a matrix, a weight is NaN or ``+inf``, sums of weights
        could overflow, `observed` is not a box, or k is not a positive integer.

    References
    ----------
    .. [1] C. H. Lampert, M. B. Blaschko and T. Hofmann, "Beyond sliding windows: object
       localization by efficient subwindow search", CVPR 2008.
    .. [2] M. B. Blaschko and C. H. Lampert, "Learning to localize objects with
       structured output regression", ECCV 2008.

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
    # no more than there are, so that finding all of them counts as complete
    cdef Py_ssize_t most = min(check_k(k), boxes_in_all)
    # -1, which no count reaches, is no limit
    cdef int64_t limit = -1
    if max_nodes is not None:
        limit = min(check_k(max_nodes, "max_nodes"), 2**62)
    if not 0.0 <= loss_weight < np.inf:
        raise ValueError(
            f"loss_weight must be finite and not negative, got {loss_weight!r}")
    # without a loss any box will do
    box = check_observed((0, 0, 1, 1) if observed is None else observed)
    cdef Search search = Search(
        weights, box, 0.0 if observed is None else loss_weight)
    # Only what is split off is looked at for forbidden pixels: a single pixel is not.
    if weights.size == 1 and weights[0, 0] == -np.inf:
        most = 0
    with nogil:
        search.start()
        while (search._queue._count and search._n_found < most
               and search._n_visited != limit):
            search.step()
            # a search may take minutes: signals are looked at now and then
            if search._n_visited % STEPS_OF_A_CALL == 0:
                with gil:
                    PyErr_CheckSignals()
    complete = search._n_found == most or not search._queue._count
    boxes = search.found()
    # summed up again, without what the integral images round
    scores = np.array([
        weights[top:bottom, left:right].sum()
        for top, left, bottom, right in boxes.tolist()])
    if observed is not None:
        scores += loss_weight * (1.0 - overlaps(boxes, box))
    return SearchResult(boxes, scores, int(search._n_visited), complete)
