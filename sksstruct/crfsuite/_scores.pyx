"""Scores of the labels of a sentence, its best labels and their probabilities."""

cimport cython

from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from libc.math cimport exp
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from sksstruct.crfsuite._attributes cimport Attributes
from sksstruct.crfsuite._file cimport ModelFile
from sksstruct.inference.chains._sumproduct cimport SumScratch, sum_product_padded
from sksstruct.inference.chains._viterbi cimport viterbi_padded
from sksstruct.utils._memory cimport reserve, resize


@cython.final
cdef class Scores(Attributes):
    """The scores of the labels of a sentence under a model.

    Parameters
    ----------
    model : ModelFile
        The model.
    xseq : iterable of items
        The sentence.
    """

    cdef ModelFile _model
    # _theta: scores of labels, (size + 1, ld), where the last row is for the next item.
    # _scratch: marginals and further sums, NULL before the first call of `_marginals`.
    cdef double* _theta
    cdef Py_ssize_t _row_room, _size
    cdef double* _scratch
    cdef double _log_partition

    def __init__(self, ModelFile model, xseq):
        self._model, self._size = model, 0
        self._begin_row()
        self.read(xseq)

    def __dealloc__(self):
        free(self._theta)
        free(self._scratch)

    def __len__(self):
        return self._size

    cdef int _begin_row(self) except -1:
        cdef Py_ssize_t row_size = self._model.ld * sizeof(double)
        reserve(<void**> &self._theta, &self._row_room, self._size + 1, row_size)
        memset(self._theta + self._size * self._model.ld, 0, row_size)
        return 0

    cdef int add(self, const char* name, Py_ssize_t size, double value) except -1:
        cdef Py_ssize_t attribute = self._model.find(name, size)
        if attribute >= 0:
            self._model.add_weights(
                attribute, value, self._theta + self._size * self._model.ld)
        return 0

    cdef int end_item(self) except -1:
        self._size += 1
        return self._begin_row()

    def best(self):
        """Return the labels of the labeling with the highest score."""
        cdef ModelFile model = self._model
        cdef Py_ssize_t cells = self._size * model.ld, t
        cdef double* delta = NULL
        cdef int32_t* labeling
        cdef list labels = PyList_New(self._size)
        if self._size == 0:
            return labels
        resize(<void**> &delta, cells * sizeof(double) + self._size * sizeof(int32_t))
        labeling = <int32_t*> (delta + cells)
        memcpy(delta, self._theta, cells * sizeof(double))
        with nogil:
            viterbi_padded(self._size, model.n_labels, model.ld, delta,
                           model.table.scores, 0, labeling)
        for t in range(self._size):
            label = model.labels[labeling[t]]
            Py_INCREF(label)
            PyList_SET_ITEM(labels, t, label)
        free(delta)
        return labels

    cdef double* _marginals(self) except NULL:
        """Return the marginals of labels, (size, ld), which the first call computes."""
        cdef ModelFile model = self._model
        cdef Py_ssize_t ld = model.ld, cells = self._size * ld
        cdef SumScratch scratch
        cdef double* memory = NULL
        if self._scratch == NULL:
            model.exponentiate()
            resize(<void**> &memory, (3 * cells + 3 * ld + self._size) * sizeof(double))
            scratch = SumScratch(memory + cells, memory + 2 * cells, memory + 3 * cells,
                                 memory + 3 * cells + 3 * ld)
            with nogil:
                sum_product_padded(
                    self._size, model.n_labels, ld, self._theta, &model.table, 0,
                    &scratch, memory, 0.0, NULL, 0, NULL, 0, &self._log_partition)
            # another thread may have stored its marginals in the meantime
            free(self._scratch)
            self._scratch = memory
        return self._scratch

    def marginal(self, Py_ssize_t label, Py_ssize_t t):
        """Return the probability of a label at a position."""
        return self._marginals()[t * self._model.ld + label]

    def marginals(self):
        """Return a dict of labels and their probabilities for each position."""
        cdef ModelFile model = self._model
        cdef Py_ssize_t t, k
        cdef double* row
        cdef list found = []
        cdef dict item
        for t in range(self._size):
            row, item = self._marginals() + t * model.ld, {}
            for k in range(model.n_labels):
                item[model.labels[k]] = row[k]
            found.append(item)
        return found

    def probability(self, list labels):
        """Return the probability of a labeling, given as numbers of labels."""
        cdef ModelFile model = self._model
        cdef double score = 0.0
        cdef Py_ssize_t t, label, before = 0
        self._marginals()
        for t in range(self._size):
            label = labels[t]
            score += self._theta[t * model.ld + label]
            if t:
                score += model.table.scores[before * model.ld + label]
            before = label
        return exp(score - self._log_partition)
