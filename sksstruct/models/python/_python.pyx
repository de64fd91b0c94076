"""Models that are written in Python, as solvers see them.

Outputs of an example get numbers as they are met, 0 for the observed one, and a
labeling is one number. Mean parameters are the weights of outputs. Joint feature
vectors are kept as far as memory is set aside for them, and formed again where not.
"""

import pickle
from copy import deepcopy
from uuid import uuid4

import numpy as np
from scipy import sparse

from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace

from sksstruct.models.tables._box import fill_bounds

# Bytes of joint feature vectors that are kept.
KEPT = 2**28
# Outputs of one example.
MOST = 2**20


def fingerprint(y):
    """A hashable value, the same for equal outputs."""
    if isinstance(y, np.ndarray):
        return ("array", y.dtype.str, y.shape, y.tobytes()) if y.dtype != object else (
            "array", y.shape, tuple(map(fingerprint, y.ravel().tolist())))
    if isinstance(y, (list, tuple)):
        return (type(y).__name__, *map(fingerprint, y))
    if isinstance(y, dict):
        return ("dict", frozenset((fingerprint(k), fingerprint(v))
                                  for k, v in y.items()))
    try:
        hash(y)
    except TypeError:
        return pickle.dumps(y)
    if isinstance(y, (str, bytes, int, float, complex, frozenset, np.generic)):
        return y
    # the hash of other objects may be their address
    return y if type(y).__eq__ is not object.__eq__ else pickle.dumps(y)


cdef class PythonWorkspace(Workspace):
    cdef object array         # the weights that scores are of, not to be written
    cdef list change          # of (number, coefficient)
    cdef object g             # A_i^T d
    cdef object where         # its entries that may not be zero; None for all
    cdef bint formed

    def read(self, w):
        Workspace.read(self, w)
        self.array = w.view()
        self.array.flags.writeable = False


