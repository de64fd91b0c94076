"""The k best labelings of any structure, by parts of the set of all labelings.

Each part has a best labeling, which is known, and a second best one, of which at least
a bound is known. The part whose second best is highest is split: one of the two
labelings goes to each side (Murty, 1968; Lawler, 1972). The best labelings of all parts
are then the best of all labelings, in the order in which the parts were made.

Subclasses say how a part is described and how its second best labeling is found. They
find it only when the bound, that of a larger part, comes out highest.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from sksstruct.utils._memory cimport reserve


cdef class BestFirst:
    """The search; the caller sets `n_variables` and prepares the subclass."""

    def __dealloc__(self):
        free(self._parts)
        free(self._labelings)

    # ---- what subclasses override ----

    # Make room for a part; they call this one as well.
    cdef int reserve_part(self, Py_ssize_t part) except -1 nogil:
        reserve(<void**> &self._parts, &self._part_capacity, part + 1, sizeof(Part))
        reserve(<void**> &self._labelings, &self._label_capacity,
                (part + 1) * self.n_variables, sizeof(int32_t))
        return 0

    # Write part 0, of all labelings: its best labeling, the score, and a bound of the
    # second best. False if nothing is allowed.
    cdef bint start(self) except -1 nogil:
        raise NotImplementedError

    # Find the second best labeling of a stale part; its score is -inf if there is none.
    # Its bound may also just get lower; the part stays stale then. `wanted` is how many
    # more labelings are searched for.
    cdef int refresh(self, Py_ssize_t part, Py_ssize_t wanted) except -1 nogil:
        raise NotImplementedError

    # Make the labelings like the second best one of a part the part `other`, and leave
    # those like its best. False if there is nothing like the second best after all.
    cdef bint split(self, Py_ssize_t part, Py_ssize_t other) except -1 nogil:
        raise NotImplementedError

    # ---- the search ----

    cdef Py_ssize_t find(self, Py_ssize_t k) except -1 nogil:
        """Find up to k best labelings; returns their number."""
        cdef Py_ssize_t best, part
        self.n_parts = 0
        self.reserve_part(0)
        if not self.start():
            return 0
        self.n_parts = 1
        while self.n_parts < k:
            # Of equal scores the part that was made first.
            best = 0
            for part in range(1, self.n_parts):
                if self._parts[part].next_score > self._parts[best].next_score:
                    best = part
            # all parts are down to the labelings that are known
            if self._parts[best].next_score == -INFINITY:
                break
            # Bounds are enough to rule parts out: most are never refreshed.
            if self._parts[best].stale:
                self.refresh(best, k - self.n_parts)
                continue
            self.reserve_part(self.n_parts)
            if self.split(best, self.n_parts):
                # scores increase by rounding only
                self._parts[self.n_parts].score = min(
                    self._parts[self.n_parts].score,
                    self._parts[self.n_parts - 1].score)
                self.n_parts += 1
        return self.n_parts

    cdef double score(self, Py_ssize_t rank) noexcept nogil:
        """The score of the labeling of a rank."""
        return self._parts[rank].score

    cdef int32_t* labeling(self, Py_ssize_t rank) noexcept nogil:
        """The labeling of a rank; those of all ranks lie one after the other."""
        return self._labelings + rank * self.n_variables


def found_by(BestFirst search, Py_ssize_t k):
    """Return up to k best labelings of a search that was prepared, as rows."""
    cdef Py_ssize_t count
    cdef int32_t[:, ::1] rows
    with nogil:
        count = search.find(k)
    rows = labelings = np.empty((count, search.n_variables), dtype=np.int32)
    if labelings.size:
        memcpy(&rows[0, 0], search.labeling(0), labelings.nbytes)
    return labelings
