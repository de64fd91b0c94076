"""The compiled interface of solvers to models written in Python.

`python.py` implements the methods that are called below.
"""

from cpython.buffer cimport PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace


cdef class PythonModel(BoundModel):
    """Calls methods of a Python subclass, which refer to outputs by their numbers."""

    def set_weights(self, Py_ssize_t n_weights, Py_ssize_t n_outputs):
        """Set the number of weights, and the bound of the numbers of outputs."""
        self.n_weights = n_weights
        # the work of a visit is unknown, and assumed large, as oracles are in Python
        self.max_keys, self.key_space, self.visit_work = 1, n_outputs, 1e6

    # ---- potentials and labelings ----

    cdef int potentials(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        # potentials need no preparation: the model's methods read the weights
        return 0

    cdef int decode(self, Workspace ws, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        with gil:
            y[0] = self.find(ws, i)
        return self.evaluate(ws, i, y, value)

    cdef int y_true(self, Py_ssize_t i, int32_t* y) except -1 nogil:
        y[0] = 0
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        with gil:
            value[0] = self.loss_of(i, y[0])
        return 0

    cdef int evaluate(self, Workspace ws, Py_ssize_t i, const int32_t* y,
                      double* value) except -1 nogil:
        with gil:
            value[0] = self.value(ws, i, y[0])
        return 0

    cdef int evaluate_mean(self, Workspace ws, Py_ssize_t i, Py_ssize_t n_keys,
                           const int32_t* keys, const double* values,
                           double* value) except -1 nogil:
        cdef Py_ssize_t k
        with gil:
            value[0] = 0.0
            for k in range(n_keys):
                value[0] += values[k] * self.value(ws, i, keys[k])
        return 0

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        return self.has_key(i, y[0])

    cdef int has_key(self, Py_ssize_t i, Py_ssize_t key) except -1 nogil:
        with gil:
            return self.has_output(i, key)

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        keys[0] = y[0]
        return 1

    # ---- changes of mean parameters ----

    cdef int add_labeling(self, Workspace ws, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil:
        with gil:
            ws.add(y[0], coef)
        return 0

    cdef int add_mean(self, Workspace ws, Py_ssize_t i, Py_ssize_t n_keys,
                      const int32_t* keys, const double* values, double coef,
                      double* value) except -1 nogil:
        cdef Py_ssize_t k
        with gil:
            for k in range(n_keys):
                ws.add(keys[k], coef * values[k])
        if value == NULL:
            return 0
        return self.evaluate_mean(ws, i, n_keys, keys, values, value)

    cdef int change_norm(self, Workspace ws, Py_ssize_t i,
                         double* value) except -1 nogil:
        with gil:
            value[0] = self.norm(ws, i)
        return 0

    cdef int scatter(self, Workspace ws, Py_ssize_t i, double scale,
                     double* out) except -1 nogil:
        with gil:
            self.add_change(ws, i, scale, PyMemoryView_FromMemory(
                <char*> out, self.n_weights * sizeof(double), PyBUF_WRITE))
        return 0

    cdef int clear(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        with gil:
            ws.clear()
        return 0

    # ---- inner products ----

    cdef int has_gram(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        # products of stored vectors take less time than another oracle call
        return 1

    cdef int gram_row(self, Workspace ws, Py_ssize_t i, const int32_t* y,
                      Py_ssize_t n_labelings, const int32_t* labelings,
                      double* out) except -1 nogil:
        cdef Py_ssize_t k
        with gil:
            row = self.products(
                ws, i, y[0], [labelings[k] for k in range(n_labelings)])
            for k in range(n_labelings):
                out[k] = row[k]
        return 0
