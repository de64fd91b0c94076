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

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport const_doubles, int32s

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


cdef inline double box_sum(const double* integral, Py_ssize_t ld, Py_ssize_t top,
                           Py_ssize_t bottom, Py_ssize_t left,
                           Py_ssize_t right) noexcept nogil:
    """Sum over rows top..bottom and columns left..right, both ends included."""
    cdef const double* above = integral + top * ld
    cdef const double* below = integral + (bottom + 1) * ld
    # the smallest box of a set may be empty: then nothing is in all of its boxes
    if top > bottom or left > right:
        return 0.0
    return below[right + 1] - above[right + 1] - below[left] + above[left]


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

    cdef object _images
    # rows of _ld numbers
    cdef const double* _positive
    cdef const double* _negative
    cdef const double* _forbidden
    cdef Py_ssize_t _height, _ld
    cdef Queue _queue
    cdef int32_t* _found
    cdef Py_ssize_t _n_found, _capacity
    cdef int64_t _n_visited, _n_made
    # the observed box, top, bottom, left and right, and how often the loss counts
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
            # integral images have a row and a column more than the image
            boxes.high[side] = <int32_t> (
                (self._height if side <= BOTTOM else self._ld) - 2)
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
        if box_sum(self._forbidden, self._ld, boxes.high[TOP], boxes.low[BOTTOM],
                   boxes.high[LEFT], boxes.low[RIGHT]) > 0.0:
            return 0
        self._n_made += 1
        boxes.number = self._n_made
        # No box has more of the positive weights than the largest one has, or less of
        # the negative ones than the smallest one has.
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

    def run(self, Py_ssize_t most, int64_t limit):
        """Find up to `most` boxes, taking up at most `limit` sets.

        Returns the numbers of boxes found, of sets taken up, and whether no set is
        left. A limit of -1, which no count reaches, is none.
        """
        with nogil:
            self.start()
            while (self._queue._count and self._n_found < most
                   and self._n_visited != limit):
                self.step()
                # a search may take minutes: signals are looked at now and then
                if self._n_visited % STEPS_OF_A_CALL == 0:
                    with gil:
                        PyErr_CheckSignals()
        return self._n_found, self._n_visited, self._queue._count == 0

    def read(self, out):
        """Write the boxes found, as rows (top, left, bottom, right)."""
        cdef int32_t* rows = int32s(out)
        if self._n_found:
            memcpy(rows, self._found, 4 * self._n_found * sizeof(int32_t))
