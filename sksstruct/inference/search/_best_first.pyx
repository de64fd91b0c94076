"""The k best labelings of any structure, by splitting the set of labelings.

Each part of the set has a best labeling, which is known, and a second best labeling,
for whose score at least an upper bound is known. The part with the highest second best
score is split so that the two labelings are in different parts (Murty, 1968; Lawler,
1972). The best labelings of all parts are then the best of all labelings, in the order
in which the parts were made.

Subclasses define the representation of a part and the search for its second best
labeling. This search runs only if the part's bound, inherited from a larger part, is
the highest.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from sksstruct.utils._memory cimport reserve


cdef class BestFirst:
    """Search for the k best labelings; subclasses set `n_variables`."""

    def __dealloc__(self):
        free(self._parts)
        free(self._labelings)

    # ---- overridden by subclasses ----

    # Reserve memory for the part with index `part`. An overriding method must also call
    # BestFirst.reserve_part.
    cdef int reserve_part(self, Py_ssize_t part) except -1 nogil:
        reserve(<void**> &self._parts, &self._part_capacity, part + 1, sizeof(Part))
        reserve(<void**> &self._labelings, &self._label_capacity,
                (part + 1) * self.n_variables, sizeof(int32_t))
        return 0

    # Write part 0, the set of all labelings: the best labeling, its score, and an upper
    # bound on the score of the second best labeling. Return False if every labeling is
    # forbidden.
    cdef bint start(self) except -1 nogil:
        raise NotImplementedError

    # Find the second best labeling of a stale part, and set `next_score`, to -inf if
    # the part has only one labeling. A subclass may also lower the bound `next_score`
    # and leave the part stale. `wanted` is the number of labelings still to be found.
    cdef int refresh(self, Py_ssize_t part, Py_ssize_t wanted) except -1 nogil:
        raise NotImplementedError

    # Move all labelings that agree with the second best labeling at the `variable` of
    # `part` from `part` to `other`. Return False if all moved labelings are forbidden.
    cdef bint split(self, Py_ssize_t part, Py_ssize_t other) except -1 nogil:
        raise NotImplementedError

    # ---- the search ----

    cdef Py_ssize_t find(self, Py_ssize_t k) except -1 nogil:
        """Find up to k best labelings; return their number."""
        cdef Py_ssize_t best, part
        self.n_parts = 0
        self.reserve_part(0)
        if not self.start():
            return 0
        self.n_parts = 1
        while self.n_parts < k:
            # of equal scores, the part that was made first is taken
            best = 0
            for part in range(1, self.n_parts):
                if self._parts[part].next_score > self._parts[best].next_score:
                    best = part
            # each part has only its best labeling left
            if self._parts[best].next_score == -INFINITY:
                break
            # Second best labelings are searched only in the part with the highest bound
            # of all parts: most parts are never refreshed.
            if self._parts[best].stale:
                self.refresh(best, k - self.n_parts)
                continue
            self.reserve_part(self.n_parts)
            if self.split(best, self.n_parts):
                # only rounding can make the score of a later labeling higher
                self._parts[self.n_parts].score = min(
                    self._parts[self.n_parts].score,
                    self._parts[self.n_parts - 1].score)
                self.n_parts += 1
        return self.n_parts

    cdef double score(self, Py_ssize_t rank) noexcept nogil:
        """Return the score of the labeling of a rank; rank 0 is the best labeling."""
        return self._parts[rank].score

    cdef int32_t* labeling(self, Py_ssize_t rank) noexcept nogil:
        """Return the labeling of a rank; labelings are consecutive in memory."""
        return self._labelings + rank * self.n_variables


def found_by(BestFirst search, Py_ssize_t k):
    """Run a search; return up to k best labelings as the rows of an array."""
    cdef Py_ssize_t count
    cdef int32_t[:, ::1] rows
    with nogil:
        count = search.find(k)
    rows = labelings = np.empty((count, search.n_variables), dtype=np.int32)
    if labelings.size:
        memcpy(&rows[0, 0], search.labeling(0), labelings.nbytes)
    return labelings