cdef class BoundPython(BoundModel):
    """A `StructuredModel` bound to data.

    Parameters
    ----------
    spec : StructuredModel
        The model.
    X, Y : list
        Inputs and observed outputs.
    example_weights : ndarray of shape (n_examples,)
        The p_i.
    """

    cdef readonly object spec, X, Y
    cdef list outputs, losses, numbers
    cdef dict _kept
    cdef Py_ssize_t _bytes
    cdef object _token

    def __init__(self, spec, X, Y, example_weights):
        self.spec, self.X, self.Y = spec, X, Y
        n = len(X)
        if example_weights is None:
            example_weights = np.full(n, 1.0 / n)
        self.set_sizes(np.ones(n, dtype=np.intp), example_weights)
        self.max_keys, self.key_space, self.visit_work = 1, MOST, 1e6
        self.outputs = [[y] for y in Y]
        self.numbers = [{fingerprint(y): 0} for y in Y]
        self.losses = [[0.0] for _ in Y]
        self._kept, self._bytes = {}, 0
        first = self.features(0, 0)
        self.n_weights = first[2]
        self.oracle_bounds = spec.bounds()
        self._token = uuid4().hex

    @property
    def signature(self):
        # numbers of outputs mean nothing to another problem
        return self._token

    @property
    def oracles(self):
        return ("max", "topk") if self.spec._has_topk else ("max",)

    def views(self, w):
        return {"coef": w}

    def flatten_bounds(self, bounds):
        if not isinstance(bounds, dict):
            raise ValueError(
                f"bounds must be a dict of pairs (lower, upper), got {bounds!r}")
        flat = [np.full(self.n_weights, limit) for limit in (-np.inf, np.inf)]
        fill_bounds(*(self.views(array) for array in flat), bounds)
        return flat

    def _workspace(self, training):
        cdef PythonWorkspace ws = PythonWorkspace()
        ws.change, ws.formed = [], False
        ws.g = np.zeros(self.n_weights) if training else None
        return ws

    def features(self, i, number):
        """Indices (None: all), values and length of a joint feature vector."""
        found = self._kept.get((i, number))
        if found is not None:
            return found
        phi = self.spec.joint_feature(self.X[i], self.outputs[i][number])
        if sparse.issparse(phi):
            phi = sparse.csr_array(phi.reshape(1, -1) if phi.ndim == 1 else phi)
            if phi.shape[0] != 1:
                raise ValueError(
                    f"joint_feature of example {i} has shape {phi.shape}, expected one "
                    "row")
            # a copy, as the caller may use its arrays again
            phi = phi.astype(np.float64, copy=True)
            phi.sum_duplicates()
            found = phi.indices, phi.data, phi.shape[1]
        else:
            values = np.array(phi, dtype=np.float64)
            if values.ndim == 2 and values.shape[0] == 1:
                values = values[0]
            if values.ndim != 1 or not len(values):
                raise ValueError(
                    f"joint_feature of example {i} has shape {values.shape}, expected "
                    "a vector")
            found = None, values, len(values)
            if 4 * np.count_nonzero(values) < len(values):
                where = np.flatnonzero(values)
                found = where, values[where], len(values)
        if self.n_weights and found[2] != self.n_weights:
            raise ValueError(
                f"joint_feature of example {i} has {found[2]} entries, that of the "
                f"first had {self.n_weights}")
        if not np.isfinite(found[1]).all():
            raise ValueError(f"joint_feature of example {i} is not finite")
        size = 16 * len(found[1]) + 200
        if self._bytes + size > KEPT:
            self._kept.clear()
            self._bytes = 0
        self._kept[i, number] = found
        self._bytes += size
        return found

    def number(self, i, y):
        """The number of an output, a new one where it was not met before."""
        if y is None:
            raise ValueError(f"the oracle returned None for example {i}")
        key = fingerprint(y)
        number = self.numbers[i].get(key)
        if number is None:
            number = len(self.outputs[i])
            if number == MOST:
                raise ValueError(f"more than {MOST} different outputs of example {i}")
            loss = float(self.spec.loss(self.Y[i], y))
            if not 0.0 <= loss < np.inf:
                raise ValueError(
                    f"loss of an output of example {i} is {loss}: it must be finite "
                    "and not negative")
            self.outputs[i].append(deepcopy(y))
            self.losses[i].append(loss)
            self.numbers[i][key] = number
        return number

    def value(self, PythonWorkspace ws, i, number):
        """Loss and score of an output at the weights."""
        where, values, _ = self.features(i, number)
        w = ws.array if where is None else ws.array[where]
        return ws.loss_scale * self.losses[i][number] + float(values @ w)

    def find(self, PythonWorkspace ws, i):
        """Number of the best output, the loss included."""
        w, scale = ws.array, ws.loss_scale
        if scale == 0.0:
            return self.number(i, self.spec.decode(self.X[i], w))
        if scale != 1.0:
            w = w / scale
            w.flags.writeable = False
        return self.number(
            i, self.spec.loss_augmented_decode(self.X[i], self.Y[i], w))

    def topk(self, Workspace workspace, Py_ssize_t i, Py_ssize_t k):
        ws = <PythonWorkspace> workspace
        scale = ws.loss_scale
        w = ws.array if scale == 1.0 else ws.array / scale
        found = self.spec.loss_augmented_topk(self.X[i], self.Y[i], w, k)
        numbers = [self.number(i, y) for y in found]
        if not 0 < len(set(numbers)) == len(numbers) <= k:
            raise ValueError(
                f"loss_augmented_topk gives {len(numbers)} outputs of example {i}, "
                f"{len(set(numbers))} of them different; {k} were asked for")
        values = np.array([self.value(ws, i, number) for number in numbers])
        return np.array(numbers, dtype=np.int32)[:, None], values

    # ---- the interface of solvers ----

    cdef int potentials(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        return 0

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        with gil:
            y[0] = self.find(workspace, i)
            value[0] = self.value(workspace, i, y[0])
        return 0

    cdef int y_true(self, Py_ssize_t i, int32_t* y) except -1 nogil:
        y[0] = 0
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        with gil:
            value[0] = self.losses[i][y[0]]
        return 0

    cdef int evaluate(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      double* value) except -1 nogil:
        with gil:
            value[0] = self.value(workspace, i, y[0])
        return 0

    cdef int evaluate_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n,
                           const int32_t* keys, const double* values,
                           double* value) except -1 nogil:
        cdef Py_ssize_t p
        with gil:
            value[0] = 0.0
            for p in range(n):
                value[0] += values[p] * self.value(workspace, i, keys[p])
        return 0

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        keys[0] = y[0]
        return 1

    cdef int add_labeling(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil:
        with gil:
            (<PythonWorkspace> workspace).change.append((y[0], coef))
        return 0

    cdef int add_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n,
                      const int32_t* keys, const double* values, double coef,
                      double* value) except -1 nogil:
        cdef Py_ssize_t p
        with gil:
            for p in range(n):
                (<PythonWorkspace> workspace).change.append(
                    (keys[p], coef * values[p]))
        return self.evaluate_mean(workspace, i, n, keys, values, value)

    def form(self, PythonWorkspace ws, i):
        """A_i^T d into the workspace."""
        touched, every = [], False
        for number, coef in ws.change:
            where, values, _ = self.features(i, number)
            if where is None:
                ws.g += coef * values
                every = True
            else:
                ws.g[where] += coef * values
                touched.append(where)
        ws.where = None
        if not every:
            ws.where = (np.unique(np.concatenate(touched)) if touched
                        else np.zeros(0, dtype=np.intp))
        ws.change.clear()
        ws.formed = True

    def norm(self, PythonWorkspace ws):
        """|A_i^T d|^2"""
        g = ws.g if ws.where is None else ws.g[ws.where]
        return float(g @ g)

    def clear_formed(self, PythonWorkspace ws):
        """Forget the change that was formed."""
        ws.g[slice(None) if ws.where is None else ws.where] = 0.0
        ws.formed = False

    cdef int change_norm(self, Workspace workspace, Py_ssize_t i,
                         double* value) except -1 nogil:
        with gil:
            self.form(workspace, i)
            value[0] = self.norm(workspace)
        return 0

    cdef int scatter(self, Workspace workspace, Py_ssize_t i, double scale,
                     double* out) except -1 nogil:
        cdef Py_ssize_t n = self.n_weights
        with gil:
            ws = <PythonWorkspace> workspace
            if not ws.formed:
                self.form(ws, i)
            where = slice(None) if ws.where is None else ws.where
            np.asarray(<double[:n]> out)[where] += scale * ws.g[where]
        return 0

    cdef int clear(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        with gil:
            (<PythonWorkspace> workspace).change.clear()
            if (<PythonWorkspace> workspace).formed:
                self.clear_formed(workspace)
        return 0

    cdef int has_gram(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        return 1

    def products(self, PythonWorkspace ws, i, y, labelings):
        """Inner products of an output's features with those of others."""
        y_true = self.features(i, 0)
        ws.change += [(y, 1.0), (0, -1.0)]
        self.form(ws, i)
        out, base = [], None
        for number in [0, *labelings]:
            where, values, _ = y_true if number == 0 else self.features(i, number)
            product = float(values @ (ws.g if where is None else ws.g[where]))
            base = product if base is None else base
            out.append(product - base)
        self.clear_formed(ws)
        return out[1:]

    cdef int gram_row(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      Py_ssize_t n, const int32_t* labelings,
                      double* out) except -1 nogil:
        cdef Py_ssize_t k
        with gil:
            row = self.products(
                workspace, i, y[0], [labelings[k] for k in range(n)])
            for k in range(n):
                out[k] = row[k]
        return 0
