"""Constraints of chains: labels that are not allowed, as scores of -inf.

A forbidden labeling then has the score -inf, so oracles need no special cases. There
are two kinds of constraints: on first labels, last labels and transitions, which hold
in all sequences, and on labels at single positions.
"""

from libc.math cimport INFINITY
from libc.string cimport memcpy

from sksstruct.utils._simd cimport sks_axpy

# Rows of the mask: first labels, last labels, and then n_labels rows of transitions.
cdef Py_ssize_t FIRST = 0, LAST = 1, TRANSITIONS = 2


cdef class ChainConstraints:
    """Constraints as scores, for all sequences that a chain is bound to.

    Parameters
    ----------
    mask : ndarray of shape (n_rows, ld) or None
        Scores of 0 or -inf: a row of first labels, a row of last labels, and rows of
        transitions.
    forbidden_labels : ndarray of shape (n_positions, n_labels), uint8, or None
        Labels that are not allowed at a position.
    n_positions, n_labels, ld : int
        Shapes of the scores that the mask is added to.
    n_rows : int
        Number of rows of the mask; two if it has no transitions.

    Attributes
    ----------
    exist : bool
        Whether some labelings are not allowed.
    """

    def __cinit__(self, mask, forbidden_labels, *, n_positions, n_labels, ld, n_rows):
        cdef const double[:, ::1] scores
        cdef const unsigned char[:, ::1] entries
        self._n_labels, self._ld, self._n_rows = n_labels, ld, n_rows
        self._owned = (mask, forbidden_labels)
        self.exist = mask is not None or forbidden_labels is not None
        self.mask, self.forbidden = NULL, NULL
        if mask is not None:
            # kernels add whole rows and check no shapes
            if mask.shape != (n_rows, ld):
                raise ValueError(
                    f"mask must have shape {(n_rows, ld)}, got {mask.shape}")
            scores = mask
            self.mask = &scores[0, 0]
        if forbidden_labels is not None:
            if forbidden_labels.shape != (n_positions, n_labels):
                raise ValueError(
                    f"forbidden_labels must have shape {(n_positions, n_labels)}, got "
                    f"{forbidden_labels.shape}")
            entries = forbidden_labels
            self.forbidden = &entries[0, 0]

    cdef void forbid_labels(self, Py_ssize_t first, Py_ssize_t size,
                            double* theta) noexcept nogil:
        """Write -inf to the scores theta of the forbidden labels of a sequence, whose
        positions are first to first + size - 1.
        """
        cdef Py_ssize_t t, label
        cdef const unsigned char* row
        if self.mask != NULL:
            # at the only position of a sequence of length one, the rows of first and of
            # last labels are both added
            sks_axpy(self._ld, 1.0, self.mask + FIRST * self._ld, theta)
            sks_axpy(self._ld, 1.0, self.mask + LAST * self._ld,
                     theta + (size - 1) * self._ld)
        if self.forbidden == NULL:
            return
        # forbidden entries are overwritten: most entries are 0, and a mask of doubles
        # would be eight times as large
        for t in range(size):
            row = self.forbidden + (first + t) * self._n_labels
            for label in range(self._n_labels):
                if row[label]:
                    theta[t * self._ld + label] = -INFINITY

    cdef bint allow(self, Py_ssize_t first, Py_ssize_t size, Py_ssize_t t,
                    Py_ssize_t label) noexcept nogil:
        """Return whether position t of a sequence may have a label."""
        if self.mask != NULL and (
                t == 0 and self.mask[FIRST * self._ld + label] != 0.0
                or t == size - 1 and self.mask[LAST * self._ld + label] != 0.0):
            return False
        return self.forbidden == NULL or not self.forbidden[
            (first + t) * self._n_labels + label]

    cdef bint allow_pair(self, Py_ssize_t entry) noexcept nogil:
        """Return whether an entry of the table of transitions is allowed."""
        # a mask of two rows has no transitions
        return (self.mask == NULL or self._n_rows == TRANSITIONS
                or self.mask[TRANSITIONS * self._ld + entry] == 0.0)

    cdef const double* transitions(self, const double* table,
                                   double* masked) noexcept nogil:
        """Return `table` with -inf for forbidden transitions.

        Without a mask, `table` itself; otherwise the copy `masked`, (n_labels, ld).
        """
        cdef Py_ssize_t label, ld = self._ld
        if self.mask == NULL:
            return table
        # `table` is copied at each call, as the weights change between visits
        memcpy(masked, table, self._n_labels * ld * sizeof(double))
        for label in range(self._n_labels):
            sks_axpy(ld, 1.0, self.mask + (TRANSITIONS + label) * ld,
                     masked + label * ld)
        return masked
