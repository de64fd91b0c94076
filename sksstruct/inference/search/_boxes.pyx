"""The best boxes in an image, by branch and bound.

A set of boxes is four intervals: of the first and last row, and of the first and last
column. The bound of a set is the sum of the positive weights in the largest box plus
the sum of the negative weights in the smallest box, each from four entries of an
integral image, and -inf if the smallest box has a forbidden pixel. The longest interval
of the set with the highest bound is halved, until this set is a single box (efficient
subwindow search, Algorithm 1 of Lampert, Blaschko and Hofmann, 2008). Of equal bounds
the newest set comes first, so that few sets of equal bound are split.

A loss, 1 minus the overlap with an observed box, is bounded separately (Blaschko and
Lampert, 2008): the intersection of any box of a set with the observed box contains that
of the smallest box, and their union is contained in that of the largest box.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport const_doubles, int32s

# Indices of the four intervals of a set of boxes: of the first and the last row, and of
# the first and the last column.
cdef enum:
    TOP = 0
    BOTTOM = 1
    LEFT = 2
    RIGHT = 3
    # search steps between checks for signals, such as a keyboard interrupt
    STEPS_OF_A_CALL = 16384


# A set of boxes: `low` and `high` are the ends of its four intervals. The ends have 32
# bits, as searches of large images store very many sets.
cdef struct Boxes:
    double bound
    # the newest set has the highest number, and precedes sets of equal bound
    int64_t number
    int32_t low[4]
    int32_t high[4]


cdef inline bint precedes(const Boxes* one, const Boxes* other) noexcept nogil:
    """Whether a set precedes another in the queue; numbers make the order strict."""
    return one.bound > other.bound or (
        one.bound == other.bound and one.number > other.number)


cdef inline double box_sum(const double* integral, Py_ssize_t ld, Py_ssize_t top,
                           Py_ssize_t bottom, Py_ssize_t left,
                           Py_ssize_t right) noexcept nogil:
    """Return the sum of an image's pixels in a box, from the integral image.

    The box has the rows top..bottom and the columns left..right, both ends included.
    """
    cdef const double* above = integral + top * ld
    cdef const double* below = integral + (bottom + 1) * ld
    # an empty smallest box: no pixel is common to all boxes of the set
    if top > bottom or left > right:
        return 0.0
    return below[right + 1] - above[right + 1] - below[left] + above[left]


cdef class Queue:
    """Binary heap of sets of boxes, with the highest bound first.

    The children of the set at `index` are at 2 index + 1 and 2 index + 2.
    """

    cdef Boxes* _items
    cdef Py_ssize_t _count, _capacity

    def __dealloc__(self):
        free(self._items)

    cdef int push(self, const Boxes* item) except -1 nogil:
        """Add a set of boxes to the queue."""
        cdef Py_ssize_t index = self._count, above
        reserve(<void**> &self._items, &self._capacity, self._count + 1,
                sizeof(Boxes))
        # parents move down into a gap, which rises to the position of the item: one
        # copy for each parent instead of a swap
        while index > 0:
            above = (index - 1) // 2
            if not precedes(item, &self._items[above]):
                break
            self._items[index] = self._items[above]
            index = above
        self._items[index] = item[0]
        self._count += 1
        return 0

    cdef Boxes pop(self) noexcept nogil:
        """Remove and return the first set; the queue must not be empty."""
        cdef Boxes first = self._items[0]
        cdef Boxes* last = &self._items[self._count - 1]
        cdef Py_ssize_t index = 0, below
        self._count -= 1
        # Children move up into a gap, which sinks from the top to the new position of
        # the last set. The old position of this set, `last`, is now behind the end of
        # the heap, and is not overwritten.
        while 2 * index + 1 < self._count:
            below = 2 * index + 1
            if below + 1 < self._count and precedes(
                    &self._items[below + 1], &self._items[below]):
                below += 1
            if not precedes(&self._items[below], last):
                break
            self._items[index] = self._items[below]
            index = below
        self._items[index] = last[0]
        return first


cdef class Search:
    """Search for the best boxes, with integral images and the queue of sets."""

    cdef object _images
    # integral images of positive weights, of negative weights and of forbidden pixels,
    # with rows of _ld numbers
    cdef const double* _positive
    cdef const double* _negative
    cdef const double* _forbidden
    cdef Py_ssize_t _height, _ld
    cdef Queue _queue
    cdef int32_t* _found
    cdef Py_ssize_t _n_found, _capacity
    cdef int64_t _n_visited, _n_made
    # top, bottom, left and right of the observed box, and factor of the loss
    cdef double[4] _observed
    cdef double _loss_weight

    def __cinit__(self, images, observed, double loss_weight):
        self._images, self._height, self._ld = images, images.shape[1], images.shape[2]
        self._positive = const_doubles(images)
        self._negative = self._positive + self._height * self._ld
        self._forbidden = self._negative + self._height * self._ld
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
            # integral images have one more row and column than the image
            boxes.high[side] = <int32_t> (
                (self._height if side <= BOTTOM else self._ld) - 2)
        # the only set in the queue needs no bound
        boxes.bound, boxes.number = INFINITY, 0
        self._queue.push(&boxes)
        return 0

    cdef int step(self) except -1 nogil:
        """Remove the set with the highest bound: split it, or record its single box."""
        cdef Boxes boxes = self._queue.pop()
        cdef Py_ssize_t side, longest = 0
        self._n_visited += 1
        # Halving the longest interval brings largest and smallest box, and with them
        # the bounds, closest to each other.
        for side in range(1, 4):
            if (boxes.high[side] - boxes.low[side]
                    > boxes.high[longest] - boxes.low[longest]):
                longest = side
        # the bound of a single box is its score, and no other set has a higher bound
        if boxes.high[longest] == boxes.low[longest]:
            self._record(&boxes)
        else:
            self._split(&boxes, longest)
        return 0

    cdef int _record(self, const Boxes* box) except -1 nogil:
        """Append a box to the boxes found, with exclusive ends."""
        cdef int32_t* row
        reserve(<void**> &self._found, &self._capacity, self._n_found + 1,
                4 * sizeof(int32_t))
        row = self._found + 4 * self._n_found
        row[0], row[1] = box.low[TOP], box.low[LEFT]
        row[2], row[3] = box.low[BOTTOM] + 1, box.low[RIGHT] + 1
        self._n_found += 1
        return 0

    cdef int _split(self, const Boxes* boxes, Py_ssize_t side) except -1 nogil:
        """Push both halves of a set to the queue, unless a half has no box."""
        cdef Boxes half
        # the upper half is pushed last, and so precedes the lower half on equal bounds
        cdef int32_t middle = (boxes.low[side] + boxes.high[side]) // 2
        half = boxes[0]
        half.high[side] = middle
        self._push(&half)
        half = boxes[0]
        half.low[side] = middle + 1
        self._push(&half)
        return 0

    cdef int _push(self, Boxes* boxes) except -1 nogil:
        """Compute the bound of a set and push the set, unless no box is allowed."""
        # all first rows are below all last rows, or all first columns right of all last
        # columns: the set has no box
        if (boxes.low[TOP] > boxes.high[BOTTOM]
                or boxes.low[LEFT] > boxes.high[RIGHT]):
            return 0
        # Every box of the set contains the smallest box with its forbidden pixels.
        # Counts of pixels are integers, exact in floating point.
        if box_sum(self._forbidden, self._ld, boxes.high[TOP], boxes.low[BOTTOM],
                   boxes.high[LEFT], boxes.low[RIGHT]) > 0.0:
            return 0
        self._n_made += 1
        boxes.number = self._n_made
        # In no box is the sum of positive weights higher than in the largest box, or
        # the sum of negative weights higher than in the smallest box.
        boxes.bound = box_sum(
            self._positive, self._ld, boxes.low[TOP], boxes.high[BOTTOM],
            boxes.low[LEFT], boxes.high[RIGHT]
        ) + box_sum(
            self._negative, self._ld, boxes.high[TOP], boxes.low[BOTTOM],
            boxes.high[LEFT], boxes.low[RIGHT])
        if self._loss_weight > 0.0:
            boxes.bound += self._loss_weight * (1.0 - self._least_overlap(boxes))
        self._queue.push(boxes)
        return 0

    cdef double _least_overlap(self, const Boxes* boxes) noexcept nogil:
        """Return a lower bound on the overlap of a set's boxes; exact for one box."""
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
        """Area of the intersection of the observed box and a box that may be empty."""
        cdef double height = (min(bottom, self._observed[BOTTOM])
                              - max(top, self._observed[TOP]))
        cdef double width = (min(right, self._observed[RIGHT])
                             - max(left, self._observed[LEFT]))
        return height * width if height > 0.0 and width > 0.0 else 0.0

    def run(self, Py_ssize_t most, int64_t limit):
        """Find up to `most` boxes, splitting or recording at most `limit` sets.

        Returns the number of boxes found, the number of sets visited, and whether the
        queue is empty. A limit of -1, which no count equals, means no limit.
        """
        with nogil:
            self.start()
            while (self._queue._count and self._n_found < most
                   and self._n_visited != limit):
                self.step()
                # a search may take minutes, and must react to signals
                if self._n_visited % STEPS_OF_A_CALL == 0:
                    with gil:
                        PyErr_CheckSignals()
        return self._n_found, self._n_visited, self._queue._count == 0

    def read(self, out):
        """Write the boxes found, as rows (top, left, bottom, right)."""
        cdef int32_t* rows = int32s(out)
        if self._n_found:
            memcpy(rows, self._found, 4 * self._n_found * sizeof(int32_t))
